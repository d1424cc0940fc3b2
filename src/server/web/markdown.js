// Markdown -> DOM nodes, while it still arrives.
//
// The text is read as blocks: fenced code, formulas, headings, rules, quotes, lists, tables,
// paragraphs. A block is final once another has begun behind it on a whole line, so that only the
// last one is drawn again.

import {CodeView} from './code_view.js';
import {copyButton, element} from './dom.js';
import {inlineNodes} from './markdown_inline.js';
import {mathElement} from './math.js';

const MAX_DEPTH = 8;  // quotes and lists within each other; deeper ones are text

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`\s]*)/;
const FORMULA = /^ {0,3}(\$\$|\\\[)/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])( +|$)/;
const QUOTE = /^ {0,3}> ?/;

function isBlank(line) {
  return line.trim() === '';
}

function indentOf(line) {
  return line.length - line.trimStart().length;
}

function withoutIndent(line, columns) {
  return line.slice(Math.min(columns, indentOf(line)));
}

function isRule(line) {
  const marks = line.replace(/[ \t]/g, '');
  return marks.length >= 3 && /^(-+|\*+|_+)$/.test(marks);
}

function headingLevel(line) {
  return /^ {0,3}(#{1,6})(?=\s|$)/.exec(line)?.[1].length ?? 0;
}

function cellsOf(line) {
  const cells = [''];
  const row = line.trim();
  for (let at = row.startsWith('|') ? 1 : 0; at < row.length; at++) {
    if (row[at] === '\\' && row[at + 1] === '|') {
      cells[cells.length - 1] += '|';
      at++;
    } else if (row[at] === '|') {
      if (at + 1 < row.length) cells.push('');
    } else {
      cells[cells.length - 1] += row[at];
    }
  }
  return cells.map((cell) => cell.trim());
}

function isTableStart(lines, at) {
  if (!lines[at].includes('|') || !/^[\s|:-]+$/.test(lines[at + 1] ?? '')) return false;
  const marks = cellsOf(lines[at + 1]);
  return marks.every((mark) => /^:?-+:?$/.test(mark)) && marks.length === cellsOf(lines[at]).length;
}

// A formula on lines of its own: what follows it on its last line makes it a part of the paragraph.
function formulaMarks(line) {
  const open = FORMULA.exec(line);
  if (!open) return null;
  const close = open[1] === '$$' ? '$$' : '\\]';
  const end = line.indexOf(close, open[0].length);
  return end >= 0 && !isBlank(line.slice(end + 2)) ? null : {start: open[0].length, close};
}

function endsParagraph(lines, at) {
  const line = lines[at];
  const item = ITEM.exec(line);
  return isBlank(line) || FENCE.test(line) || headingLevel(line) > 0 || isRule(line) ||
      QUOTE.test(line) || formulaMarks(line) !== null || isTableStart(lines, at) ||
      (item !== null && item[3] !== '' && /^([-*+]|1[.)])$/.test(item[2]));
}

// Each reader returns a block {end, ...} that begins at lines[at], or null.

function readFence(lines, at) {
  const open = FENCE.exec(lines[at]);
  if (!open) return null;
  const indent = indentOf(lines[at]);
  const code = [];
  let end = at + 1;
  while (end < lines.length) {
    const line = lines[end++];
    const close = line.trim();
    if (close.length >= open[1].length && close === open[1][0].repeat(close.length)) {
      return {kind: 'code', end, language: open[2], text: code.join('\n')};
    }
    code.push(withoutIndent(line, indent));
  }
  return {kind: 'code', end, language: open[2], text: code.join('\n')};
}

// Ends at a blank line if nothing closes it; then it is text.
function readFormula(lines, at) {
  const marks = formulaMarks(lines[at]);
  if (!marks) return null;
  const inner = [];
  for (let end = at; end < lines.length && !isBlank(lines[end]); end++) {
    const line = end === at ? lines[at].slice(marks.start) : lines[end];
    const length = line.indexOf(marks.close);
    if (length >= 0) {
      inner.push(line.slice(0, length));
      return {kind: 'formula', end: end + 1, formula: inner.join('\n'),
              text: line.slice(length + 2).trim()};
    }
    inner.push(line);
  }
  return {kind: 'paragraph', end: at + inner.length,
          text: lines.slice(at, at + inner.length).join('\n').trim()};
}

function readHeading(lines, at) {
  const level = headingLevel(lines[at]);
  if (!level) return null;
  let text = lines[at].trim().slice(level).trim();
  let end = text.length;
  while (text[end - 1] === '#') end--;
  if (end === 0 || /\s/.test(text[end - 1])) text = text.slice(0, end).trim();
  return {kind: 'heading', end: at + 1, level, text};
}

function readRule(lines, at) {
  return isRule(lines[at]) ? {kind: 'rule', end: at + 1} : null;
}

function readQuote(lines, at, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end++;
  if (end === at || depth >= MAX_DEPTH) return null;
  const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, ''));
  return {kind: 'quote', end, blocks: readBlocks(inner, depth + 1)};
}

// The lines of one item, from its mark on. Models indent what belongs to an item by two columns or
// more, not always by the width of the mark.
function readItem(lines, at, match) {
  const spaces = match[3].length > 4 ? 1 : match[3].length || 1;
  const width = match[1].length + match[2].length + spaces;
  const inner = [lines[at].slice(width)];
  let end = at + 1;
  let wasBlank = false;
  for (; end < lines.length; end++) {
    const line = lines[end];
    const belongs = isBlank(line) || indentOf(line) >= Math.min(width, match[1].length + 2);
    if (!belongs && (wasBlank || endsParagraph(lines, end) || ITEM.test(line))) break;
    inner.push(withoutIndent(line, width));
    wasBlank = isBlank(line);
  }
  while (isBlank(inner[inner.length - 1]) && inner.length > 1) {
    inner.pop();
    end--;
  }
  return {inner, end};
}

function readList(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  if (!first || depth >= MAX_DEPTH) return null;
  const kind = first[2].slice(-1);
  const block = {kind: 'list', end: at, items: [], isLoose: false,
                 start: /^\d/.test(first[2]) ? parseInt(first[2], 10) : null};
  for (let next = at; next < lines.length;) {
    const match = ITEM.exec(lines[next]);
    if (!match || match[2].slice(-1) !== kind || isRule(lines[next])) break;
    if (next > block.end) block.isLoose = true;
    const item = readItem(lines, next, match);
    block.items.push(readBlocks(item.inner, depth + 1));
    block.end = next = item.end;
    while (next < lines.length && isBlank(lines[next])) next++;
  }
  return block.items.length > 0 ? block : null;
}

function readTable(lines, at) {
  if (!isTableStart(lines, at)) return null;
  const sides = cellsOf(lines[at + 1]).map((mark) => {
    if (mark.startsWith(':')) return mark.endsWith(':') ? 'center' : 'left';
    return mark.endsWith(':') ? 'right' : '';
  });
  const rows = [];
  let end = at + 2;
  while (end < lines.length && lines[end].includes('|')) rows.push(cellsOf(lines[end++]));
  return {kind: 'table', end, head: cellsOf(lines[at]), sides, rows};
}

function readParagraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && !endsParagraph(lines, end)) end++;
  const text = lines.slice(at, end).map((line) => line.trimStart()).join('\n').trimEnd();
  return {kind: 'paragraph', end, text};
}

const READERS = [readFence, readFormula, readHeading, readRule, readQuote, readList, readTable,
                 readParagraph];

// Blocks in order; block.first is the index of its first line.
function readBlocks(lines, depth) {
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    if (isBlank(lines[at])) {
      at++;
      continue;
    }
    let block = null;
    for (let k = 0; block === null; k++) block = READERS[k](lines, at, depth);
    block.first = at;
    blocks.push(block);
    at = block.end;
  }
  return blocks;
}

// block.view becomes the CodeView in it.
export function codeElement(block) {
  const view = new CodeView(block.language);
  view.update(block.text);
  block.view = view;
  const caption = element('figcaption', {}, element('span', {}, block.language),
                          copyButton(() => view.text, 'Copy this code'));
  return element('figure', {className: 'code'}, caption, element('pre', {tabIndex: 0}, view.root));
}

function itemElement(blocks, isLoose) {
  const children = blocks.flatMap((block) => {
    const task = block === blocks[0] && /^\[([ xX])\] /.exec(block.text ?? '');
    if (task) block.text = (task[1] === ' ' ? '☐ ' : '☑ ') + block.text.slice(4);
    const isBare = block.kind === 'paragraph' && !isLoose;
    return isBare ? inlineNodes(block.text) : [blockElement(block)];
  });
  return element('li', {dir: 'auto'}, ...children);
}

function listElement(block) {
  const items = block.items.map((blocks) => itemElement(blocks, block.isLoose));
  return block.start === null ? element('ul', {}, ...items) :
                                element('ol', {start: block.start}, ...items);
}

function tableElement(block) {
  const row = (cells, tag) => element('tr', {}, ...block.sides.map((side, k) =>
      element(tag, {className: side, dir: 'auto'}, ...inlineNodes(cells[k] ?? ''))));
  return element('div', {className: 'table', tabIndex: 0, role: 'region', 'aria-label': 'Table'},
                 element('table', {}, element('thead', {}, row(block.head, 'th')),
                         element('tbody', {}, ...block.rows.map((cells) => row(cells, 'td')))));
}

function blockElement(block) {
  switch (block.kind) {
    case 'code': return codeElement(block);
    case 'heading':
      // The page itself has the levels 1 and 2.
      return element(`h${Math.min(6, block.level + 2)}`, {dir: 'auto'}, ...inlineNodes(block.text));
    case 'formula':
      return element('div', {className: 'formula', tabIndex: 0},
                     mathElement(block.formula, true), ...inlineNodes(block.text));
    case 'rule': return element('hr');
    case 'quote': return element('blockquote', {}, ...block.blocks.map(blockElement));
    case 'list': return listElement(block);
    case 'table': return tableElement(block);
    default: return element('p', {dir: 'auto'}, ...inlineNodes(block.text));
  }
}

// Shows a text that grows.
export class MarkdownView {
  constructor(root) {
    this.root = root;
    this.text = '';
    this.settled = 0;       // characters whose blocks are final
    this.lastBlock = null;  // the block behind them, and its node
    this.lastNode = null;
    this.tailNodes = [];    // of a block that begins on the last line
  }

  // `text` begins with that of the last call, or all is drawn anew.
  update(text) {
    if (text === this.text) return;
    if (!text.startsWith(this.text)) this.clear();
    this.text = text;
    for (const node of this.tailNodes) node.remove();
    const tail = text.slice(this.settled);
    const lines = tail.split('\n').map((line) => line.trim() === '' ? '' :
        line.replace(/^[ \t]+/, (space) => space.replaceAll('\t', '    ')));
    const blocks = readBlocks(lines, 0);
    let settledLines = 0;  // lines
    // The last line may still grow into something else, and into a part of the block before it.
    while (blocks.length > 1 && blocks[1].first < lines.length - 1) {
      this.show(blocks.shift());
      this.lastBlock = this.lastNode = null;
      settledLines = blocks[0].first;
    }
    this.settled += lengthOfLines(tail, settledLines);
    if (blocks.length > 0) this.show(blocks.shift());
    this.tailNodes = blocks.map(blockElement);
    this.root.append(...this.tailNodes);
  }

  clear() {
    this.root.replaceChildren();
    this.settled = 0;
    this.lastBlock = this.lastNode = null;
    this.tailNodes = [];
  }

  // As the block at lastNode's place. Code is not drawn anew: it may be long, and a selection in it
  // stays.
  show(block) {
    const last = this.lastBlock;
    if (last?.kind === 'code' && block.kind === 'code' && last.language === block.language) {
      block.view = last.view;
      block.view.update(block.text);
    } else {
      const node = blockElement(block);
      if (this.lastNode) {
        this.lastNode.replaceWith(node);
      } else {
        this.root.append(node);
      }
      this.lastNode = node;
    }
    this.lastBlock = block;
  }
}

function lengthOfLines(text, count) {
  let at = 0;
  for (let k = 0; k < count; k++) at = text.indexOf('\n', at) + 1;
  return at;
}
