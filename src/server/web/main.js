// The page: which chat is shown, and what the buttons and keys do.

import {AttachmentList} from './attachments.js';
import {exportChats, importChats} from './chat_file.js';
import {endInterrupted, newChat} from './chat_record.js';
import {matches} from './chat_search.js';
import {titleOf, withoutMarks} from './chat_title.js';
import {announce, button, byId, element} from './dom.js';
import {Generation, newAnswer, newVariant, withOtherVariant} from './generation.js';
import {ChatView, isSendKey} from './message_view.js';
import {chatBody, fetchLoad, fetchModels} from './server_api.js';
import {LoadWatch} from './server_load.js';
import {SettingsDialog} from './settings_dialog.js';
import {Storage} from './storage.js';

const THEMES = ['auto', 'light', 'dark'];
const SAVE_INTERVAL = 1000;  // milliseconds until what an answer has grown by is stored

class Page {
  constructor() {
    this.storage = new Storage((text) => this.notify(text));
    this.chats = this.storage.chats();
    for (const chat of this.chats.values()) endInterrupted(chat);
    this.generations = new Map();  // by id of their chat
    this.view = new ChatView(byId('scroller'), byId('messages'), byId('jump'), {
      edit: (index, text) => this.edit(index, text),
      retry: () => this.retry(),
      goOn: () => this.goOn(),
      showVariant: (index, step) => this.showVariant(index, step),
    });
    this.attachments = new AttachmentList(byId('attachments'), (text) => this.notify(text));
    this.settings = new SettingsDialog({
      keep: (settings, key) => {
        this.keepSettings(settings);
        this.storage.put('api_key', key);
      },
      closed: () => this.closeSettings(),
    });
    this.setTheme(this.storage.get('theme') || 'auto');
    this.listen();
    this.open(this.chats.get(sessionStorage.getItem('fathom.current')) ?? this.newest());
    this.loadModels();
    this.load = new LoadWatch(() => fetchLoad(this.storage.get('api_key')),
                              (load) => this.showLoad(load));
  }

  listen() {
    this.listenToComposer();
    this.listenToChats();
    byId('theme').addEventListener('click', () => {
      this.setTheme(THEMES[(THEMES.indexOf(this.theme) + 1) % THEMES.length]);
    });
    byId('model').addEventListener('change', () => {
      this.storage.put('model', byId('model').value);
    });
    byId('open-settings').addEventListener('click', () => {
      this.settings.open(this.chat.settings, this.storage.get('api_key'));
    });
    document.addEventListener('keydown', (event) => this.onKey(event));
    window.addEventListener('pagehide', (event) => {
      for (const id of this.generations.keys()) this.storage.save(this.chats.get(id));
      // Answers that break off now were interrupted, and did not fail.
      if (!event.persisted) this.generations.clear();
    });
    this.storage.watch((id, chat) => this.onOtherTab(id, chat));
  }

  listenToComposer() {
    byId('composer').addEventListener('submit', (event) => {
      event.preventDefault();
      this.send();
    });
    byId('message').addEventListener('keydown', (event) => {
      if (!isSendKey(event)) return;
      event.preventDefault();
      this.send();
    });
    byId('message').addEventListener('input', () => this.fitMessage());
    byId('attach').addEventListener('change', async () => {
      await this.attachments.add([...byId('attach').files]);
      byId('attach').value = '';  // so that the same file can be chosen again
      this.focusMessage();
    });
    byId('message').addEventListener('paste', (event) => this.attach(event, event.clipboardData));
    // Without this the browser would leave the page and show the file.
    document.addEventListener('dragover', (event) => {
      if (event.dataTransfer.types.includes('Files')) event.preventDefault();
    });
    document.addEventListener('drop', (event) => this.attach(event, event.dataTransfer));
    byId('stop').addEventListener('click', () => {
      this.stop();
      this.focusMessage();
    });
    byId('thinking').addEventListener('change', () => {
      this.keepSettings({...this.chat.settings, thinking: byId('thinking').value});
      this.focusMessage();
    });
  }

