// Code with its colours, while it still arrives.
//
// Its lines stand in sections, which are blocks of their own: a browser then lays out the last one
// anew as the text grows, not all of it. Of a long text the colours follow, a slice a frame.

import {languageOf, readLine} from './code_languages.js';
import {element} from './dom.js';

const SECTION = 4000;   // characters, and the rest of the line
const SLICE = 4000;     // characters that are coloured at once, and the rest of the section
const MAX_LINE = 1000;  // characters; longer lines are data, and have no colours

// With their ends.
function linesOf(text) {
  return text.match(/[^\n]*\n|[^\n]+/g) ?? [];
}

export class CodeView {
  // `fence`: the word behind the mark that opens the block.
  constructor(fence) {
    this.language = languageOf(fence);
    this.root = element('code');
    this.isWaiting = false;  // for a frame
    this.clear();
  }

  clear() {
    this.text = '';
    this.settled = 0;    // characters of lines that stay as they are
    this.end = {section: null, length: 0};  // the section in which they end
    this.plain = [];     // of the last sections: texts that wait for their colours
    this.open = null;    // what the lines with colours leave open
    this.tail = [];      // nodes of the other lines
    this.root.replaceChildren();
  }

  // Shows `text`. What it has in common with the last one is not touched, the two last lines
  // excepted: they may become a part of the mark that closes the block.
  update(text) {
    if (!text.startsWith(this.text.slice(0, this.settled))) this.clear();
    this.text = text;
    this.removeTail();
    const tailStart = text.lastIndexOf('\n', text.lastIndexOf('\n') - 1) + 1;
    for (const line of linesOf(text.slice(this.settled, tailStart))) this.settle(line);
    this.color();
  }

  settle(line) {
    this.settled += line.length;
    const last = this.plain[this.plain.length - 1];
    if (last && this.end.length < SECTION) {
      last.appendData(line);
      this.end.length += line.length;
    } else {
      this.plain.push(document.createTextNode(line));
      this.place(line, this.plain.slice(-1), this.end);
    }
  }

  color() {
    let length = 0;
    let count = 0;
    while (count < this.plain.length && length < SLICE) {
      const node = this.plain[count++];
      length += node.length;
      node.replaceWith(...this.pieces(node.data));
    }
    this.plain.splice(0, count);
    this.showTail();
    if (this.plain.length === 0 || this.isWaiting) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      if (this.root.isConnected) this.color();
    });
  }

  // The nodes of lines behind those that have their colours.
  pieces(lines) {
    const nodes = [];
    const put = (text, kind) => {
      nodes.push(kind ? element('span', {className: kind}, text) : document.createTextNode(text));
    };
    if (!this.language) put(lines, null);
    for (const line of this.language ? linesOf(lines) : []) {
      if (line.length <= MAX_LINE) {
        this.open = readLine(this.language, line, this.open, put);
      } else {
        if (this.open && line.includes(this.open.close)) this.open = null;
        put(line, null);
      }
    }
    return nodes;
  }

  showTail() {
    this.removeTail();
    const {open} = this;
    const end = {...this.end};
    for (const line of linesOf(this.text.slice(this.settled))) {
      const nodes = this.plain.length > 0 ? [document.createTextNode(line)] : this.pieces(line);
      this.place(line, nodes, end);
      this.tail.push(...nodes);
    }
    this.open = open;
  }

  removeTail() {
    for (const node of this.tail) node.remove();
    this.tail = [];
    while (this.root.lastChild !== this.end.section) this.root.lastChild.remove();
  }

  place(line, nodes, end) {
    if (end.section === null || end.length >= SECTION) {
      end.section = element('span', {className: 'section'});
      end.length = 0;
      this.root.append(end.section);
    }
    end.section.append(...nodes);
    end.length += line.length;
  }
}
