#!/usr/bin/env python3
"""Drives the chat page in a headless Chromium.

    chat_page_test.py FOLDER            the page in FOLDER (src/server/web), with scripted answers
    chat_page_test.py --url URL         the page of a server that runs, with the answers of a model

Screenshots of the scripted answers go to build/screenshots.
"""

import re
import sys
import unittest
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

from chat_page_answers import ChatAnswerTests
from chat_page_store import ChatStoreTests
from stub_chat_server import SCRIPTS, StubServer

CHROMIUM = "/usr/bin/chromium-headless-shell"
MAX_WAIT = 15_000  # milliseconds, for anything the page is to show

SCREENSHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"

folder = None  # of the page
url = ""       # of a server that runs


def contrast(*colors):
    """The contrast of two colours, "rgb(1, 2, 3)", by the Web Content Accessibility Guidelines."""
    def luminance(color):
        parts = [int(part) / 255 for part in re.findall(r"\d+", color)]
        red, green, blue = (part / 12.92 if part <= .04045 else ((part + .055) / 1.055) ** 2.4
                            for part in parts)
        return .2126 * red + .7152 * green + .0722 * blue
    low, high = sorted(luminance(color) for color in colors)
    return (high + .05) / (low + .05)


class PageTest(unittest.TestCase):
    """A fresh browser profile and page for each test; the page must raise no error."""

    @classmethod
    def setUpClass(cls):
        cls.playwright = sync_playwright().start()
        cls.browser = cls.playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"])
        expect.set_options(timeout=MAX_WAIT)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()

    def start(self, address, **options):
        self.context = self.browser.new_context(viewport={"width": 1200, "height": 800}, **options)
        self.addCleanup(self.context.close)
        self.page = self.context.new_page()
        self.page.set_default_timeout(MAX_WAIT)
        self.errors = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self.on_console)
        self.page.goto(address)
        self.answers = self.page.locator("article.answer")
        self.questions = self.page.locator("article.question")

    def on_console(self, message):
        # The status of a refused request is logged by the browser itself.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.errors.append(message.text)

    def tearDown(self):
        self.assertEqual(self.errors, [])

    def send(self, text):
        self.page.get_by_label("Message", exact=True).fill(text)
        self.page.get_by_role("button", name="Send").click()

    def wait_state(self, state):
        expect(self.answers.last).to_have_attribute("data-state", state)

    def ask(self, text):
        self.send(text)
        self.wait_state("done")

    def stop_at(self, text):
        expect(self.answers.last).to_contain_text(text)
        self.page.get_by_role("button", name="Stop").click()
        self.wait_state("stopped")

    def set_setting(self, label, value):
        self.page.get_by_role("button", name="Settings").click()
        self.page.get_by_label(label).fill(value)
        self.page.get_by_role("button", name="Done").click()

    def assert_fits_width(self):
        self.assertTrue(self.page.evaluate(
            "document.documentElement.scrollWidth <= innerWidth && "
            "document.getElementById('scroller').scrollWidth <= innerWidth"))


