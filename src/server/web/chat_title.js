// Titles of chats: text without the marks of Markdown.

import {element} from './dom.js';
import {inlineNodes} from './markdown_inline.js';

const TITLE_LENGTH = 48;  // characters
const READ_LENGTH = 400;  // of the text that are looked at: emphasis may end on a later line

const BLOCK_MARKS = /^\s*(#{1,6}\s|>\s?|[-*+]\s|```\S*|~~~\S*)+\s*/;
const ITEM_NUMBER = /^\d{1,9}[.)]\s+/;

// A number at the beginning stays: readers count chats with them.
export function withoutMarks(text) {
  const lines = text.trim().split('\n').map((line) => line.replace(BLOCK_MARKS, ''));
  const shown = element('p', {}, ...inlineNodes(lines.join('\n').trim())).textContent;
  return shown.replace(/\*\*|__|~~|`/g, '').trim();
}

// Returns the title of a chat that begins with `text`: its first line.
export function titleOf(text) {
  const [line] = withoutMarks(text.trim().slice(0, READ_LENGTH)).split('\n');
  const title = line.replace(ITEM_NUMBER, '').replace(/\s+/g, ' ').trim();
  return title.length > TITLE_LENGTH ? `${title.slice(0, TITLE_LENGTH).trim()}…` : title;
}
