// Stores in the browser each chat under a key of its own, so that two tabs do not undo each
// other's work; settings; the key of the API.

import {readChat} from './chat_record.js';
import {readSettings} from './settings.js';

const CHAT_PREFIX = 'fathom.chat.';

export class Storage {
  // `onProblem(text)`: what could not be kept, and why.
  constructor(onProblem) {
    this.onProblem = onProblem;
  }

  // Whole chats only: what another program left under our keys is passed over.
  static parseChat(text) {
    try {
      return readChat(JSON.parse(text), 'chat');
    } catch {
      return null;
    }
  }

  chats() {
    const chats = new Map();
    for (let k = 0; k < localStorage.length; k++) {
      const key = localStorage.key(k);
      if (!key.startsWith(CHAT_PREFIX)) continue;
      const chat = Storage.parseChat(localStorage.getItem(key));
      if (chat) chats.set(chat.id, chat);
    }
    return chats;
  }

  // Returns the settings of new chats: the last that were chosen.
  settings() {
    try {
      return readSettings(JSON.parse(this.get('settings') || '{}'));
    } catch {
      return readSettings({});
    }
  }

  // Returns whether there was room for it.
  save(chat) {
    return this.set(CHAT_PREFIX + chat.id, JSON.stringify(chat));
  }

  remove(chat) {
    localStorage.removeItem(CHAT_PREFIX + chat.id);
  }

  get(name) {
    return localStorage.getItem(`fathom.${name}`) ?? '';
  }

  put(name, value) {
    if (value) {
      this.set(`fathom.${name}`, value);
    } else {
      localStorage.removeItem(`fathom.${name}`);
    }
  }

  set(key, value) {
    try {
      localStorage.setItem(key, value);
      return true;
    } catch {
      this.onProblem('The browser keeps no more: this chat is lost on reload. ' +
                     'Deleting old chats makes room.');
      return false;
    }
  }

  // `onChat(id, chat)`: another tab changed it; null: deleted it.
  watch(onChat) {
    window.addEventListener('storage', (event) => {
      if (!event.key?.startsWith(CHAT_PREFIX)) return;
      const chat = event.newValue === null ? null : Storage.parseChat(event.newValue);
      onChat(event.key.slice(CHAT_PREFIX.length), chat);
    });
  }
}