class ScriptedTest(ChatAnswerTests, ChatStoreTests, PageTest):
    def setUp(self):
        self.stub = StubServer(folder)
        self.addCleanup(self.stub.stop)
        self.start(self.stub.url)

    def tearDown(self):
        super().tearDown()
        self.assertEqual(self.stub.unknown_paths, [])

    def shot(self, name):
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png")

    def body(self):
        return self.stub.requests[-1][0]

    def test_exchange_with_thoughts(self):
        self.ask("thinking please")
        reasoning, content = SCRIPTS["thinking"]
        expect(self.answers.locator(".text")).to_have_text(content)
        details = self.answers.locator("details")
        self.assertIsNone(details.get_attribute("open"))
        expect(details.locator("summary")).to_contain_text("Thought for")
        expect(details.locator("summary")).to_contain_text("12 tokens")
        details.locator("summary").click()
        expect(details.locator(".thoughts")).to_have_text(reasoning)
        self.shot("thoughts")
        self.assertEqual(self.body()["messages"], [{"role": "user", "content": "thinking please"}])
        self.assertTrue(self.body()["stream"])
        self.assertTrue(self.body()["stream_options"]["include_usage"])
        self.assertEqual(self.body()["model"], "stub-model")
        self.ask("plain")
        self.assertEqual(self.body()["messages"][1],
                         {"role": "assistant", "content": content, "reasoning_content": reasoning})

    def test_progress_of_thinking(self):
        self.send("ponder")
        summary = self.answers.locator("summary")
        expect(summary).to_contain_text("Thinking for")
        expect(summary.locator(".preview")).to_contain_text("And a thought more.")
        self.shot("thinking")
        self.stop_at("thought more")
        expect(summary).to_contain_text("Thought for")

    def test_tool_call(self):
        self.ask("tool")
        call = self.answers.locator("figure")
        expect(call.locator("figcaption")).to_contain_text("depth")
        expect(call.locator("code")).to_have_text('{"place": "<b>x</b>"}')

    def test_figures(self):
        self.ask("plain")
        figures = self.answers.locator(".figures")
        for text in ("42 tokens", "tokens/s", "first after", "prompt 200, 75 % cached",
                     "drafts 75 % accepted"):
            expect(figures).to_contain_text(text)
        expect(self.page.locator("#server")).to_have_text("2 running, 1 waiting")

    def test_number_of_running_requests(self):
        self.stub.others_running = self.stub.waiting = 0
        load = self.page.locator("#server")
        self.send("slow")
        expect(load).to_have_text("1 running", timeout=2000)
        self.stop_at("word word")
        expect(load).to_have_text("0 running", timeout=2000)
        self.stub.metrics_status = 404
        expect(load).to_have_text("")

    def test_streams_and_stops(self):
        self.send("slow")
        expect(self.answers.locator(".figures")).to_contain_text("≈")
        self.stop_at("word word word")
        self.assertTrue(self.stub.aborted.wait(10), "the request goes on")
        length = len(self.answers.locator(".text").inner_text())
        self.assertLess(length, len(SCRIPTS["slow"][1]))
        expect(self.answers).to_contain_text("Stopped.")
        self.assertTrue(self.page.get_by_role("button", name="Send").is_visible())

    def test_retry_and_edit(self):
        self.ask("plain one")
        self.ask("plain two")
        expect(self.answers.last).to_contain_text("Number 2.")
        self.answers.last.get_by_role("button", name="Ask for another").click()
        expect(self.answers.last).to_contain_text("Number 3.")
        self.wait_state("done")
        self.assertEqual(len(self.body()["messages"]), 3)
        self.questions.first.get_by_role("button", name="Edit").click()
        self.page.get_by_label("Edit your message").fill("plain three")
        self.page.get_by_label("Edit your message").press("Enter")
        expect(self.answers.last).to_contain_text("Number 4.")
        expect(self.answers).to_have_count(1)
        self.assertEqual(self.body()["messages"], [{"role": "user", "content": "plain three"}])

    def test_reload_keeps_all(self):
        self.set_setting("System prompt", "Be brief.")
        self.ask("markdown")
        shown = self.page.locator("#messages").inner_html()
        self.page.reload()
        self.assertEqual(self.page.locator("#messages").inner_html(), shown)
        self.send("slow")
        expect(self.answers.last).to_contain_text("word word word")
        self.page.reload()
        self.wait_state("interrupted")
        expect(self.answers.last).to_contain_text("word word word")
        expect(self.answers.last).to_contain_text("Interrupted")
        self.ask("plain")
        self.assertEqual(self.body()["messages"][0], {"role": "system", "content": "Be brief."})

    def test_two_chats(self):
        self.ask("plain first chat")
        self.page.get_by_role("button", name="New chat").click()
        expect(self.page.get_by_text("What would you like to know?")).to_be_visible()
        self.send("slow second chat")
        expect(self.answers).to_contain_text("word")
        chats = self.page.locator("#chats .open")
        chats.get_by_text("plain first chat").click()
        expect(self.answers).to_contain_text("Number 1.")
        chats.get_by_text("slow second chat").click()  # has gone on meanwhile
        expect(self.answers.locator(".text")).to_contain_text("word " * 20)
        self.page.get_by_role("button", name="Stop").click()
        self.wait_state("stopped")
        self.page.get_by_label("Title of the chat").fill("Renamed")
        self.page.get_by_label("Title of the chat").press("Enter")
        expect(chats.get_by_text("Renamed")).to_be_visible()
        self.page.get_by_role("button", name="Delete Renamed").click()
        expect(chats).to_have_count(1)
        self.page.get_by_role("button", name="Undo").click()
        expect(chats).to_have_count(2)
        self.page.get_by_role("button", name="Delete Renamed").click()
        self.page.reload()
        expect(chats).to_have_text(["plain first chat"])

    def test_markdown(self):
        self.ask("markdown")
        text = self.answers.locator(".text")
        expect(text.locator("h3")).to_have_text("A heading")
        expect(text.locator("em")).to_have_text("emphasis")
        expect(text.locator("strong")).to_have_text("strong")
        expect(text.locator("p code")).to_have_text("code")
        expect(text.locator("a")).to_have_attribute("href", "https://example.com/page")
        expect(text.locator("ol > li")).to_have_count(2)
        expect(text.locator("ol ul > li")).to_have_text(["nested", "again"])
        expect(text.locator("blockquote p")).to_have_text("A quote.")
        expect(text.locator("td")).to_have_text(["Puerto Rico", "8376 m", "Mariana", "10935 m"])
        code = text.locator("pre code")
        self.assertEqual(code.all_inner_texts(),
                         ["def fathom(metres):\n    return metres / 1.8288", "still open\n"])
        streamed = text.inner_html()
        self.page.reload()  # drawn at once, not in pieces
        self.assertEqual(text.inner_html(), streamed)
        self.shot("light")

    def test_copies(self):
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.ask("markdown")
        self.answers.get_by_role("button", name="Copy this code").first.click()
        self.assertIn("def fathom", self.page.evaluate("navigator.clipboard.readText()"))
        self.answers.get_by_role("button", name="Copy this answer").click()
        expect(self.answers.get_by_role("button", name="Copy this answer")).to_have_text("Copied")
        self.assertEqual(self.page.evaluate("navigator.clipboard.readText()"),
                         SCRIPTS["markdown"][1])

    def assert_nothing_ran(self):
        messages = self.page.locator("#messages")
        self.assertIsNone(self.page.evaluate("window.ran ?? null"))
        for forbidden in ("script", "img", "svg", "iframe", "style", "base", "form", "i", "b"):
            self.assertEqual(messages.locator(forbidden).count(), 0, forbidden)
        names = messages.evaluate(
            "root => [...root.querySelectorAll('*')].flatMap(node => node.getAttributeNames())")
        self.assertEqual([name for name in names if name.startswith("on") or name == "style"], [])
        links = messages.locator("a").evaluate_all("all => all.map(link => link.protocol)")
        self.assertTrue(links)
        self.assertEqual(set(links), {"https:"})

    def test_injection(self):
        requests = []
        self.page.on("request", lambda request: requests.append(request.url))
        self.ask("injection " + SCRIPTS["injection"][1])
        for summary in self.answers.locator("summary").all():
            summary.click()
        self.assert_nothing_ran()
        expect(self.answers.locator(".text")).to_contain_text("<script>window.ran = 'script'")
        self.assertEqual(self.answers.locator(".thoughts").inner_text().strip(),
                         SCRIPTS["injection"][0].strip())
        expect(self.page.locator("#drawer")).to_be_visible()
        self.page.reload()
        self.assert_nothing_ran()
        self.page.get_by_label("Title of the chat").fill("<img src=x onerror='window.ran=1'>")
        self.page.get_by_label("Title of the chat").press("Enter")
        self.assertEqual(self.page.locator("#chats img").count(), 0)
        self.assertEqual([r for r in requests if not r.startswith((self.stub.url, "data:"))], [])

    def test_policy_stops_what_the_page_would_not(self):
        """Does what an injection would try if it had got into the page."""
        self.page.evaluate("""() => {
          const script = document.createElement('script');
          try { script.textContent = "window.ran = 'inline'"; } catch {}
          document.body.append(script);
          try { document.body.insertAdjacentHTML('beforeend', '<b id=parsed>x</b>'); } catch {}
        }""")
        self.assertIsNone(self.page.evaluate("window.ran ?? null"))
        self.assertEqual(self.page.locator("#parsed").count(), 0)
        self.assertEqual(self.page.evaluate(
            "fetch('https://example.com/').then(() => 'sent', () => 'refused')"), "refused")
        self.assertTrue(all("Content Security Policy" in error or "Trusted" in error
                            for error in self.errors), self.errors)
        self.assertTrue(self.errors)
        self.errors.clear()

    def test_errors(self):
        self.send("error")
        self.wait_state("failed")
        expect(self.answers.get_by_role("alert")).to_have_text("temperature: expected at most 2")
        self.answers.get_by_role("button", name="Ask for another").click()
        self.wait_state("failed")
        self.assertEqual(len(self.stub.requests), 2)
        self.send("broken")
        self.wait_state("failed")
        expect(self.answers.last).to_contain_text("It begins")
        expect(self.answers.last).to_contain_text("the engine has stopped")
        self.stub.stop()
        self.send("plain")
        self.wait_state("failed")
        expect(self.answers.last).to_contain_text("The server cannot be reached.")

    def test_key_and_settings(self):
        self.set_setting("API key", "secret")
        self.set_setting("Temperature", "0.5")
        self.set_setting("Seed", "7")
        self.page.get_by_role("button", name="Settings").click()
        self.page.get_by_label("Max. tokens").fill("9")
        self.page.get_by_label("Max. tokens").blur()
        self.shot("settings")
        # Kept before the dialog is closed: nothing is lost if the page is left then.
        self.assertEqual(self.page.evaluate(
            "JSON.parse(localStorage['fathom.settings']).max_tokens"), "9")
        self.page.reload()
        self.ask("plain")
        body, authorization = self.stub.requests[-1]
        self.assertEqual(authorization, "Bearer secret")
        self.assertEqual((body["temperature"], body["seed"], body["max_tokens"]), (0.5, 7, 9))
        self.assertNotIn("top_p", body)

    def test_thinking_is_chosen_at_the_message_box(self):
        thinking = self.page.locator("#composer").get_by_label("Thinking")
        for choice, sent in (("", (None, None)), ("off", ({"type": "disabled"}, None)),
                             ("high", (None, "high")), ("max", (None, "max"))):
            thinking.select_option(choice)
            self.ask("plain")
            self.assertEqual((self.body().get("thinking"), self.body().get("reasoning_effort")),
                             sent)
        self.page.reload()
        expect(thinking).to_have_value("max")

    def test_penalties_and_truncation(self):
        values = {"Top k": 40, "Min p": 0.05, "Repetition penalty": 1.1, "Presence penalty": -0.5,
                  "Frequency penalty": 2}
        for label, value in values.items():
            self.set_setting(label, str(value))
        self.ask("plain")
        for label, value in values.items():
            self.assertEqual(self.body()[label.lower().replace(" ", "_")], value)

    def test_settings_are_checked_as_they_are_typed(self):
        self.set_setting("Temperature", "0.5")
        self.page.get_by_role("button", name="Settings").click()
        for label, wrong, right, allowed in (
                ("Temperature", "2.1", "2", "a number from 0 to 2"),
                ("Top p", "0", "1e-3", "a number above 0 up to 1"),
                ("Max. tokens", "0", "1", "a whole number from 1"),
                ("Max. tokens", "1.5", " 15 ", "a whole number from 1"),
                ("Seed", "seven", "-7", "a whole number")):
            field = self.page.get_by_label(label)
            expect(field).to_have_accessible_description(allowed)
            field.fill(wrong)
            expect(field).to_have_attribute("aria-invalid", "true")
            field.fill(right)
            expect(field).to_have_attribute("aria-invalid", "false")
        self.page.get_by_label("Temperature").fill("hot")
        self.shot("settings_wrong")
        self.page.get_by_role("button", name="Done").click()
        expect(self.page.get_by_label("Temperature")).to_be_focused()  # still open
        self.page.keyboard.press("Escape")
        self.ask("plain")
        self.assertEqual([self.body()[name] for name in
                          ("temperature", "top_p", "max_tokens", "seed")], [2, 0.001, 15, -7])

    def test_titles_have_no_marks(self):
        chats = self.page.locator("#chats .open")
        for text, title in (
                ("**What** is `x` in __this__?", "What is x in this?"),
                ("# A [link](https://example.com/) to\nsee", "A link to"),
                ("> - **bold\nuntil here** and on", "bold"),
                ("**" + "many words " * 10 + "**", "many words " * 4 + "many…")):
            self.ask("\n" + text)
            expect(chats.first).to_have_text(title)
            expect(self.page.get_by_label("Title of the chat")).to_have_value(title)
            self.page.get_by_role("button", name="New chat").click()

    def test_keyboard_only(self):
        keyboard = self.page.keyboard
        keyboard.type("plain")
        keyboard.press("Shift+Enter")
        keyboard.type("second line")
        keyboard.press("Enter")
        self.wait_state("done")
        self.assertEqual(self.body()["messages"][0]["content"], "plain\nsecond line")
        keyboard.type("slow")
        keyboard.press("Enter")
        expect(self.answers.last).to_contain_text("word word")
        keyboard.press("Escape")
        self.wait_state("stopped")
        keyboard.press("Alt+n")
        expect(self.page.get_by_text("What would you like to know?")).to_be_visible()
        keyboard.type("plain again")
        keyboard.press("Enter")
        self.wait_state("done")
        expect(self.page.locator("#announcer")).to_contain_text("Answer: Good day.")
        keyboard.press("Shift+Tab")
        outline = self.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        self.assertEqual(outline, "solid")

    def test_follows_the_end_only_there(self):
        self.send("long")
        scroller = self.page.locator("#scroller")
        expect(self.answers.locator("p").nth(40)).to_be_attached()
        self.page.mouse.move(700, 300)
        self.page.mouse.wheel(0, -600)
        expect(self.page.get_by_role("button", name="To the end")).to_be_visible()
        place = scroller.evaluate("node => node.scrollTop")
        self.wait_state("done")
        self.assertEqual(scroller.evaluate("node => node.scrollTop"), place)
        self.page.get_by_role("button", name="To the end").click()
        expect(self.page.get_by_role("button", name="To the end")).to_be_hidden()

    def test_long_stream_is_cheap(self):
        self.page.evaluate("""() => {
          window.longest = 0;
          new PerformanceObserver(list => {
            for (const entry of list.getEntries()) longest = Math.max(longest, entry.duration);
          }).observe({type: 'longtask'});
        }""")
        self.ask("code")
        expect(self.answers.locator("pre code")).to_contain_text("line of code")
        # A frame that redraws 3000 lines anew each time takes far longer on any machine.
        self.assertLess(self.page.evaluate("longest"), 1000)

    def test_colors_of_code_have_contrast(self):
        self.ask("colors")
        code = self.answers.locator("code")
        self.assertEqual(code.inner_text(), SCRIPTS["colors"][1].strip("`\n").removeprefix("cpp\n"))
        for scheme in ("light", "dark"):
            self.page.emulate_media(color_scheme=scheme)
            found = {}
            for kind, text in (("keyword", "int"), ("number", "1"), ("comment", "// <b>"),
                               ("string", '"x"')):
                piece = code.locator("span").get_by_text(text, exact=True).last
                expect(piece).to_have_class(kind)
                found[kind] = piece.evaluate("piece => getComputedStyle(piece).color")
                self.assertGreater(contrast(found[kind], self.answers.locator("figure").evaluate(
                    "figure => getComputedStyle(figure).backgroundColor")), 4.5, (scheme, kind))
            self.assertEqual(len(set(found.values())), 4, found)
            self.shot(f"code_{scheme}")

    def test_dark(self):
        self.page.emulate_media(color_scheme="dark")
        background = "getComputedStyle(document.body).backgroundColor"
        self.assertEqual(self.page.evaluate(background), "rgb(22, 24, 27)")
        self.ask("thinking")
        self.ask("markdown")
        self.shot("dark")
        theme = self.page.get_by_role("button", name="Theme")
        theme.click()
        self.assertEqual(self.page.evaluate(background), "rgb(253, 253, 251)")
        self.page.reload()
        self.assertEqual(self.page.evaluate(background), "rgb(253, 253, 251)")

    def test_phone(self):
        self.page.set_viewport_size({"width": 360, "height": 700})
        self.page.wait_for_timeout(300)  # the drawer slides
        self.shot("phone_empty")
        expect(self.page.get_by_role("note")).to_have_text("A stub that knows nothing.")
        for width in (320, 360, 390):
            self.page.set_viewport_size({"width": width, "height": 700})
            text, thinking, send = (self.page.locator(name).bounding_box()
                                    for name in ("#message", "#thinking", "#send"))
            self.assertGreater(text["width"], 0.85 * width)
            self.assertGreaterEqual(thinking["y"], text["y"] + text["height"] - 1)
            self.assertGreaterEqual(thinking["width"], 120, "its value can be read")
            self.assertLessEqual(send["x"] + send["width"], width)
            self.assert_fits_width()
        self.page.set_viewport_size({"width": 360, "height": 700})
        for text in ("markdown " + "long" * 40, "thinking", "injection"):
            self.ask(text)
            self.assert_fits_width()
        self.shot("phone")
        self.page.get_by_role("button", name="Show the chats").click()
        expect(self.page.get_by_role("button", name="New chat")).to_be_in_viewport()
        self.page.wait_for_timeout(300)  # the drawer slides
        self.shot("phone_drawer")
        self.page.keyboard.press("Escape")
        expect(self.page.get_by_role("button", name="New chat")).to_be_hidden()
        expect(self.page.get_by_role("button", name="Send")).to_be_in_viewport()


