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
        self.stop_at("word " * 60)
        self.assertTrue(self.body()["messages"][-1]["content"].startswith("word " * 10))
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

    def test_variants_of_earlier_answers(self):
        """Each has what followed it, with the variants in that."""
        def retry():
            self.answers.last.get_by_role("button", name="Ask for another").click()
            self.wait_state("done")

        def switch(answer, direction):
            self.answers.nth(answer).get_by_role("button", name=f"{direction} answer").click()

        def expect_shown(*numbers):
            expect(self.answers.locator(".text")).to_contain_text(
                [f"Number {number}." for number in numbers])
        self.ask("plain first")
        retry()
        self.ask("plain second")
        retry()
        self.ask("plain third")
        expect_shown(2, 4, 5)
        expect(self.answers.nth(2).locator(".variants")).to_have_count(0)
        switch(0, "Previous")
        expect_shown(1)
        expect(self.questions).to_have_count(1)
        expect(self.answers.get_by_role("button", name="Next answer")).to_be_focused()
        self.page.reload()
        self.ask("plain other second")
        self.assertEqual([message["content"] for message in self.body()["messages"]],
                         ["plain first", "Good day. This is a plain answer. Number 1.",
                          "plain other second"])
        switch(0, "Next")
        expect_shown(2, 4, 5)
        switch(1, "Previous")
        expect_shown(2, 3)
        self.page.reload()
        expect_shown(2, 3)
        switch(0, "Previous")
        expect_shown(1, 6)
        _, exported = self.export("Export this chat")
        self.page.get_by_role("button", name="Delete").click()
        self.import_file(exported)
        self.page.locator("#chats .open").click()
        switch(0, "Next")
        switch(1, "Next")
        expect_shown(2, 4, 5)
        expect(self.questions.locator(".bubble")).to_have_text(
            ["plain first", "plain second", "plain third"])

    def test_no_variants_while_an_answer_is_written(self):
        self.ask("plain")
        self.answers.get_by_role("button", name="Ask for another").click()
        self.wait_state("done")
        previous = self.answers.first.get_by_role("button", name="Previous answer")
        expect(previous).to_be_visible()
        self.send("slow")
        expect(previous).to_be_hidden()
        self.stop_at("word word")
        expect(previous).to_be_visible()

    def test_variant_is_shown_where_the_other_was(self):
        self.ask("long")
        self.answers.last.get_by_role("button", name="Ask for another").click()
        self.wait_state("done")
        self.ask("long again")
        previous = self.answers.first.get_by_role("button", name="Previous answer")
        previous.click()
        self.ask("long after the other")
        self.answers.first.get_by_role("button", name="Next answer").click()
        previous.scroll_into_view_if_needed()
        place = previous.bounding_box()["y"]
        previous.click()
        following = self.answers.first.get_by_role("button", name="Next answer")
        self.assertAlmostEqual(following.bounding_box()["y"], place, delta=2)

    def test_depth_of_variants_is_bounded(self):
        """A hostile file; deeper variants are left out, the rest is there."""
        depth = 5000
        opening = '{"role": "assistant", "text": "y", "earlier": [{"text": "x", "rest": ['
        text = ('{"format": "fathom.chats", "version": 1, "chats": [{"id": "a", "messages": [' +
                opening * depth + "]}]}" * depth + "]}]}")
        expect(self.import_file(text.encode())).to_contain_text("Chats imported: 1.")
        self.page.locator("#chats .open").click()
        expect(self.answers).to_contain_text("2 / 2")
        self.answers.get_by_role("button", name="Previous answer").click()
        expect(self.answers).to_have_count(2)
        self.page.reload()
        expect(self.answers).to_have_count(2)
        self.assertEqual(self.page.evaluate(
            "Object.values(localStorage).find((text) => text.includes('rest'))")
            .count('"text":"y"'), 101)
