// The dialog with the settings of a chat. Wrong values are marked as they are typed, and not kept.

import {byId, element} from './dom.js';
import {NUMBERS, isRight, rangeText} from './settings.js';

function numberField([name, number]) {
  const hint = element('span', {className: 'hint', id: `${name}-range`}, rangeText(number));
  const input = element('input', {name, inputMode: 'decimal', autocomplete: 'off',
                                  placeholder: number.empty ?? 'default',
                                  'aria-describedby': hint.id});
  return element('div', {}, element('label', {}, number.label, input), hint);
}

export class SettingsDialog {
  // `actions`: {keep(settings, key), closed()}.
  constructor(actions) {
    this.actions = actions;
    this.root = byId('settings');
    this.form = this.root.querySelector('form');
    byId('numbers').replaceChildren(...Object.entries(NUMBERS).map(numberField));
    this.form.addEventListener('submit', (event) => {
      const wrong = this.form.querySelector('[aria-invalid="true"]');
      if (!wrong) return;
      event.preventDefault();
      wrong.focus();
    });
    this.root.addEventListener('input', () => this.mark());
    // Each when it has been entered: `close` comes some time after the dialog has gone, and not at
    // all if the page is left before. Not at every key: the chat is saved whole.
    this.root.addEventListener('change', () => this.keep());
    this.root.addEventListener('close', () => {
      this.keep();  // also what Escape has left without a change
      actions.closed();
    });
  }

  get isOpen() {
    return this.root.open;
  }

  open(settings, key) {
    this.settings = settings;
    for (const name of this.names()) this.form.elements[name].value = settings[name];
    this.form.elements.api_key.value = key;
    this.mark();
    this.root.showModal();
  }

  names() {
    return Object.keys(this.settings).filter((name) => name in this.form.elements);
  }

  mark() {
    for (const name of Object.keys(NUMBERS)) {
      const input = this.form.elements[name];
      input.setAttribute('aria-invalid', String(!isRight(name, input.value)));
    }
  }

  keep() {
    for (const name of this.names()) {
      const text = this.form.elements[name].value;
      if (isRight(name, text)) this.settings[name] = text;
    }
    this.actions.keep(this.settings, this.form.elements.api_key.value.trim());
  }
}
