// Chats as a file of JSON: {"format": "fathom.chats", "version": 1, "chats": [...]}.

import {endInterrupted, newId, readChat, readList, readObject} from './chat_record.js';
import {element} from './dom.js';

const FORMAT = 'fathom.chats';
const VERSION = 1;
const MAX_BYTES = 16 << 20;  // of a file; browsers keep less
const MAX_CHATS = 10_000;
const MAX_TITLE = 120;       // characters; as of the field for it

// Has the browser save a file with the chats.
export function exportChats(chats, name) {
  const text = JSON.stringify({format: FORMAT, version: VERSION, chats}, null, 1);
  const address = URL.createObjectURL(new Blob([text], {type: 'application/json'}));
  const fileName = name.replace(/[^\p{L}\p{N}._-]+/gu, ' ').trim().slice(0, 60) || 'chat';
  element('a', {href: address, download: `${fileName}.json`}).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

// The chats in a file; `isTaken(id)`: a chat of this browser has the id, and the one from the file
// gets another. Throws an Error with a sentence for the reader.
export async function importChats(file, isTaken) {
  if (file.size > MAX_BYTES) {
    throw new Error('The file is too large: ' +
                    `expected at most ${MAX_BYTES} bytes, found ${file.size}.`);
  }
  let value;
  try {
    value = JSON.parse(await file.text());
  } catch {
    throw new Error('The file is not JSON.');
  }
  const {format, version, chats} = readObject(value, 'The file');
  if (format !== FORMAT || version !== VERSION) {
    throw new Error(`The file has no chats: expected the format “${FORMAT}”, version ${VERSION}.`);
  }
  const ids = new Set();
  return readList(chats, 'chats', MAX_CHATS, (item, path) => {
    const chat = readChat(item, path);
    endInterrupted(chat);
    chat.title = chat.title.slice(0, MAX_TITLE);
    if (!/^[0-9a-f]{24}$/.test(chat.id) || ids.has(chat.id) || isTaken(chat.id)) chat.id = newId();
    ids.add(chat.id);
    return chat;
  });
}
