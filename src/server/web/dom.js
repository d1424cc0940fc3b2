// Helpers for the tree of the page. Text always goes through text nodes; nothing here, or anywhere
// in this page, parses markup.

// element('p', {className: 'note', title: '...'}, 'text', node, ...): keys with a dash become
// attributes, the others properties; `on` holds listeners by event. null children are left out.
// Children come first: with dir=auto each one added has the browser look at all of them.
export function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  node.append(...children.filter((child) => child !== null));
  for (const [name, value] of Object.entries(properties)) {
    if (name === 'on') {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else if (name.includes('-') || name === 'role') {
      node.setAttribute(name, value);
    } else {
      node[name] = value;
    }
  }
  return node;
}

export function button(label, onClick, properties = {}) {
  return element('button', {type: 'button', on: {click: onClick}, ...properties}, label);
}

export function byId(id) {
  return document.getElementById(id);
}

// For readers of screens; what is seen says it otherwise.
export function announce(text) {
  byId('announcer').textContent = text;
}

// navigator.clipboard is there only for https and localhost; a server in the house has neither.
async function copyText(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = element('textarea', {value: text, className: 'offscreen'});
  const focused = document.activeElement;
  document.body.append(area);
  area.select();
  const copied = document.execCommand('copy');
  area.remove();
  focused?.focus();
  if (!copied) throw new Error('not allowed');
}

// `text`: a function, asked when the button is pressed.
export function copyButton(text, name) {
  const node = button('Copy', async () => {
    try {
      await copyText(text());
      node.textContent = 'Copied';
      announce('Copied');
    } catch {
      node.textContent = 'Not allowed';
    }
    setTimeout(() => { node.textContent = 'Copy'; }, 1500);
  }, {className: 'quiet', 'aria-label': name});
  return node;
}

// Calls `draw` at most once a frame, and gives it no more than a fifth of the time.
export class FramePacer {
  constructor(draw) {
    this.draw = draw;
    this.isWaiting = false;
    this.nextTime = 0;
  }

  request() {
    if (this.isWaiting) return;
    this.isWaiting = true;
    const delay = this.nextTime - performance.now();
    const onFrame = () => requestAnimationFrame(() => this.run());
    if (delay > 16) {
      setTimeout(onFrame, delay);
    } else {
      onFrame();
    }
  }

  run() {
    this.isWaiting = false;
    const start = performance.now();
    this.draw();
    const end = performance.now();
    this.nextTime = end + 4 * (end - start);
  }
}
