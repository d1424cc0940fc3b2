// One answer as it arrives.
//
// answer.state: 'streaming', 'done', 'stopped' (by the reader), 'failed' (answer.problem says why),
// 'interrupted' (the page was closed or reloaded meanwhile). Times are milliseconds since the
// request was sent; null: not yet.

import {chatChunks} from './server_api.js';

export function newAnswer() {
  return {role: 'assistant', text: '', reasoning: '', calls: [], state: 'streaming', problem: '',
          finish: null, usage: null, pieces: 0, firstTime: null, thoughtTime: null, lastTime: null};
}

export class Generation {
  // `body`: of the request. `onChange()`: something of the answer has changed.
  constructor(answer, body, key, onChange) {
    this.answer = answer;
    this.body = body;
    this.key = key;
    this.onChange = onChange;
    this.abort = new AbortController();
    this.start = performance.now();
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
    if (chunk.usage) answer.usage = chunk.usage;
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
