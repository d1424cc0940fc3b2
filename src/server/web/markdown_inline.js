// Markdown within a line -> DOM nodes: emphasis, code, links, formulas, line breaks. As CommonMark
// has it, but for raw HTML, entities and images, of which there are none: an image becomes a link.
//
// All loops are bounded by the length of the text times a constant, whatever is written.

import {element} from './dom.js';
import {mathElement} from './math.js';

const LINK_SCHEMES = new Set(['http:', 'https:', 'mailto:']);
const MAX_LABEL = 1000;   // characters of the text of a link
const MAX_TARGET = 2000;  // of its address
const MAX_FORMULA = 1000;  // characters
const MAX_OPEN = 16;      // emphases within each other

const PUNCTUATION = /[!-/:-@[-`{-~\p{P}\p{S}]/u;
const BARE_LINK = /https?:\/\/[^\s<>"`]{1,2000}/y;
const ANGLE_LINK = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/y;

// The address as a link may have it; null: none that may be followed.
function safeAddress(text) {
  try {
    const url = new URL(text);
    return LINK_SCHEMES.has(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function linkElement(address, children) {
  return element('a', {href: address, title: address, target: '_blank',
                       rel: 'noopener noreferrer'}, ...children);
}

class InlineReader {
  constructor(text, mayLink) {
    this.text = text;
    this.mayLink = mayLink;
    this.at = 0;
    this.plain = '';
    this.items = [];                // nodes, and runs of delimiters {char, count, ...}
    this.unclosedCode = new Set();  // lengths of runs of backticks that nothing closes any more
  }

  nodes() {
    while (this.at < this.text.length) {
      if (!this.readSpecial()) this.plain += this.text[this.at++];
    }
    this.flush();
    return joinEmphasis(this.items);
  }

  flush() {
    if (this.plain) this.items.push(document.createTextNode(this.plain));
    this.plain = '';
  }

  add(item, length) {
    this.flush();
    this.items.push(item);
    this.at += length;
    return true;
  }

  addPlain(text, length) {
    this.plain += text;
    this.at += length;
    return true;
  }

  // Reads what begins here, if anything other than text does.
  readSpecial() {
    switch (this.text[this.at]) {
      case '\\': return this.readEscape();
      case '\n': return this.readLineEnd();
      case '`': return this.readCode();
      case '$': return this.readDollars();
      case '<': return this.readAngleLink();
      case '!': return this.text[this.at + 1] === '[' && this.readLink(1);
      case '[': return this.readLink(0);
      case 'h': return this.readBareLink();
      case '*':
      case '_':
      case '~': return this.readDelimiters();
      default: return false;
    }
  }

  readEscape() {
    const next = this.text[this.at + 1] ?? '';
    if (next === '\n') return this.add(element('br'), 2);
    if (next === '(' && this.readFormula('\\(', '\\)')) return true;
    if (next === '[' && this.readFormula('\\[', '\\]')) return true;
    return /[!-/:-@[-`{-~]/.test(next) && this.addPlain(next, 2);
  }

  readLineEnd() {
    if (!this.plain.endsWith('  ')) return false;
    return this.add(element('br'), 1);
  }

  runLength(start) {
    let end = start;
    while (this.text[end] === this.text[start]) end++;
    return end - start;
  }

  readCode() {
    const length = this.runLength(this.at);
    const start = this.at + length;
    let end = this.unclosedCode.has(length) ? -1 : this.text.indexOf('`', start);
    while (end >= 0 && this.runLength(end) !== length) {
      end = this.text.indexOf('`', end + this.runLength(end));
    }
    if (end < 0) {
      this.unclosedCode.add(length);
      return this.addPlain('`'.repeat(length), length);
    }
    let code = this.text.slice(start, end).replaceAll('\n', ' ');
    if (code.startsWith(' ') && code.endsWith(' ') && code.trim()) code = code.slice(1, -1);
    return this.add(element('code', {}, code), end + length - this.at);
  }

  // Reads the formula between the marks, within a line or over several.
  readFormula(open, close) {
    const start = this.at + open.length;
    const length = this.text.slice(start, start + MAX_FORMULA).indexOf(close);
    if (length <= 0) return false;
    const formula = mathElement(this.text.slice(start, start + length), false);
    return this.add(formula, open.length + length + close.length);
  }

  // $x$, but not the prices in "from $5 to $10".
  readDollars() {
    if (this.text[this.at + 1] === '$') {
      return this.readFormula('$$', '$$') || this.addPlain('$$', 2);
    }
    const end = this.dollarAfter(this.at + 1);
    return end > 0 &&
        this.add(mathElement(this.text.slice(this.at + 1, end), false), end + 1 - this.at);
  }

  // Where the formula that begins at `start` is closed; -1: there is none.
  dollarAfter(start) {
    if (/\s/.test(this.text[start] ?? ' ')) return -1;
    const limit = Math.min(this.text.length, start + MAX_FORMULA);
    for (let at = start; at < limit; at++) {
      if (this.text[at] === '\\') {
        at++;
      } else if (this.text[at] === '$') {
        const closes = !/\s/.test(this.text[at - 1]) && !/\d/.test(this.text[at + 1] ?? '');
        return closes ? at : -1;
      }
    }
    return -1;
  }

  readAngleLink() {
    ANGLE_LINK.lastIndex = this.at;
    const match = this.mayLink && ANGLE_LINK.exec(this.text);
    const address = match && safeAddress(match[1]);
    return Boolean(address) && this.add(linkElement(address, [match[1]]), match[0].length);
  }

  readBareLink() {
    if (!this.mayLink || /\w/.test(this.text[this.at - 1] ?? '')) return false;
    BARE_LINK.lastIndex = this.at;
    let link = BARE_LINK.exec(this.text)?.[0] ?? '';
    while (/[.,;:!?'*_~)\]]$/.test(link)) {
      if (link.endsWith(')') && link.includes('(')) break;
      link = link.slice(0, -1);
    }
    const address = safeAddress(link);
    return Boolean(address) && this.add(linkElement(address, [link]), link.length);
  }

  // [label](address "title"); `mark` is 1 if a '!' stands before it.
  readLink(mark) {
    if (!this.mayLink) return false;
    const labelEnd = this.labelEnd(this.at + mark);
    if (labelEnd < 0 || this.text[labelEnd + 1] !== '(') return false;
    const target = this.readTarget(labelEnd + 2);
    const address = target && safeAddress(target.address);
    if (!address) return false;
    const label = this.text.slice(this.at + mark + 1, labelEnd);
    const children = new InlineReader(label || address, false).nodes();
    return this.add(linkElement(address, children), target.end - this.at);
  }

  // Where the bracket at `start` is closed; -1: nowhere near.
  labelEnd(start) {
    let depth = 0;
    const limit = Math.min(this.text.length, start + MAX_LABEL);
    for (let at = start; at < limit; at++) {
      const char = this.text[at];
      if (char === '\\') {
        at++;
      } else if (char === '[') {
        depth++;
      } else if (char === ']' && --depth === 0) {
        return at;
      }
    }
    return -1;
  }

  // {address, end}: of what follows the round bracket; null: not the target of a link.
  readTarget(start) {
    let depth = 1;
    let address = '';
    const limit = Math.min(this.text.length, start + MAX_TARGET);
    for (let at = start; at < limit; at++) {
      const char = this.text[at];
      if (char === '\n') return null;
      if (char === '(') depth++;
      if (char === ')' && --depth === 0) {
        const [link] = address.trim().split(/\s/, 1);
        return {address: link.replace(/^<|>$/g, ''), end: at + 1};
      }
      address += char;
    }
    return null;
  }

  readDelimiters() {
    const char = this.text[this.at];
    const count = this.runLength(this.at);
    if (count > 3 || (char === '~' && count !== 2)) {
      return this.addPlain(char.repeat(count), count);
    }
    const before = this.text[this.at - 1] ?? ' ';
    const after = this.text[this.at + count] ?? ' ';
    const opens = isFlanking(after, before);
    const closes = isFlanking(before, after);
    const isInWord = char === '_' && opens && closes;
    return this.add({char, count,
                     canOpen: opens && (!isInWord || PUNCTUATION.test(before)),
                     canClose: closes && (!isInWord || PUNCTUATION.test(after))}, count);
  }
}

// Whether a run of delimiters belongs to what stands on its inner side.
function isFlanking(inner, outer) {
  if (/\s/.test(inner)) return false;
  return !PUNCTUATION.test(inner) || /\s/.test(outer) || PUNCTUATION.test(outer);
}

function asNode(item) {
  return item instanceof Node ? item : document.createTextNode(item.char.repeat(item.count));
}

function emphasisTag(char, count) {
  if (char === '~') return 'del';
  return count === 2 ? 'strong' : 'em';
}

// Nodes and delimiters -> nodes. A run that closes takes the nearest one that opens with its
// character; openers in between stay text.
function joinEmphasis(items) {
  const out = [];
  const openers = [];  // indexes of out
  for (const item of items) {
    if (item instanceof Node) {
      out.push(item);
      continue;
    }
    let left = item.canClose ? item.count : 0;
    while (left > 0) {
      let k = openers.length - 1;
      while (k >= 0 && out[openers[k]].char !== item.char) k--;
      if (k < 0) break;
      const opener = out[openers[k]];
      const used = Math.min(2, opener.count, left);
      const children = out.splice(openers[k] + 1).map(asNode);
      openers.length = k + 1;
      opener.count -= used;
      left -= used;
      if (opener.count === 0) out.length = openers.pop();
      out.push(element(emphasisTag(item.char, used), {}, ...children));
    }
    const rest = item.canClose ? left : item.count;
    if (rest > 0 && item.canOpen && openers.length < MAX_OPEN) openers.push(out.length);
    if (rest > 0) out.push({char: item.char, count: rest});
  }
  return out.map(asNode);
}

export function inlineNodes(text) {
  return new InlineReader(text, true).nodes();
}
