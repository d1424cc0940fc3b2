// The messages of a chat as the reader sees them.

import {contentOf, sizeText} from './attachments.js';
import {FramePacer, button, copyButton, element} from './dom.js';
import {canContinue, figures, secondsText} from './generation.js';
import {MarkdownView, codeElement} from './markdown.js';

function fileElement({name, text}) {
  return element('details', {className: 'file'},
                 element('summary', {}, `${name}, ${sizeText(new Blob([text]).size)}`),
                 element('pre', {tabIndex: 0}, text));
}

// A question; `actions`: {edit(text)}.
class QuestionView {
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.root = element('article', {className: 'question', 'aria-label': 'You'});
    this.show();
  }

  show() {
    const {text, files} = this.message;
    this.root.replaceChildren(
        element('div', {className: 'bubble', dir: 'auto', hidden: text === ''}, text),
        ...files.map(fileElement),
        element('div', {className: 'actions'},
                button('Edit', () => this.edit(),
                       {className: 'quiet', 'aria-label': 'Edit this message'}),
                copyButton(() => contentOf(this.message), 'Copy this message')));
  }

  edit() {
    const area = element('textarea', {value: this.message.text, rows: 3, dir: 'auto',
                                      'aria-label': 'Edit your message'});
    const cancel = () => {
      this.show();
      this.root.querySelector('button').focus();
    };
    const send = () => {
      if (area.value.trim() || this.message.files.length > 0) this.actions.edit(area.value);
    };
    area.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') {
        event.stopPropagation();
        cancel();
      } else if (isSendKey(event)) {
        event.preventDefault();
        send();
      }
    });
    this.root.replaceChildren(
        area, element('p', {className: 'hint'}, 'What follows this message is replaced.'),
        element('div', {className: 'actions'}, button('Send', send, {className: 'primary'}),
                button('Cancel', cancel)));
    area.focus();
  }
}

// Enter, unless it ends a composition of characters or the keyboard is one of a phone.
export function isSendKey(event) {
  return event.key === 'Enter' && !event.shiftKey && !event.isComposing &&
      !matchMedia('(pointer: coarse)').matches;
}

// The arrows between the variants of an answer; null: it has no others.
function variantsElement({earlier, later}, showVariant) {
  if (earlier.length + later.length === 0) return null;
  const arrow = (label, name, step, others) => button(label, () => showVariant(step), {
    className: 'quiet', 'aria-label': name, disabled: others.length === 0});
  const number = `${earlier.length + 1} / ${earlier.length + 1 + later.length}`;
  return element('span', {className: 'variants'},
                 arrow('‹', 'Previous answer', -1, earlier), number,
                 arrow('›', 'Next answer', 1, later));
}

// An answer; `actions`: {retry(), goOn(), showVariant(step)}. update() shows what has changed
// since the last call.
class AnswerView {
  constructor(answer, actions) {
    this.answer = answer;
    this.shownReasoning = '';
    this.thoughts = element('div', {className: 'thoughts', dir: 'auto'});
    this.thoughtsTitle = element('span');
    this.preview = element('span', {className: 'preview', 'aria-hidden': 'true'});
    this.thinking = element('details', {className: 'thinking', hidden: true},
                            element('summary', {}, this.thoughtsTitle, this.preview),
                            this.thoughts);
    this.text = element('div', {className: 'text'});
    this.markdown = new MarkdownView(this.text);
    this.calls = element('div');
    this.note = element('p', {className: 'note', hidden: true});
    this.figures = element('p', {className: 'figures'});
    this.retry = button('Retry', actions.retry,
                        {className: 'quiet last-only', 'aria-label': 'Ask for another answer'});
    this.goOn = button('Continue', actions.goOn,
                       {className: 'quiet last-only', 'aria-label': 'Continue this answer'});
    this.variants = variantsElement(answer, actions.showVariant);
    this.copy = copyButton(() => answer.text, 'Copy this answer');
    this.root = element('article', {className: 'answer', 'aria-label': 'Answer'}, this.thinking,
                        this.text, this.calls, this.note,
                        element('footer', {},
                                element('div', {className: 'actions'}, this.variants, this.copy,
                                        this.retry, this.goOn),
                                this.figures));
    this.update();
  }

  update() {
    const {answer, root} = this;
    const isStreaming = answer.state === 'streaming';
    root.setAttribute('aria-busy', String(isStreaming));
    root.dataset.state = answer.state;
    root.classList.toggle('waiting', isStreaming && answer.firstTime === null);
    this.updateThinking(isStreaming);
    this.markdown.update(answer.text);
    this.updateCalls();
    this.updateNote();
    this.copy.hidden = this.retry.hidden = isStreaming;
    this.goOn.hidden = !canContinue(answer);
    this.figures.replaceChildren(...figures(answer).map(
        ([text, title]) => element('span', {title}, text)));
  }

