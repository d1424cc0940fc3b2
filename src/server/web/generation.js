// One answer as it arrives.
//
// An answer of a chat may have variants: those before it and behind it, in the order they were
// written, are answer.earlier and answer.later. These have none themselves; the messages that follow
// such a variant are its `rest`. What follows the answer itself are the next messages of the chat.
//
// answer.state: 'streaming', 'done', 'stopped' (by the reader), 'failed' (answer.problem says why),
// 'interrupted' (the page was closed or reloaded meanwhile). Times are milliseconds since the
// request was sent; null: not yet.

import {chatChunks} from './server_api.js';

export function newAnswer() {
  return {role: 'assistant', text: '', reasoning: '', calls: [], state: 'streaming', problem: '',
          finish: null, usage: null, pieces: 0, firstTime: null, thoughtTime: null, lastTime: null,
          earlier: [], later: [], rest: []};
}

// Returns whether the answer was cut and has text that the model can continue.
export function canContinue(answer) {
  const isCut = ['stopped', 'interrupted', 'failed'].includes(answer.state) ||
      (answer.state === 'done' && answer.finish === 'length');
  return isCut && Boolean(answer.text || answer.reasoning) && answer.calls.length === 0;
}

function variantsOf(answer, rest) {
  const alone = {...answer, earlier: [], later: [], rest};
  return [...answer.earlier, alone, ...answer.later];
}

// Replaces the answer at `index` by the variant `step` places behind it, and the messages after it
// by those that follow that variant. `step` is 1 or -1; the variant must exist.
export function withOtherVariant(messages, index, step) {
  const answer = messages[index];
  const all = variantsOf(answer, messages.slice(index + 1));
  const k = answer.earlier.length + step;
  const other = {...all[k], earlier: all.slice(0, k), later: all.slice(k + 1), rest: []};
  return [...messages.slice(0, index), other, ...all[k].rest];
}

// Returns an empty answer that follows all variants of `answer`, the last message of its chat.
// Variants without any text or messages are left out.
export function newVariant(answer) {
  return {...newAnswer(), earlier: variantsOf(answer, []).filter(
      ({text, reasoning, calls, rest}) => text || reasoning || calls.length + rest.length > 0)};
}

// Adds the usage of an answer and of its continuation: the prompt is that of the first part.
function sumOfUsage(first, second) {
  const details = {};
  for (const part of [first, second]) {
    for (const [name, value] of Object.entries(part.completion_tokens_details ?? {})) {
      details[name] = (details[name] ?? 0) + value;
    }
  }
  return {...first, completion_tokens: first.completion_tokens + second.completion_tokens,
          completion_tokens_details: details};
}

export class Generation {
  // `body` is that of the request, whose answer is appended to `answer`. `onChange()` is called
  // when the answer has changed.
  constructor(answer, body, key, onChange) {
    this.answer = answer;
    this.body = body;
    this.key = key;
    this.onChange = onChange;
    this.abort = new AbortController();
    this.before = {usage: answer.usage, pieces: answer.pieces};  // of a part that is continued
    this.start = performance.now() - (answer.lastTime ?? 0);
    if (!answer.text) answer.thoughtTime = null;  // it may think on
    Object.assign(answer, {state: 'streaming', problem: '', finish: null});
  }

  // Ends when the answer has; never throws.
  async run() {
    const answer = this.answer;
    try {
      for await (const chunk of chatChunks(this.body, this.key, this.abort.signal)) {
        this.add(chunk);
        this.onChange();
      }
      answer.state = 'done';
    } catch (error) {
      const isStopped = error.name === 'AbortError';
      answer.state = isStopped ? 'stopped' : 'failed';
      if (!isStopped) answer.problem = error.message;
    }
    if (answer.reasoning && answer.thoughtTime === null) answer.thoughtTime = answer.lastTime;
    this.onChange();
  }

  stop() {
    this.abort.abort();
  }

  add(chunk) {
    const answer = this.answer;
    if (chunk.usage) this.setUsage(chunk.usage);
    const choice = chunk.choices?.[0];
    if (!choice) return;
    if (choice.finish_reason) answer.finish = choice.finish_reason;
    const delta = choice.delta ?? {};
    const reasoning = delta.reasoning_content ?? delta.reasoning ?? '';
    const content = delta.content ?? '';
    if (!reasoning && !content && !delta.tool_calls) return;
    answer.pieces++;
    answer.lastTime = performance.now() - this.start;
    answer.firstTime ??= answer.lastTime;
    answer.reasoning += reasoning;
    if (content || delta.tool_calls) {
      if (answer.reasoning) answer.thoughtTime ??= answer.lastTime;
      answer.text += content;
    }
    for (const call of delta.tool_calls ?? []) this.addCall(call);
  }

  setUsage(usage) {
    const {before, answer} = this;
    if (before.usage) {
      answer.usage = sumOfUsage(before.usage, usage);
    } else if (before.pieces === 0) {  // else the tokens of the first part are not known
      answer.usage = usage;
    }
  }

  addCall(delta) {
    const calls = this.answer.calls;
    const index = delta.index ?? calls.length;
    while (calls.length <= index && calls.length < 128) calls.push({name: '', arguments: ''});
    const call = calls[index];
    if (!call) return;
    call.name += delta.function?.name ?? '';
    call.arguments += delta.function?.arguments ?? '';
  }
}

export function secondsText(milliseconds) {
  const seconds = milliseconds / 1000;
  if (seconds >= 60) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
}

function percent(part, whole) {
  return `${Math.round(100 * part / whole)} %`;
}

// The line under an answer: parts, each [text, what it means].
export function figures(answer) {
  const parts = [];
  const {usage, firstTime, lastTime} = answer;
  if (firstTime === null) return parts;
  // Without usage a piece of the stream counts as a token, which it often is.
  const tokens = usage?.completion_tokens || answer.pieces;
  const about = usage?.completion_tokens ? '' : '≈ ';
  const seconds = (lastTime - firstTime) / 1000;
  parts.push([`${about}${tokens} tokens`, 'Tokens of the answer, with its thoughts']);
  if (tokens > 1 && seconds > 0) {
    parts.push([`${about}${((tokens - 1) / seconds).toFixed(1)} tokens/s`,
                'Tokens a second behind the first']);
  }
  parts.push([`first after ${(firstTime / 1000).toFixed(2)} s`, 'Time to the first token']);
  if (usage?.prompt_tokens) {
    const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
    parts.push([`prompt ${usage.prompt_tokens}, ${percent(cached, usage.prompt_tokens)} cached`,
                `Tokens of the prompt; ${cached} were still known`]);
  }
  const accepted = usage?.completion_tokens_details?.accepted_prediction_tokens ?? 0;
  const drafted = accepted + (usage?.completion_tokens_details?.rejected_prediction_tokens ?? 0);
  if (drafted > 0) {
    parts.push([`drafts ${percent(accepted, drafted)} accepted`,
                `${accepted} of ${drafted} drafted tokens were right`]);
  }
  return parts;
}
