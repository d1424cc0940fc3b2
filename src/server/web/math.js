// Formulas in the common part of LaTeX -> MathML, which browsers draw themselves. What is not known
// stays text, command by command; no text fails.
//
// The time is linear in the length of the text: each token is read once.

import {ACCENTS, FUNCTIONS, LARGE, LETTERS, OPERATORS, SPACES, TABLES, UNDER_ACCENTS} from
    './math_symbols.js';

const NAMESPACE = 'http://www.w3.org/1998/Math/MathML';
const MAX_DEPTH = 24;  // groups within each other; deeper ones are text
const TOKEN = /\\(?:[A-Za-z]+|[^])|\d+(?:\.\d+)?|\s+|[^]/gu;
// Where the alphabets for capital and small letters begin, and the letters that stand elsewhere.
const ALPHABETS = {
  mathbf: [0x1d400, 0x1d41a, {}], boldsymbol: [0x1d468, 0x1d482, {}],
  mathbb: [0x1d538, 0x1d552, {C: 'ℂ', H: 'ℍ', N: 'ℕ', P: 'ℙ', Q: 'ℚ', R: 'ℝ', Z: 'ℤ'}],
  mathcal: [0x1d49c, 0x1d4b6, {B: 'ℬ', E: 'ℰ', F: 'ℱ', H: 'ℋ', I: 'ℐ', L: 'ℒ', M: 'ℳ', R: 'ℛ',
                               e: 'ℯ', g: 'ℊ', o: 'ℴ'}],
  mathfrak: [0x1d504, 0x1d51e, {C: 'ℭ', H: 'ℌ', I: 'ℑ', R: 'ℜ', Z: 'ℨ'}],
};
const TEXTS = new Set(['text', 'textrm', 'textbf', 'textit', 'mbox', 'mathrm', 'operatorname']);
const SIZES = /^(?:big|Big|bigg|Bigg)[lrm]?$|^(?:display|text)style$|^(?:no)?limits$|^nonumber$/;

