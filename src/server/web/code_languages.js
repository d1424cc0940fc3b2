// The patterns that colour code: comments, strings, numbers, keywords. They are no grammar: a piece
// may have the wrong colour. Patterns read one line each, of bounded length.

const DOUBLE = '"(?:[^"\\\\]|\\\\.)*"?';
const QUOTED = `${DOUBLE}|'(?:[^'\\\\]|\\\\.)*'?`;
const REGEXP = '(?<=(?:^|[(,=:[!&|?{};]|return)\\s*)/(?![*/])' +
    '(?:[^\\\\/[]|\\\\.|\\[(?:[^\\]\\\\]|\\\\.)*\\])+/\\w*';
const SLASHES = '//.*';
const HASH = '(?<![\\w${"\'\\\\])#.*';  // not the # of ${#list} or $#
const NONE = '(?!)';
const KINDS = ['comment', 'keyword', 'string', 'number'];

// Pieces that may go on over lines: [opens, closes, kind].
const STARS = [['/*', '*/', 'comment']];
const BACKTICKS = [...STARS, ['`', '`', 'string']];
const TRIPLE = [['"""', '"""', 'string'], ["'''", "'''", 'string']];

const C = `alignas auto bool break case catch char class concept const const_cast constexpr continue
  default delete do double dynamic_cast else enum explicit extern false float for friend goto if
  inline int long mutable namespace new noexcept nullptr operator override private protected public
  reinterpret_cast requires return short signed sizeof static static_assert static_cast struct
  switch template this throw true try typedef typename union unsigned using virtual void
  volatile while`;
const JAVA = `abstract as async await base boolean break byte case catch char class companion const
  continue data default defer do double else enum extends extension false final finally float for
  foreach func fun guard if implements import in init int interface internal is lateinit let long
  match namespace native new nil null object override package private protected public readonly
  record return sealed self short static string struct super switch synchronized this throw throws
  trait true try typealias using val var virtual void when where while with yield`;
const JAVASCRIPT = `any as async await boolean break case catch class const continue default delete
  do else enum export extends false finally for from function get if implements import in instanceof
  interface let new null number of private protected public readonly return set static string super
  switch this throw true try type typeof undefined var void while yield`;
const PYTHON = `and as assert async await break case class continue def del elif else except False
  finally for from global if import in is lambda match None nonlocal not or pass raise return self
  True try while with yield`;
const GO = `any bool break byte case chan const continue default defer else error false for func go
  if import int interface len make map nil package range return select string struct switch true
  type var`;
const RUST = `as async await bool break char const continue crate dyn else enum false fn for if impl
  in let loop match mod move mut pub ref return self Self static str struct super trait true type
  unsafe use usize where while`;
const SCRIPT = `and as begin break case catch class continue def do done echo elif else elseif elsif
  end esac export extends false fi finally fn for foreach function if implements import in interface
  last local module my namespace new next nil not null or our print private protected public raise
  repeat require rescue return select self set source static sub super then this throw true try
  undef unless until use var when while yield FALSE NULL TRUE`;
const SQL = `add all alter and as asc begin between by case cast check column commit constraint
  create cross default delete desc distinct drop else end exists foreign from full function group
  having if in index inner insert into is join key left like limit not null offset on or order outer
  over partition primary references returning right rollback select set table then transaction
  trigger union unique update values view when where with`;

