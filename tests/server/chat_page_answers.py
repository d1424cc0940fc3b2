"""Tests of the chat page that continue an answer and ask for others; a part of chat_page_test.py."""

import time

from playwright.sync_api import expect

from stub_chat_server import SCRIPTS

MAX_WAIT = 15  # seconds


class ChatAnswerTests:
    """For a class that is a ScriptedTest."""

    def go_on(self):
        self.answers.last.get_by_role("button", name="Continue this answer").click()

    def test_continues_behind_the_limit(self):
        self.ask("limit")
        reasoning, content = SCRIPTS["limit"]
        expect(self.answers).to_contain_text("Cut off")
        expect(self.answers.locator(".text")).to_have_text(content[:19])
        self.go_on()
        expect(self.answers.locator(".text")).to_have_text(content)
        self.wait_state("done")
        expect(self.answers).not_to_contain_text("Cut off")
        expect(self.answers.get_by_role("button", name="Continue")).to_be_hidden()
        expect(self.answers.locator(".figures")).to_contain_text("84 tokens")  # of both parts
        self.assertEqual(self.body()["messages"], [
            {"role": "user", "content": "limit"},
            {"role": "assistant", "content": content[:19], "reasoning_content": reasoning,
             "prefix": True}])
        self.ask("plain")
        self.assertNotIn("prefix", self.body()["messages"][1])

    def test_continues_within_thoughts(self):
        reasoning, content = SCRIPTS["cut"]
        self.ask("cut")
        thoughts = self.answers.locator(".thoughts")
        expect(thoughts).to_have_text(reasoning[:19])
        self.go_on()
        expect(self.answers.locator(".text")).to_have_text(content)
        self.wait_state("done")
        expect(thoughts).to_have_text(reasoning)
        self.assertTrue(self.body()["continue_reasoning"])
        self.assertEqual(self.body()["messages"][1:], [
            {"role": "assistant", "content": "", "reasoning_content": reasoning[:19],
             "prefix": True}])
        self.ask("plain")
        self.assertNotIn("continue_reasoning", self.body())

    def test_continues_thoughts_after_stop(self):
        self.send("ponder")
        self.stop_at("And a thought")
        self.go_on()
        expect(self.answers.locator("summary")).to_contain_text("Thinking for")
        self.stop_at("And a thought more. " * 5)
        thoughts = self.answers.locator(".thoughts").text_content()
        self.assertTrue(SCRIPTS["ponder"][0].startswith(thoughts), thoughts)
        expect(self.answers.locator("summary")).to_contain_text("Thought for")

    def test_continues_after_stop(self):
        self.send("slow")
        self.stop_at("word word")
        self.go_on()
        self.stop_at("word " * 30)
        self.assertTrue(SCRIPTS["slow"][1].startswith(self.body()["messages"][-1]["content"]))
        text = self.answers.locator(".text").inner_text()
        self.assertTrue(SCRIPTS["slow"][1].startswith(text), text)

    def test_continues_after_reload(self):
        self.send("slow")
        expect(self.answers.last).to_contain_text("word " * 10)
        self.page.reload()
        self.wait_state("interrupted")
        self.go_on()
        self.assertTrue(self.body()["messages"][-1]["content"].startswith("word " * 10))
        self.stop_at("word " * 60)
        text = self.answers.locator(".text").inner_text()
        self.assertTrue(SCRIPTS["slow"][1].startswith(text), text)

    def test_answer_is_stored_while_it_is_written(self):
        """All of it, also if nothing arrives after: a browser may end without a word."""
        self.send("stall")
        expect(self.answers.last).to_contain_text("First. Second.")
        stored = """Object.entries(localStorage).some(
            ([key, text]) => key.startsWith('fathom.chat.') && text.includes('First. Second.'))"""
        deadline = time.monotonic() + MAX_WAIT
        while not self.page.evaluate(stored):
            self.assertLess(time.monotonic(), deadline, "the end of the text is not stored")
            self.page.wait_for_timeout(100)
        self.page.keyboard.press("Escape")
        self.wait_state("stopped")

    def test_variants(self):
        self.ask("plain")
        for _ in range(2):
            self.answers.last.get_by_role("button", name="Ask for another").click()
            self.wait_state("done")
        previous = self.answers.get_by_role("button", name="Previous answer")
        following = self.answers.get_by_role("button", name="Next answer")
        expect(self.answers).to_contain_text("3 / 3")
        expect(following).to_be_disabled()
        previous.click()
        previous.click()
        expect(self.answers).to_contain_text("Number 1.")
        expect(previous).to_be_disabled()
        self.page.reload()
        expect(self.answers).to_contain_text("1 / 3")
        following.click()
        expect(self.answers).to_contain_text("Number 2.")
        self.shot("variants")
        self.ask("plain")
        self.assertIn("Number 2.", self.body()["messages"][1]["content"])
        expect(previous).to_be_hidden()  # what follows belongs to the answer that was shown