function node(tag, attributes, ...children) {
  const made = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function rowOf(nodes) {
  return nodes.length === 1 ? nodes[0] : node('mrow', {}, ...nodes);
}

function letterOf(alphabet, char) {
  const [capitals, smalls, others] = ALPHABETS[alphabet];
  if (others[char]) return others[char];
  if (/[A-Z]/.test(char)) return String.fromCodePoint(capitals + char.charCodeAt(0) - 65);
  return /[a-z]/.test(char) ? String.fromCodePoint(smalls + char.charCodeAt(0) - 97) : char;
}

class MathReader {
  constructor(text) {
    this.tokens = text.match(TOKEN) ?? [];
    this.at = 0;
    this.depth = 0;
  }

  skipSpace() {
    while (/^\s/.test(this.tokens[this.at] ?? '')) this.at++;
  }

  peek() {
    this.skipSpace();
    return this.tokens[this.at] ?? '';
  }

  // The nodes until one of `ends`, which is left.
  row(...ends) {
    const nodes = [];
    for (let token = this.peek(); token !== '' && !ends.includes(token); token = this.peek()) {
      nodes.push(this.scripted());
    }
    return nodes;
  }

  // A base with what stands above and below it.
  scripted() {
    const token = this.peek();
    const base = '^_\''.includes(token) ? node('mrow', {}) : this.base();
    let lower = null;
    let upper = null;
    for (let next = this.peek(); next !== ''; next = this.peek()) {
      if (next === '_' && lower === null) {
        this.at++;
        lower = this.argument();
      } else if (next === '^' && upper === null) {
        this.at++;
        upper = this.argument();
      } else if (next === '\'' && upper === null) {
        let primes = '';
        for (; this.tokens[this.at] === '\''; this.at++) primes += '′';
        upper = node('mo', {}, primes);
      } else {
        break;
      }
    }
    const scripts = [lower, upper].filter((script) => script !== null);
    if (scripts.length === 0) return base;
    const isLarge = LARGE.has(token.slice(1)) || /^\\(?:under|over)brace$/.test(token);
    const tag = isLarge ? (lower ? 'munder' : 'm') + (upper ? 'over' : '') :
                          (lower ? 'msub' : 'm') + (upper ? 'sup' : '');
    return node(tag, {}, base, ...scripts);
  }

  argument() {
    const token = this.peek();
    if (token === '' || '^_}&'.includes(token)) return node('mrow', {});
    // One digit of a number: x^23 is x squared, and 3.
    if (/^\d./.test(token)) {
      this.tokens[this.at] = token.slice(1);
      return node('mn', {}, token[0]);
    }
    return this.base();
  }

  base() {
    const token = this.tokens[this.at++];
    if (token === '{') return this.nested(token, () => this.group());
    if (token.startsWith('\\') && token.length > 1) {
      return this.nested(token, () => this.command(token.slice(1)));
    }
    if (/^\d/.test(token)) return node('mn', {}, token);
    if (/^\p{L}/u.test(token)) return node('mi', {}, token);
    if (token === '~') return node('mspace', {width: '.25em'});
    return node('mo', '()[]|'.includes(token) ? {stretchy: 'false'} : {},
                token === '-' ? '−' : token);
  }

  nested(token, read) {
    if (this.depth >= MAX_DEPTH) return node('mtext', {}, token);
    this.depth++;
    const made = read();
    this.depth--;
    return made;
  }

  group() {
    const nodes = this.row('}');
    this.at++;
    return node('mrow', {}, ...nodes);
  }

  // The text of a group as it was written; '' if there is none.
  rawGroup() {
    if (this.peek() !== '{') return '';
    const parts = [];
    let level = 0;
    for (; this.at < this.tokens.length; this.at++) {
      const token = this.tokens[this.at];
      if (token === '{' && ++level === 1) continue;
      if (token === '}' && --level === 0) break;
      parts.push(token);
    }
    this.at++;
    return parts.join('');
  }

  command(name) {
    if (LETTERS.has(name)) {
      const isUpright = /^[A-Z]/.test(name);
      return node('mi', isUpright ? {mathvariant: 'normal'} : {}, LETTERS.get(name));
    }
    if (OPERATORS.has(name)) return node('mo', {}, OPERATORS.get(name));
    if (LARGE.has(name)) return node('mo', {movablelimits: 'true'}, LARGE.get(name));
    if (FUNCTIONS.has(name)) return node('mi', {}, name);
    if (SPACES.has(name)) return node('mspace', {width: `${SPACES.get(name)}em`});
    if (SIZES.test(name)) return node('mrow', {});
    if ('{}%$#&_|'.includes(name)) return node('mo', {stretchy: 'false'}, name.replace('|', '‖'));
    if (TEXTS.has(name)) return node('mtext', {}, this.rawGroup());
    if (Object.hasOwn(ALPHABETS, name)) return this.alphabet(name);
    if (ACCENTS.has(name)) {
      return node('mover', {accent: 'true'}, this.argument(), node('mo', {}, ACCENTS.get(name)));
    }
    if (UNDER_ACCENTS.has(name)) {
      return node('munder', {}, this.argument(), node('mo', {}, UNDER_ACCENTS.get(name)));
    }
    return this.structure(name);
  }

  alphabet(name) {
    const isGroup = this.peek() === '{';
    const text = isGroup ? this.rawGroup() : this.tokens[this.at++] ?? '';
    return node('mi', {}, Array.from(text, (char) => letterOf(name, char)).join(''));
  }

  structure(name) {
    switch (name) {
      case 'frac':
      case 'dfrac':
      case 'tfrac': return node('mfrac', {}, this.argument(), this.argument());
      case 'binom':
        return node('mrow', {}, node('mo', {}, '('),
                    node('mfrac', {linethickness: '0'}, this.argument(), this.argument()),
                    node('mo', {}, ')'));
      case 'sqrt': return this.root();
      case 'left': return this.fenced();
      case 'begin': return this.table();
      default: return node('mtext', {}, `\\${name}`);
    }
  }

  root() {
    if (this.peek() !== '[') return node('msqrt', {}, this.argument());
    this.at++;
    const degree = rowOf(this.row(']'));
    this.at++;
    return node('mroot', {}, this.argument(), degree);
  }

  // A bracket that is as high as what it encloses; '.' is none.
  delimiter() {
    const token = this.peek();
    this.at++;
    if (token === '.' || token === '') return [];
    const name = token.slice(1);
    const char = token === '\\|' ? '‖' : token.length > 1 ? OPERATORS.get(name) ?? name : token;
    return [node('mo', {stretchy: 'true', fence: 'true'}, char)];
  }

  fenced() {
    const open = this.delimiter();
    const inner = this.row('\\right');
    this.at++;
    return node('mrow', {}, ...open, ...inner, ...this.delimiter());
  }

  table() {
    const name = this.rawGroup();
    const brackets = TABLES.get(name);
    if (!brackets) return node('mtext', {}, `\\begin{${name}}`);
    if (name === 'array') this.rawGroup();  // the columns
    const rows = [[]];
    for (;;) {
      rows[rows.length - 1].push(this.row('&', '\\\\', '\\end'));
      const end = this.peek();
      this.at++;
      if (end === '\\\\') rows.push([]);
      if (end === '\\end' || end === '') break;
    }
    this.rawGroup();
    const isEmpty = (cells) => cells.length === 1 && cells[0].length === 0;
    if (isEmpty(rows[rows.length - 1])) rows.pop();
    const sides = (column) => name.startsWith('align') || name === 'split' ?
        ['right', 'left'][column % 2] : name === 'cases' ? 'left' : 'center';
    const [open, close] = brackets.map((char) => char === '' ? [] :
        [node('mo', {stretchy: 'true', fence: 'true'}, char)]);
    return node('mrow', {}, ...open, node('mtable', {}, ...rows.map((cells) => node(
        'mtr', {}, ...cells.map((cell, k) => node('mtd', {class: sides(k)}, ...cell))))), ...close);
  }
}

// A formula; `isBlock`: on lines of its own.
export function mathElement(text, isBlock) {
  return node('math', isBlock ? {display: 'block'} : {}, ...new MathReader(text).row());
}