// By the names that stand at a fence. mark: what else looks like a keyword.
const LANGUAGES = Object.entries({
  'c h cc cpp c++ cxx hpp cuda objc':
      {words: C, comment: SLASHES, long: STARS, mark: '^\\s*#\\s*[a-z]+'},
  'java cs csharp c# kotlin kt swift scala dart':
      {words: JAVA, comment: SLASHES, long: [...STARS, TRIPLE[0]], mark: '@\\w+'},
  'javascript js jsx mjs typescript ts tsx':
      {words: JAVASCRIPT, comment: SLASHES, long: BACKTICKS, string: `${QUOTED}|${REGEXP}`},
  'python python3 py': {words: PYTHON, comment: HASH, long: TRIPLE, mark: '^\\s*@[\\w.]+'},
  'go golang': {words: GO, comment: SLASHES, long: BACKTICKS},
  'rust rs': {words: RUST, comment: SLASHES, long: STARS, mark: '\\w+!(?=[([{])',
              string: `${DOUBLE}|'(?:[^'\\\\]|\\\\.[^']*)'`},
  'php': {words: SCRIPT, comment: `${SLASHES}|${HASH}`, long: STARS},
  'sh bash zsh shell ruby rb perl pl r': {words: SCRIPT, comment: HASH, mark: '\\$\\w+'},
  'lua': {words: SCRIPT, comment: '--.*', long: [['--[[', ']]', 'comment']]},
  'sql mysql postgresql sqlite': {words: SQL, comment: '--.*', long: STARS, foldsCase: true},
  'json jsonc': {words: 'true false null', comment: SLASHES, long: STARS,
                 mark: '"(?:[^"\\\\]|\\\\.)*"(?=\\s*:)'},
  'yaml yml': {words: 'true false null', comment: HASH,
               mark: '^\\s*(?:- +)*[\\w.-]+(?=:(?:\\s|$))'},
  'toml ini': {words: 'true false', comment: `${HASH}|^\\s*;.*`, long: TRIPLE,
               mark: '^\\s*(?:\\[.*\\]|[\\w.-]+(?=\\s*=))'},
  'dockerfile docker makefile make': {comment: HASH, mark: '^[A-Z]+(?= )|^[\\w.-]+(?=:(?!=))'},
  'html xml svg vue': {long: [['<!--', '-->', 'comment']], mark: '</?[\\w:-]+|/?>', number: NONE,
                       string: '(?<==)(?:"[^"]*"?|\'[^\']*\'?)'},
  'css scss less': {comment: '(?<![\\w:])//.*', long: STARS,
                    mark: '@[\\w-]+|(?<![\\w-])[\\w-]+(?=\\s*:\\s)'},
  'diff patch': {comment: '^(?:@@|diff |---|\\+\\+\\+).*', string: '^\\+.*', mark: '^-.*',
                 number: NONE},
  'tex latex': {comment: '(?<!\\\\)%.*', string: NONE, mark: '\\\\[A-Za-z]+'},
}).flatMap(([names, language]) => names.split(' ').map((name) => [name, language]));

function compiled({words = '', long = [], foldsCase = false, comment = NONE, mark = NONE,
                   string = QUOTED, number = "\\b\\d(?:'?[\\w.])*"}) {
  const opens = long.map(([open]) => open.replace(/[*[]/g, '\\$&')).join('|') || NONE;
  const pattern = `(?<long>${opens})|(?<comment>${comment})|(?<keyword>${mark})|` +
      `(?<string>${string})|(?<number>${number})|(?<word>[A-Za-z_]\\w*)`;
  return {pattern: new RegExp(pattern, 'g'), words: new Set(words.split(/\s+/)), foldsCase,
          long: new Map(long.map(([open, close, kind]) => [open, {close, kind}]))};
}

const byName = new Map(LANGUAGES);
const compiledOnes = new Map();

// Returns the language that the word behind a fence names, such as "C++" or "js{1,2}"; null: none.
export function languageOf(fence) {
  const language = byName.get(/^[\w+#]*/.exec(fence.toLowerCase())[0]);
  if (!language) return null;
  if (!compiledOnes.has(language)) compiledOnes.set(language, compiled(language));
  return compiledOnes.get(language);
}

// Behind the mark that closes what is open; -1: not in this line.
function endOf({close, kind}, line, start) {
  let end = line.indexOf(close, start);
  while (kind === 'string' && line[end - 1] === '\\') end = line.indexOf(close, end + 1);
  return end < 0 ? -1 : end + close.length;
}

// Calls put(text, kind) for the pieces of a line, in order; kind null: it has no colour. `open` is
// what an earlier line left open, null: nothing. Returns what this line leaves open.
export function readLine({pattern, words, foldsCase, long}, line, open, put) {
  let plain = 0;  // where the text begins that is not put yet
  const color = (start, end, kind) => {
    if (start > plain) put(line.slice(plain, start), null);
    put(line.slice(start, end), kind);
    plain = pattern.lastIndex = end;
  };
  const colorOpen = (start, from) => {
    const end = endOf(open, line, from);
    color(start, end < 0 ? line.length : end, open.kind);
    if (end >= 0) open = null;
  };
  pattern.lastIndex = 0;
  if (open) colorOpen(0, 0);
  for (let match; !open && (match = pattern.exec(line));) {
    const {index, groups} = match;
    if (groups.long) {
      open = long.get(groups.long);
      colorOpen(index, pattern.lastIndex);
    } else if (!groups.word) {
      color(index, pattern.lastIndex, KINDS.find((kind) => groups[kind]));
    } else if (words.has(foldsCase ? groups.word.toLowerCase() : groups.word)) {
      color(index, pattern.lastIndex, 'keyword');
    }
  }
  if (plain < line.length) put(line.slice(plain), null);
  return open;
}