  updateThinking(isStreaming) {
    const {reasoning, thoughtTime, lastTime, usage} = this.answer;
    if (!reasoning) return;
    this.thinking.hidden = false;
    if (reasoning !== this.shownReasoning) {
      this.thoughts.append(reasoning.slice(this.shownReasoning.length));
      this.shownReasoning = reasoning;
    }
    const isThinking = isStreaming && thoughtTime === null;
    this.thinking.classList.toggle('running', isThinking);
    const tokens = usage?.completion_tokens_details?.reasoning_tokens;
    this.thoughtsTitle.textContent = isThinking ?
        `Thinking for ${secondsText(lastTime)}` :
        `Thought for ${secondsText(thoughtTime ?? lastTime ?? 0)}` +
            (tokens ? `, ${tokens} tokens` : '');
    this.preview.textContent = isThinking ? reasoning.slice(-300).trim().split('\n').pop() : '';
  }

  updateCalls() {
    const {calls} = this.answer;
    if (calls.length === 0) return;
    this.calls.replaceChildren(...calls.map((call) => codeElement(
        {language: `call of ${call.name}`, text: call.arguments})));
  }

  updateNote() {
    const {answer} = this;
    const notes = {
      failed: answer.problem,
      stopped: 'Stopped.',
      interrupted: 'Interrupted: the page was left while this was written.',
      done: answer.finish === 'length' ? 'Cut off: the limit of tokens is reached.' : '',
    };
    const text = notes[answer.state] ?? '';
    this.note.hidden = !text;
    this.note.textContent = text;
    this.note.classList.toggle('problem', answer.state === 'failed');
    if (answer.state === 'failed') {
      this.note.setAttribute('role', 'alert');
    }
  }
}

// All messages of one chat, in a column that follows its end while the reader is there.
export class ChatView {
  // `actions`: {edit(index, text), retry(), goOn(), showVariant(index, step)}; retry and goOn are of
  // the last answer.
  constructor(scroller, column, jump, actions) {
    this.scroller = scroller;
    this.column = column;
    this.jump = jump;
    this.actions = actions;
    this.followsEnd = true;
    this.lastTop = 0;
    this.last = null;  // the view of the last message
    this.pacer = new FramePacer(() => this.draw());
    scroller.addEventListener('scroll', () => this.onScroll(), {passive: true});
    new ResizeObserver(() => this.keepEnd()).observe(scroller);
    jump.addEventListener('click', () => this.toEnd());
  }

  show(chat) {
    const views = chat.messages.map((message, index) => message.role === 'user' ?
        new QuestionView(message, {edit: (text) => this.actions.edit(index, text)}) :
        new AnswerView(message, {...this.actions,
                                 showVariant: (step) => this.actions.showVariant(index, step)}));
    this.column.replaceChildren(...views.map((view) => view.root));
    this.last = views[views.length - 1] ?? null;
    this.toEnd();
  }

  // Shows the chat with another variant of the answer at `index`, which stays where it was. The
  // focus goes back on the arrow that was pressed, or on the other one at the end.
  showVariant(chat, index, step) {
    const top = this.scroller.scrollTop;
    this.show(chat);
    const arrows = [...this.column.children[index].querySelectorAll('.variants button')];
    if (step > 0) arrows.reverse();
    arrows.find((arrow) => !arrow.disabled)?.focus({preventScroll: true});
    this.scroller.scrollTop = top;
    this.followsEnd = false;
    this.onScroll();
  }

  // The last answer has changed.
  update() {
    this.pacer.request();
  }

  draw() {
    if (this.last instanceof AnswerView) this.last.update();
    this.keepEnd();
  }

  onScroll() {
    const {scrollHeight, scrollTop, clientHeight} = this.scroller;
    // Text that grows below moves the end away; only the reader moves up.
    if (scrollHeight - scrollTop - clientHeight < 48) {
      this.followsEnd = true;
    } else if (scrollTop < this.lastTop) {
      this.followsEnd = false;
    }
    this.lastTop = scrollTop;
    this.jump.hidden = this.followsEnd;
  }

  keepEnd() {
    if (this.followsEnd) this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  toEnd() {
    this.followsEnd = true;
    this.jump.hidden = true;
    this.keepEnd();
  }
}
