// A chat as it is kept in the browser and in files, and the check of one that is read.
//
// A chat: {id, title, updated, settings, messages}. A message of the user: {role, text, files}
// (attachments.js); an answer: {role, text, reasoning, calls, state, ...} (generation.js).
// Fields that are missing have the values of a new chat or answer, so that what older pages have
// kept can be read; others are left out.

import {withoutMarks} from './chat_title.js';
import {newAnswer} from './generation.js';
import {readSettings} from './settings.js';

const MAX_MESSAGES = 10_000;
const MAX_VARIANTS = 1_000;
const MAX_DEPTH = 100;  // of variants in what follows a variant; deeper ones are left out
const MAX_CALLS = 128;
const MAX_FILES = 1_000;
const ENDS = ['done', 'stopped', 'failed', 'interrupted'];
const USAGE_DEPTH = 2;

function fail(path, expected, value) {
  const kind = value === null ? 'null' : Array.isArray(value) ? 'a list' : typeof value;
  throw new Error(`${path}: expected ${expected}, found ${kind}`);
}

function readText(value, path) {
  return typeof value === 'string' ? value : fail(path, 'a text', value);
}

export function readList(value, path, limit, readItem) {
  if (!Array.isArray(value)) fail(path, 'a list', value);
  if (value.length > limit) {
    throw new Error(`${path}: expected at most ${limit} items, found ${value.length}`);
  }
  return value.map((item, k) => readItem(item, `${path}[${k}]`));
}

export function readObject(value, path) {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? value : fail(path, 'an object', value);
}

function readNumber(value, path) {
  return Number.isFinite(value) && value >= 0 ? value : fail(path, 'a number from 0', value);
}

// null: none
function readOptional(read, value, path) {
  return value === null ? null : read(value, path);
}

// Numbers, and objects of them; others are left out.
function readUsage(value, path, depth = USAGE_DEPTH) {
  return Object.fromEntries(Object.entries(readObject(value, path)).flatMap(([name, part]) => {
    if (Number.isFinite(part)) return [[name, part]];
    const isDeeper = depth > 1 && typeof part === 'object' && part !== null;
    return isDeeper ? [[name, readUsage(part, `${path}.${name}`, depth - 1)]] : [];
  }));
}

function readCall(value, path) {
  const call = readObject(value, path);
  return {name: readText(call.name, `${path}.name`),
          arguments: readText(call.arguments, `${path}.arguments`)};
}

// `depth`: how deep the answer stands in variants; isVariant: it is itself one of another answer.
function readAnswer(value, path, depth, isVariant) {
  const answer = {...newAnswer(), state: 'interrupted', ...readObject(value, path)};
  const states = depth === 0 ? [...ENDS, 'streaming'] : ENDS;
  const variants = (name) => isVariant || depth === MAX_DEPTH ? [] :
      readList(answer[name], `${path}.${name}`, MAX_VARIANTS,
               (item, itemPath) => readAnswer(item, itemPath, depth + 1, true));
  const time = (name) => readOptional(readNumber, answer[name], `${path}.${name}`);
  return {
    role: 'assistant', text: readText(answer.text, `${path}.text`),
    reasoning: readText(answer.reasoning, `${path}.reasoning`),
    calls: readList(answer.calls, `${path}.calls`, MAX_CALLS, readCall),
    state: states.includes(answer.state) ? answer.state : 'interrupted',
    problem: readText(answer.problem, `${path}.problem`),
    finish: readOptional(readText, answer.finish, `${path}.finish`),
    usage: readOptional(readUsage, answer.usage, `${path}.usage`),
    pieces: readNumber(answer.pieces, `${path}.pieces`),
    firstTime: time('firstTime'), thoughtTime: time('thoughtTime'), lastTime: time('lastTime'),
    earlier: variants('earlier'), later: variants('later'),
    rest: isVariant ? readMessages(answer.rest, `${path}.rest`, depth) : [],
  };
}

function readFile(value, path) {
  const file = readObject(value, path);
  return {name: readText(file.name, `${path}.name`), text: readText(file.text, `${path}.text`)};
}

function readMessage(value, path, depth) {
  const message = readObject(value, path);
  if (message.role !== 'user') return readAnswer(message, path, depth, false);
  return {role: 'user', text: readText(message.text, `${path}.text`),
          files: readList(message.files ?? [], `${path}.files`, MAX_FILES, readFile)};
}

function readMessages(value, path, depth) {
  return readList(value, path, MAX_MESSAGES,
                  (item, itemPath) => readMessage(item, itemPath, depth));
}

// Titles of older pages had the marks of Markdown. The name of a file has none, even if it looks so.
function readTitle(value, path, [question]) {
  const title = readText(value ?? '', path);
  return title === question?.files?.[0]?.name ? title : withoutMarks(title);
}

// The chat that `value` has; throws an Error that names what is wrong with it.
export function readChat(value, path) {
  const chat = readObject(value, path);
  const messages = readMessages(chat.messages, `${path}.messages`, 0);
  return {
    id: readText(chat.id, `${path}.id`), title: readTitle(chat.title, `${path}.title`, messages),
    updated: readNumber(chat.updated ?? 0, `${path}.updated`),
    settings: readSettings(chat.settings), messages,
  };
}

// Answers that were still written when the page was left.
export function endInterrupted(chat) {
  for (const message of chat.messages) {
    if (message.state === 'streaming') message.state = 'interrupted';
  }
}

// crypto.randomUUID is there only for https and localhost.
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

export function newChat(settings) {
  return {id: newId(), title: '', updated: Date.now(), settings: {...settings}, messages: []};
}
