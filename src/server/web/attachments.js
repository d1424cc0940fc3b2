// Text files that go with a message: {name, text}.

import {button, element} from './dom.js';

const MAX_BYTES = 512 << 10;  // of all files of a message: chats are kept in the browser
const MAX_FILES = 20;
// Characters that texts do not have; the escape character is allowed: it begins colours in logs.
const BINARY = /[\x00-\x08\x0e-\x1a\x1c-\x1f]/;

export function sizeText(bytes) {
  return bytes < 1024 ? `${bytes} B` : `${Math.ceil(bytes / 1024)} KiB`;
}

// Throws an Error with a sentence for the reader.
async function readFile(file) {
  let text;
  try {
    text = new TextDecoder('utf-8', {fatal: true}).decode(await file.arrayBuffer());
  } catch (error) {
    text = null;
    if (!(error instanceof TypeError)) throw new Error(`“${file.name}” cannot be read.`);
  }
  if (text === null || BINARY.test(text)) {
    throw new Error(`“${file.name}” is not a text in UTF-8. Only text files can be attached.`);
  }
  return {name: file.name.replace(/\s+/g, ' ').slice(0, 200), text, bytes: file.size};
}

// A block of Markdown that nothing in the file ends.
function fencedBlock({name, text}) {
  const longest = Math.max(2, ...Array.from(text.matchAll(/`+/g), ([run]) => run.length));
  const fence = '`'.repeat(longest + 1);
  const language = /\.([A-Za-z0-9]+)$/.exec(name)?.[1] ?? '';
  return `${name}:\n${fence}${language}\n${text}${text.endsWith('\n') ? '' : '\n'}${fence}`;
}

// Returns the text that the model is sent for a message of the user.
export function contentOf({text, files}) {
  return [text, ...files.map(fencedBlock)].filter((part) => part !== '').join('\n\n');
}

// The files that are attached to the message being written, as a list with a button to remove each.
export class AttachmentList {
  // `notify(text)`: why a file was refused.
  constructor(root, notify) {
    this.root = root;
    this.notify = notify;
    this.files = [];
  }

  async add(files) {
    const refused = [];
    for (const file of files) {
      try {
        this.checkRoom(file);
        const read = await readFile(file);
        this.checkRoom(file);  // others may have come meanwhile
        this.files.push(read);
      } catch (error) {
        refused.push(error.message);
      }
    }
    if (refused.length > 0) this.notify(refused.slice(0, 3).join(' '));
    this.show();
  }

  checkRoom(file) {
    if (this.files.length >= MAX_FILES) {
      throw new Error(`“${file.name}” is not attached: a message may have ${MAX_FILES} files.`);
    }
    const used = this.files.reduce((sum, {bytes}) => sum + bytes, 0);
    if (used + file.size > MAX_BYTES) {
      throw new Error(`“${file.name}” is too large: the files of a message may have ` +
                      `${sizeText(MAX_BYTES)}, with it they have ${sizeText(used + file.size)}.`);
    }
  }

  // The files; the list is empty afterwards.
  take() {
    const files = this.files.map(({name, text}) => ({name, text}));
    this.files = [];
    this.show();
    return files;
  }

  show() {
    this.root.hidden = this.files.length === 0;
    this.root.replaceChildren(...this.files.map((file) => element(
        'li', {}, element('span', {title: file.name}, file.name), sizeText(file.bytes),
        button('×', () => {
          this.files.splice(this.files.indexOf(file), 1);
          this.show();
        }, {className: 'quiet', 'aria-label': `Remove ${file.name}`}))));
  }
}