class RealServerTest(PageTest):
    def setUp(self):
        self.start(url)

    def test_exchange(self):
        self.set_setting("Max. tokens", "40")
        self.ask("Tell me of a king.")
        self.assertTrue(self.answers.inner_text().strip())
        for text in ("tokens/s", "first after", "prompt", "cached"):
            expect(self.answers.locator(".figures")).to_contain_text(text)
        shown = self.answers.inner_text()
        self.page.reload()
        self.assertEqual(self.answers.inner_text(), shown)
        self.answers.get_by_role("button", name="Ask for another").click()
        self.wait_state("done")
        self.ask("And of his daughter.")
        expect(self.answers).to_have_count(2)

    def test_stops(self):
        # The model may end its tale before the key is pressed, so no token ends this answer.
        self.page.route("**/v1/chat/completions", lambda route: route.continue_(
            post_data={**route.request.post_data_json, "ignore_eos": True}))
        self.set_setting("Max. tokens", "4000")
        self.send("Tell me a long tale.")
        expect(self.answers.locator(".figures")).to_contain_text("first after")
        self.page.keyboard.press("Escape")
        self.wait_state("stopped")
        self.set_setting("Max. tokens", "8")
        self.ask("Go on.")

    def test_error(self):
        # The page sends nothing that is wrong by itself.
        self.page.route("**/v1/chat/completions", lambda route: route.continue_(
            post_data={**route.request.post_data_json, "max_tokens": 0}))
        self.send("Hello")
        self.wait_state("failed")
        expect(self.answers.get_by_role("alert")).to_contain_text("max_tokens")


if __name__ == "__main__":
    mode, case = (sys.argv[1], RealServerTest) if len(sys.argv) == 3 else ("", ScriptedTest)
    if len(sys.argv) not in (2, 3) or mode not in ("", "--url"):
        sys.exit(__doc__)
    if mode == "--url":
        url = sys.argv[2]
    else:
        folder = Path(sys.argv[1]).resolve()
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(case)
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
