// The title of a chat: the first line of its first message, without the marks of Markdown.

import {element} from './dom.js';
import {inlineNodes} from './markdown_inline.js';

const TITLE_LENGTH = 48;  // characters
const READ_LENGTH = 400;  // of the text that are looked at: emphasis may end on a later line

export function titleOf(text) {
  const lines = text.trim().slice(0, READ_LENGTH).split('\n')
      .map((line) => line.replace(/^\s*(#{1,6}\s|>\s?|[-*+]\s|\d{1,9}[.)]\s|```\S*|~~~\S*)+\s*/, ''));
  const shown = element('p', {}, ...inlineNodes(lines.join('\n').trim())).textContent;
  const line = shown.trim().split('\n')[0].replace(/\*\*|__|~~|`/g, '')
      .replace(/\s+/g, ' ').trim();
  return line.length > TITLE_LENGTH ? `${line.slice(0, TITLE_LENGTH).trim()}…` : line;
}
