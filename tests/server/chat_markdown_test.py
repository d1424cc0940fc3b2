#!/usr/bin/env python3
"""The Markdown of the chat page by itself, in a headless Chromium.

    chat_markdown_test.py FOLDER     FOLDER holds the page (src/server/web)
"""

import random
import sys
import unittest
from pathlib import Path

from playwright.sync_api import sync_playwright

from stub_chat_server import StubServer

CHROMIUM = "/usr/bin/chromium-headless-shell"

# The pieces of blocks and lines.
FRAGMENTS = ["word", " ", "  ", "\n", "\n\n", "# ", "- ", "* ", "1. ", "2) ", "> ", "```", "```py\n",
             "~~~", "|", "|-|-|\n", "| a | b |\n", "---\n", "    ", "*", "**", "_", "~~", "`", "``",
             "[", "]", "(", ")", "![", "<", ">", "\\", "https://example.com/a_b", "[x](mailto:a@b.c)",
             "<script>x</script>", "javascript:x", "é", "界", "\t", "[ ] ", "&amp;", "$", "$$", "\\(", "\\)", "\\[", "\\]",
             "\\frac{a}", "{", "}", "x^2", "/* ", " */", "`;\n", "'\n", "\n```", "if (1) ", "\n// "]

# Each is repeated to LENGTH characters: what a careless reader needs quadratic time for, or a stack.
REPEATED = ["*", "**a ", "*a _b ", "_a", "~~a", "`", "` `` ", "[", "[a](", "![", "](", "<", "> ", ">",
            "- ", "  - a\n", "- a\n  ", "1. ", "|", "|a", "|-", "a|b\n", "|a|b|\n|-|-|\n", "#", "# ",
            "\\", "http://", "https://a)", "```\n", "~", "\n", " ", "\t", "a\n", "(", "***a*** ",
            "<https://", "- [ ] ", "$", "$a", "$a ", "$1", "$$", "$$a\n", "\\[a\n", "\\(",
            "$$\\frac{", "\\(\\sqrt[", "$$\n{", "$$\n\\left(", "$$\nx^_", "$$\n\\begin{matrix}&",
            "$$\n\\text{", "$$\n\\hat\\"]
# Pieces that are repeated as code of these languages.
CODE_REPEATED = ['"', "'", '"\\', "/*", "`", "/[", "=/[=", "/ ", "= /a", "#", " ", "1", "1.'", "a",
                 "a ", "_-", "- ", "<", "</a", "=\"", '"""', "a:", "@", '"a"  ', "\\", "[", "$",
                 "a!", "; "]
LANGUAGES = ["cpp", "java", "js", "python", "go", "rust", "php", "sh", "lua", "sql", "json", "yaml",
             "toml", "make", "html", "css", "diff", "tex"]
LENGTH = 30_000
MAX_TIME = 2_000  # milliseconds for one of them; the slowest takes a tenth of it

DRAW = """texts => {
  const root = document.createElement('div');
  const view = new MarkdownView(root);
  for (const text of texts) view.update(text);
  return root.innerHTML;
}"""

# The text of a block of code, its pieces with colours, and the names of its elements and attributes.
DRAW_CODE = """([language, code]) => {
  const root = document.createElement('div');
  document.body.append(root);
  new MarkdownView(root).update('~~~~' + language + '\\n' + code + '\\n~~~~');
  const nodes = [...root.querySelectorAll('code *')];
  const pieces = nodes.filter((node) => node.className !== 'section')
      .map((node) => `${node.className} ${node.textContent.trim()}`);
  return {text: root.querySelector('code').textContent, pieces,
          names: nodes.flatMap((node) => [node.localName, ...node.getAttributeNames()])};
}"""

TIME_OF_LINES = """([name, line, count]) => {
  const language = languageOf(name);
  const start = performance.now();
  for (let k = 0, open = null; k < count; k++) open = readLine(language, line, open, () => {});
  return performance.now() - start;
}"""


class MarkdownTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.playwright = sync_playwright().start()
        cls.browser = cls.playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"])
        cls.stub = StubServer(folder)
        cls.page = cls.browser.new_page()
        cls.page.goto(cls.stub.url + "blank")
        cls.page.evaluate("""async () => {
          window.MarkdownView = (await import('/web/markdown.js')).MarkdownView;
          Object.assign(window, await import('/web/code_languages.js'));
        }""")

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()
        cls.stub.stop()

    def draw(self, *texts):
        return self.page.evaluate(DRAW, texts)

    def test_pieces_are_drawn_as_the_whole(self):
        choose = random.Random(1)
        for _ in range(300):
            text = "".join(choose.choices(FRAGMENTS, k=choose.randint(1, 40)))
            cuts = sorted(choose.choices(range(len(text) + 1), k=12)) + [len(text)]
            prefixes = [text[:cut] for cut in cuts]
            with self.subTest(text=text, cuts=cuts):
                self.assertEqual(self.draw(*prefixes), self.draw(text))
                every = [text[:end] for end in range(1, len(text) + 1)]
                self.assertEqual(self.draw(*every), self.draw(text))

    def test_time_is_bounded(self):
        for fragment in REPEATED:
            text = (fragment * LENGTH)[:LENGTH]
            with self.subTest(fragment=fragment):
                time = self.page.evaluate(
                    f"text => {{ const start = performance.now(); ({DRAW})([text]); "
                    "return performance.now() - start; }", text)
                self.assertLess(time, MAX_TIME)

    def test_time_of_code_is_bounded(self):
        """On the longest lines that are read."""
        for language in LANGUAGES:
            for fragment in CODE_REPEATED:
                line = (fragment * 999)[:999] + "\n"
                with self.subTest(language=language, fragment=fragment):
                    time = self.page.evaluate(TIME_OF_LINES, [language, line, LENGTH // 1000])
                    self.assertLess(time, MAX_TIME)

    def test_colors_of_code(self):
        for language, code, expected in [
            ("python", 'def f(x): return "a#b" # c',
             "keyword def, keyword return, string \"a#b\", comment # c"),
            ("Python", 'x = """a\n"b" # c\n""" + 1',
             'string """a, string "b" # c, string """, number 1'),
            ("cpp", "#include <a>\nint x1 = 0x1'000; // 'y",
             "keyword #include, keyword int, number 0x1'000, comment // 'y"),
            ("c++", '/* "a\nfor */ for', 'comment /* "a, comment for */, keyword for'),
            ("js{1}", "let a = /[/'`]/g, b = `x\n${'`' // y`; if",
             "keyword let, string /[/'`]/g, string `x, string ${'`, string ' // y`; if"),
            ("js", "x = a / b / 2 // c", "number 2, comment // c"),
            ("rust", "fn f<'a>(x: &'a str) { println!('x') }",
             "keyword fn, keyword str, keyword println!, string 'x'"),
            ("sh", "if [ ${#y} = 1 ]; then echo $x; fi # z",
             "keyword if, number 1, keyword then, keyword echo, keyword $x, keyword fi, comment # z"),
            ("sql", "SELECT a FROM b -- 'c'", "keyword SELECT, keyword FROM, comment -- 'c'"),
            ("json", '{"a" : ["b", 1.5e3, true]}',
             'keyword "a", string "b", number 1.5e3, keyword true'),
            ("html", "<p class=\"x\">Don't</p> <!-- y -->",
             'keyword <p, string "x", keyword >, keyword </p, keyword >, comment <!-- y -->'),
            ("diff", "+a\n-b\n c", "string +a, keyword -b"),
            ("constructor", "if 'x'", ""), ("", "if 'x'", ""), ("text", "if 'x'", ""),
        ]:
            with self.subTest(language=language, code=code):
                drawn = self.page.evaluate(DRAW_CODE, [language, code])
                self.assertEqual(drawn["text"], code)
                self.assertEqual(", ".join(drawn["pieces"]), expected)

    def test_code_is_never_markup(self):
        hostile = ("<script>window.ran=1</script>\n\"<img src=x onerror='window.ran=2'>\n"
                   "/* </span></code> <b> */ &lt;b&gt; \u2028 \x00")
        for language in LANGUAGES + [""]:
            with self.subTest(language=language):
                drawn = self.page.evaluate(DRAW_CODE, [language, hostile])
                self.assertEqual(drawn["text"], hostile)
                self.assertEqual(set(drawn["names"]), {"span", "class"})
        self.assertIsNone(self.page.evaluate("window.ran ?? null"))

    def test_selection_in_code_stays(self):
        selected = self.page.evaluate("""() => {
          const root = document.createElement('div');
          document.body.append(root);
          const view = new MarkdownView(root);
          view.update('```js\\nlet first;\\nlet second;\\nlet third;\\n``');
          const text = document.createTreeWalker(root.querySelector('code'), NodeFilter.SHOW_TEXT);
          getSelection().setBaseAndExtent(text.nextNode(), 1, text.currentNode, 3);
          view.update('```js\\nlet first;\\nlet second;\\nlet third;\\n```\\nEnd');
          return getSelection().toString();
        }""")
        self.assertEqual(selected, "et")

    def frame_time(self, script, argument=None):
        """The processor time of `script` and of the frame that shows it, in milliseconds."""
        def measured():
            metrics = self.devtools.send("Performance.getMetrics")["metrics"]
            return next(1000 * item["value"] for item in metrics if item["name"] == "TaskDuration")
        start = measured()
        self.page.evaluate(f"""async (argument) => {{
          ({script})(argument);
          await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        }}""", argument)
        return measured() - start

    def test_long_code_does_not_hold_up_frames(self):
        self.devtools = self.page.context.new_cdp_session(self.page)
        self.devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
        line = 'for (int k = 0; k < 10; ++k) print("line of code", k);  // and a comment\n'
        text = "~~~cpp\n" + line * (200_000 // len(line))
        self.page.evaluate("""text => {
          const style = document.createElement('link');
          Object.assign(style, {rel: 'stylesheet', href: '/web/page.css'});
          const root = document.createElement('div');
          root.className = 'text';
          document.head.append(style);
          document.body.replaceChildren(root);
          const clear = () => { window.view = new MarkdownView(root); root.replaceChildren(); };
          const colored = () => root.querySelectorAll('.comment').length;
          Object.assign(window, {text, clear, colored});
          return new Promise((done) => { style.onload = done; });
        }""", text)
        def longest_frame(step):
            self.page.evaluate("clear()")
            times = [self.frame_time("end => view.update(text.slice(0, end))", end)
                     for end in range(step, len(text) + step, step)]
            while self.page.evaluate("colored()") < text.count("//"):
                times.append(self.frame_time("() => {}"))
                self.assertLess(len(times), 1000, "the colours do not come")
            return max(times)

        for step in (3000, len(text)):  # while it arrives, and all at once
            # At once, a frame has the layout of the whole text, with colours or without.
            limit = 100 if step < len(text) else 200
            # Other work of the machine slows down single frames, but not those of every try.
            self.assertTrue(any(longest_frame(step) < limit for _ in range(3)))

    def test_formulas(self):
        def inline(*nodes):
            return '<p dir="auto"><math>' + "".join(nodes) + "</math></p>"
        x, y = "<mi>x</mi>", "<mi>y</mi>"
        two = "<mn>2</mn>"
        for text, html in [
            ("$x^2$", inline(f"<msup>{x}{two}</msup>")),
            ("\\(x_{2}^y\\)", inline(f"<msubsup>{x}<mrow>{two}</mrow>{y}</msubsup>")),
            ("$\\frac{x}{y}$", inline(f"<mfrac><mrow>{x}</mrow><mrow>{y}</mrow></mfrac>")),
            ("$\\frac12$", inline(f"<mfrac><mn>1</mn>{two}</mfrac>")),
            ("$\\sqrt[3]{x}$", inline(f"<mroot><mrow>{x}</mrow><mn>3</mn></mroot>")),
            ("$\\alpha\\le\\Omega$",
             inline('<mi>α</mi><mo>≤</mo><mi mathvariant="normal">Ω</mi>')),
            ("$\\sum_x^y$", inline(
                f'<munderover><mo movablelimits="true">∑</mo>{x}{y}</munderover>')),
            ("$\\mathbb{R}\\sin x'$", inline(
                f"<mi>ℝ</mi><mi>sin</mi><msup>{x}<mo>′</mo></msup>")),
            ("$\\begin{pmatrix}x&y\\\\2\\end{pmatrix}$", inline(
                '<mrow><mo stretchy="true" fence="true">(</mo><mtable><mtr>'
                f'<mtd class="center">{x}</mtd><mtd class="center">{y}</mtd></mtr><mtr>'
                f'<mtd class="center">{two}</mtd></mtr></mtable>'
                '<mo stretchy="true" fence="true">)</mo></mrow>')),
            ("$\\text{<b> x}\\unknown y$", inline(
                f"<mtext>&lt;b&gt; x</mtext><mtext>\\unknown</mtext>{y}")),
            ("$$\nx\n$$", '<div class="formula" tabindex="0"><math display="block">'
             f"{x}</math></div>"),
            ("from $5 to $10, $ and $x", '<p dir="auto">from $5 to $10, $ and $x</p>'),
            ("$$\nopen *x*", '<p dir="auto">$$\nopen <em>x</em></p>'),
        ]:
            with self.subTest(text=text):
                self.assertEqual(self.draw(text), html)

    def test_examples(self):
        for text, html in [
            ("a *b* __c__ ***d*** e_f_g", '<p dir="auto">a <em>b</em> <strong>c</strong> '
             '<em><strong>d</strong></em> e_f_g</p>'),
            ("2 * 3 * 4 \\*x\\*", '<p dir="auto">2 * 3 * 4 *x*</p>'),
            ("~~old~~ `` a`b ``", '<p dir="auto"><del>old</del> <code>a`b</code></p>'),
            ("a  \nb", '<p dir="auto">a  <br>b</p>'),
            ("3. x\n4. y", '<ol start="3"><li dir="auto">x</li><li dir="auto">y</li></ol>'),
            ("- x\n\n- y", '<ul><li dir="auto"><p dir="auto">x</p></li>'
             '<li dir="auto"><p dir="auto">y</p></li></ul>'),
            ("- [x] done", '<ul><li dir="auto">☑ done</li></ul>'),
            ("## Two ##", '<h4 dir="auto">Two</h4>'),
            ("[a](relative) [b](//x.y)", '<p dir="auto">[a](relative) [b](//x.y)</p>'),
            ("<b>&amp;</b>", '<p dir="auto">&lt;b&gt;&amp;amp;&lt;/b&gt;</p>'),
        ]:
            with self.subTest(text=text):
                self.assertEqual(self.draw(text), html)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv.pop()).resolve()
    unittest.main(verbosity=2)
