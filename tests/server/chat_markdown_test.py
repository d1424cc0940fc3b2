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

# What blocks and lines are made of.
FRAGMENTS = ["word", " ", "  ", "\n", "\n\n", "# ", "- ", "* ", "1. ", "2) ", "> ", "```", "```py\n",
             "~~~", "|", "|-|-|\n", "| a | b |\n", "---\n", "    ", "*", "**", "_", "~~", "`", "``",
             "[", "]", "(", ")", "![", "<", ">", "\\", "https://example.com/a_b", "[x](mailto:a@b.c)",
             "<script>x</script>", "javascript:x", "é", "界", "\t", "[ ] ", "&amp;", "$", "$$", "\\(", "\\)", "\\[", "\\]",
             "\\frac{a}", "{", "}", "x^2"]

# Each is repeated to LENGTH characters: what a careless reader needs quadratic time for, or a stack.
REPEATED = ["*", "**a ", "*a _b ", "_a", "~~a", "`", "` `` ", "[", "[a](", "![", "](", "<", "> ", ">",
            "- ", "  - a\n", "- a\n  ", "1. ", "|", "|a", "|-", "a|b\n", "|a|b|\n|-|-|\n", "#", "# ",
            "\\", "http://", "https://a)", "```\n", "~", "\n", " ", "\t", "a\n", "(", "***a*** ",
            "<https://", "- [ ] ", "$", "$a", "$a ", "$1", "$$", "$$a\n", "\\[a\n", "\\(",
            "$$\\frac{", "\\(\\sqrt[", "$$\n{", "$$\n\\left(", "$$\nx^_", "$$\n\\begin{matrix}&",
            "$$\n\\text{", "$$\n\\hat\\"]
LENGTH = 30_000
MAX_TIME = 2_000  # milliseconds for one of them; the slowest takes a tenth of it

DRAW = """texts => {
  const root = document.createElement('div');
  const view = new MarkdownView(root);
  for (const text of texts) view.update(text);
  return root.innerHTML;
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