  listenToChats() {
    byId('new-chat').addEventListener('click', () => this.startChat());
    byId('search').addEventListener('input', () => this.showChats());
    byId('search').addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || byId('search').value === '') return;
      event.stopPropagation();
      byId('search').value = '';
      this.showChats();
    });
    byId('export-chat').addEventListener('click', () => {
      exportChats([this.chat], this.chat.title);
    });
    byId('export-all').addEventListener('click', () => {
      exportChats(this.chatsByAge(), 'Fathom chats');
    });
    byId('import').addEventListener('change', () => this.import());
    byId('title').addEventListener('change', () => this.rename(byId('title').value));
    byId('title').addEventListener('keydown', (event) => {
      if (event.key === 'Enter') byId('message').focus();
    });
    byId('open-drawer').addEventListener('click', () => this.setDrawer(true));
    byId('scrim').addEventListener('click', () => this.setDrawer(false));
  }

  onKey(event) {
    if (event.altKey && !event.ctrlKey && !event.metaKey && event.code === 'KeyN') {
      event.preventDefault();
      this.startChat();
    } else if (event.key === 'Escape' && !this.settings.isOpen) {
      if (document.body.classList.contains('drawer-open')) {
        this.setDrawer(false);
      } else {
        this.stop();
      }
    }
  }

  // Another tab has the last word on chats that nothing is written to here.
  onOtherTab(id, chat) {
    if (this.generations.has(id)) return;
    if (chat) {
      this.chats.set(id, chat);
    } else {
      this.chats.delete(id);
    }
    if (this.chat.id === id) this.open(chat ?? this.newest());
    this.showChats();
  }

  // Chats

  newest() {
    const [chat] = this.chatsByAge();
    return chat ?? newChat(this.storage.settings());
  }

  chatsByAge() {
    return [...this.chats.values()].sort((a, b) => b.updated - a.updated);
  }

  open(chat) {
    this.chat = chat;
    sessionStorage.setItem('fathom.current', chat.id);
    byId('thinking').value = chat.settings.thinking;
    this.showTitle();
    this.view.show(chat);
    this.showChats();
    this.showState();
  }

  // An empty chat is kept only from its first message on.
  startChat() {
    this.setDrawer(false);
    if (this.chat.messages.length > 0) this.open(newChat(this.storage.settings()));
    byId('message').focus();
  }

  showChats() {
    const query = byId('search').value;
    const found = this.chatsByAge().filter((chat) => matches(chat, query));
    byId('none-found').hidden = found.length > 0 || this.chats.size === 0;
    byId('chats').replaceChildren(...found.map((chat) => {
      const isCurrent = chat === this.chat;
      const open = button(chat.title || 'Untitled', () => {
        this.setDrawer(false);
        this.open(chat);
        byId('message').focus();
      }, {className: 'open', title: chat.title});
      if (isCurrent) open.setAttribute('aria-current', 'true');
      const remove = button('×', () => this.deleteChat(chat),
                            {className: 'delete', 'aria-label': `Delete ${chat.title}`});
      const item = element('li', {}, open, remove);
      item.classList.toggle('current', isCurrent);
      item.classList.toggle('running', this.generations.has(chat.id));
      return item;
    }));
  }

  showTitle() {
    const {title} = this.chat;
    byId('title').value = title;
    document.title = title ? `${title} – Fathom` : 'Fathom';
  }

  rename(title) {
    this.chat.title = withoutMarks(title);
    this.showTitle();
    if (this.chats.has(this.chat.id)) this.storage.save(this.chat);
    this.showChats();
  }

  deleteChat(chat) {
    this.generations.get(chat.id)?.stop();
    this.chats.delete(chat.id);
    this.storage.remove(chat);
    if (chat === this.chat) this.open(this.newest());
    this.showChats();
    byId('message').focus();
    this.notify(`“${chat.title}” is deleted.`, 'Undo', () => {
      this.chats.set(chat.id, chat);
      this.storage.save(chat);
      this.open(chat);
    });
  }

  async import() {
    const [file] = byId('import').files;
    byId('import').value = '';  // so that the same file can be chosen again
    if (!file) return;
    try {
      const chats = await importChats(file, (id) => this.chats.has(id));
      const full = chats.findIndex((chat) => !this.storage.save(chat));
      const kept = full < 0 ? chats : chats.slice(0, full);
      for (const chat of kept) this.chats.set(chat.id, chat);
      this.showChats();
      byId('settings').close();
      this.notify(full < 0 ? `Chats imported: ${kept.length}.` :
          `The browser has room for ${kept.length} of ${chats.length} chats only.`);
    } catch (error) {
      byId('settings').close();
      this.notify(`“${file.name}” was not imported. ${error.message}`);
    }
  }

  // Messages

  // Attaches the files that were dropped or pasted.
  attach(event, {files}) {
    if (files.length === 0) return;
    event.preventDefault();
    this.attachments.add([...files]);
  }

  send() {
    const text = byId('message').value;
    const isEmpty = !text.trim() && this.attachments.files.length === 0;
    if (isEmpty || this.generations.has(this.chat.id)) return;
    byId('message').value = '';
    this.fitMessage();
    this.ask(text, this.attachments.take());
    this.focusMessage();
  }

  ask(text, files) {
    const {chat} = this;
    chat.title ||= titleOf(text) || (files[0]?.name ?? '');
    chat.messages.push({role: 'user', text, files});
    this.chats.set(chat.id, chat);
    this.generate(newAnswer());
  }

  edit(index, text) {
    this.stop();
    const [{files}] = this.chat.messages.splice(index);
    this.ask(text, files);
    byId('message').focus();
  }

  retry() {
    this.stop();
    this.generate(newVariant(this.chat.messages.pop()));
    byId('message').focus();
  }

  // The model continues its last answer.
  goOn() {
    this.generate(this.chat.messages.pop(), true);
    byId('message').focus();
  }

  showVariant(index, step) {
    this.chat.messages = withOtherVariant(this.chat.messages, index, step);
    this.storage.save(this.chat);
    this.view.showVariant(this.chat, index, step);
  }

  stop() {
    this.generations.get(this.chat.id)?.stop();
  }

  // Asks for `answer` to the messages of the chat, or for the rest of it.
  async generate(answer, continues = false) {
    const {chat} = this;
    const body = chatBody(byId('model').value, chat.settings,
                          continues ? [...chat.messages, answer] : chat.messages);
    chat.messages.push(answer);
    chat.updated = Date.now();
    const generation = new Generation(answer, body, this.storage.get('api_key'), () => {
      if (this.chat === chat) this.view.update();
      this.saveSoon(generation, chat);
    });
    this.generations.set(chat.id, generation);
    this.storage.save(chat);
    this.open(chat);
    announce('The answer is being written.');
    this.load.changed();
    await generation.run();
    this.load.changed();
    if (this.generations.get(chat.id) !== generation) return;  // an edit began another
    this.generations.delete(chat.id);
    if (this.chats.has(chat.id)) this.storage.save(chat);
    this.showChats();
    this.showState();
    if (this.chat === chat) announce(answer.problem || `Answer: ${answer.text}`);
  }

  saveSoon(generation, chat) {
    generation.saving ??= setTimeout(() => {
      generation.saving = null;
      const isCurrent = this.generations.get(chat.id) === generation;
      if (isCurrent && this.chats.has(chat.id)) this.storage.save(chat);
    }, SAVE_INTERVAL);
  }

  showState() {
    const isGenerating = this.generations.has(this.chat.id);
    byId('send').hidden = isGenerating;
    byId('stop').hidden = !isGenerating;
  }

  // The button that was pressed is gone. On a phone the keyboard would come up.
  focusMessage() {
    if (!matchMedia('(pointer: coarse)').matches) byId('message').focus();
  }

  // For browsers without field-sizing.
  fitMessage() {
    if (CSS.supports('field-sizing', 'content')) return;
    const area = byId('message');
    area.style.height = 'auto';
    area.style.height = `${area.scrollHeight}px`;
  }

  // Settings

  keepSettings(settings) {
    this.chat.settings = {...settings};
    if (this.chats.has(this.chat.id)) this.storage.save(this.chat);
    this.storage.put('settings', JSON.stringify(settings));
  }

  closeSettings() {
    this.loadModels();
    byId('message').focus();
  }

  setTheme(theme) {
    this.theme = THEMES.includes(theme) ? theme : 'auto';
    document.documentElement.dataset.theme = this.theme;
    byId('theme').textContent = `Theme: ${this.theme}`;
    this.storage.put('theme', this.theme === 'auto' ? '' : this.theme);
  }

  // On a narrow screen only; on a wide one the list is always there.
  setDrawer(isOpen) {
    const wasOpen = document.body.classList.contains('drawer-open');
    document.body.classList.toggle('drawer-open', isOpen);
    byId('open-drawer').setAttribute('aria-expanded', String(isOpen));
    byId('main').inert = isOpen;
    if (isOpen) byId('new-chat').focus();
    if (wasOpen && !isOpen) byId('open-drawer').focus();
  }

  // `act`: what a button with that label does.
  notify(text, label, act) {
    const notice = byId('notice');
    const close = () => { notice.hidden = true; };
    notice.replaceChildren(element('span', {}, text));
    if (act) {
      notice.append(button(label, () => {
        close();
        act();
      }));
    }
    notice.append(button('Close', close, {className: 'quiet'}));
    notice.hidden = false;
  }

  // The server

  async loadModels() {
    try {
      const models = await fetchModels(this.storage.get('api_key'));
      const names = models.map(({name}) => name);
      byId('description').textContent = models[0]?.description ?? '';
      byId('model').replaceChildren(...names.map((name) => element('option', {value: name}, name)));
      const kept = this.storage.get('model');
      if (names.includes(kept)) byId('model').value = kept;
      byId('problem').textContent = '';
    } catch (error) {
      byId('problem').textContent = error.message;
    }
  }

  showLoad({running, waiting}) {
    byId('load').textContent = running === undefined ? '' :
        `${running} running` + (waiting ? `, ${waiting} waiting` : '');
    if (running !== undefined && byId('model').options.length === 0) this.loadModels();
  }
}

new Page();
