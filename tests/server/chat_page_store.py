"""Tests of the chat page that search, export, import and attach; a part of chat_page_test.py."""

import json
import tempfile

from playwright.sync_api import expect


class ChatStoreTests:
    """For a class that is a ScriptedTest."""

    def test_search(self):
        for text in ("plain whales", "markdown in the first", "limit of patience"):
            self.ask(text)
            self.page.get_by_role("button", name="New chat").click()
        chats = self.page.locator("#chats .open")
        search = self.page.get_by_label("Search in chats")
        for query, found in (("WHALES", ["plain whales"]), ("puerto first", ["markdown in the first"]),
                             ("three", ["limit of patience"]), ("whales three", []),
                             ("", ["limit of patience", "markdown in the first", "plain whales"])):
            search.fill(query)
            expect(chats).to_have_text(found)
        search.fill("nowhere")
        expect(self.page.get_by_text("No chat has these words.")).to_be_visible()
        search.press("Escape")
        expect(chats).to_have_count(3)

    def export(self, name):
        self.page.get_by_role("button", name="Settings").click()
        with self.page.expect_download() as download:
            self.page.get_by_role("button", name=name).click()
        self.page.get_by_role("button", name="Done").click()
        return download.value.suggested_filename, download.value.path().read_bytes()

    def import_file(self, data):
        self.page.get_by_role("button", name="Settings").click()
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            file.write(data)
            file.flush()
            self.page.get_by_label("Import").set_input_files(file.name)
            expect(self.page.locator("#settings")).to_be_hidden()  # has been read
        return self.page.locator("#notice")

    def test_export_and_import(self):
        self.ask("thinking")
        self.answers.last.get_by_role("button", name="Ask for another").click()
        self.wait_state("done")
        shown = self.page.locator("#messages").inner_html()
        self.page.get_by_role("button", name="New chat").click()
        self.ask("plain / one")
        name, one = self.export("Export this chat")
        self.assertEqual((name, len(json.loads(one)["chats"])), ("plain one.json", 1))
        _, both = self.export("Export all")
        chats = self.page.locator("#chats .open")
        for _ in range(2):
            self.page.get_by_role("button", name="Delete").first.click()
        expect(chats).to_have_count(0)
        expect(self.import_file(both)).to_contain_text("Chats imported: 2.")
        self.page.reload()
        expect(chats).to_have_text(["plain / one", "thinking"])
        chats.get_by_text("thinking").click()
        self.assertEqual(self.page.locator("#messages").inner_html(), shown)
        self.import_file(one)  # beside the one that is there
        expect(chats).to_have_count(3)

    def test_import_refuses_what_is_no_chat(self):
        chat = {"id": "a" * 24, "messages": [{"role": "user", "text": "x"}]}

        def file(**fields):
            return json.dumps({"format": "fathom.chats", "version": 1, "chats": [chat],
                               **fields}).encode()
        answer = {"role": "assistant", "text": "x"}
        for data, problem in (
                (b"\x00\xff", "not JSON"), (b"[]", "expected an object, found a list"),
                (b"{}", "expected the format"), (file(version=2), "version 1"),
                (file(chats={}), "chats: expected a list"),
                (file(chats=[chat] * 10_001), "at most 10000 items, found 10001"),
                (file(chats=[chat, {"id": 7, "messages": []}]), "chats[1].id: expected a text"),
                (file(chats=[{**chat, "messages": [{"role": "user", "text": ["<b>"]}]}]),
                 "chats[0].messages[0].text: expected a text, found a list"),
                (file(chats=[{**chat, "messages": [{**answer, "calls": [None]}]}]),
                 "calls[0]: expected an object, found null"),
                (file(chats=[{**chat, "messages": [{**answer, "earlier": [{**answer, "usage": 1}]}]}]),
                 "earlier[0].usage: expected an object"),
                (b" " * ((16 << 20) + 1), "too large")):
            expect(self.import_file(data)).to_contain_text(problem)
        expect(self.page.locator("#chats .open")).to_have_count(0)
        # Wrong settings, times and states do no harm: the chat is there.
        odd = {**chat, "settings": {"temperature": "9", "system": 3, "seed": "1"}, "other": 1,
               "messages": [{**answer, "state": "streaming", "usage": {"completion_tokens": "many"}}]}
        expect(self.import_file(file(chats=[odd]))).to_contain_text("Chats imported: 1.")
        self.page.locator("#chats .open").click()
        self.wait_state("interrupted")
        self.ask("plain")
        self.assertEqual(self.body().get("seed"), 1)
        self.assertNotIn("temperature", self.body())

    def test_chats_of_older_pages(self):
        old = {"id": "0123456789abcdef01234567", "title": "Old", "updated": 1,
               "settings": {"system": "", "thinking": "off", "temperature": "1"},
               "messages": [{"role": "user", "text": "Hello"},
                            {"role": "assistant", "text": "Good day.", "reasoning": "", "calls": [],
                             "state": "done", "problem": "", "finish": "stop", "usage": None,
                             "pieces": 3, "firstTime": 9, "thoughtTime": None, "lastTime": 20}]}
        self.store(old)
        self.page.reload()
        self.page.locator("#chats .open").get_by_text("Old").click()
        expect(self.answers).to_contain_text("Good day.")
        self.ask("plain")
        self.assertEqual(self.body()["thinking"], {"type": "disabled"})

    def store(self, chat):
        self.page.evaluate("""chat => localStorage.setItem(`fathom.chat.${chat.id}`,
                                                             JSON.stringify(chat))""", chat)

    def test_marks_in_stored_titles_are_not_shown(self):
        titles = {"**What** is `x`?": "What is x?", "# [A link](https://example.com/) to": "A link to",
                  "> - **many words and…": "many words and…", "2. Attempt": "2. Attempt",
                  "__main__.py": "__main__.py"}
        for k, title in enumerate(titles):
            files = [{"name": "__main__.py", "text": "x"}]
            self.store({"id": f"{k:024x}", "title": title, "updated": 9 - k,
                        "messages": [{"role": "user", "text": "Hello", "files": files}]})
        self.page.reload()
        chats = self.page.locator("#chats .open")
        expect(chats).to_have_text(list(titles.values()))
        for k, title in enumerate(titles.values()):
            chats.nth(k).click()
            expect(self.page.get_by_label("Title of the chat")).to_have_value(title)
            expect(self.page).to_have_title(f"{title} – Fathom")
        _, data = self.export("Export all")
        self.import_file(data.replace(b'"What is x?"', b'"**What** is `x`?"'))
        expect(chats.get_by_text("What is x?")).to_have_count(2)
        self.page.get_by_label("Title of the chat").fill("**Mine**")
        self.page.get_by_label("Title of the chat").press("Enter")
        expect(self.page.get_by_label("Title of the chat")).to_have_value("Mine")
        expect(chats.get_by_text("Mine", exact=True)).to_be_visible()

    def attach(self, *files):
        self.page.get_by_label("Attach text files").set_input_files(
            [{"name": name, "mimeType": "", "buffer": data} for name, data in files])

    def test_attached_files(self):
        attached = self.page.locator("#attachments li")
        self.attach(("a.py", b"print(1)\n"), ("notes", "``` é".encode()), ("gone.txt", b"x"))
        expect(attached).to_contain_text(["a.py9 B", "notes6 B", "gone.txt1 B"])
        self.page.get_by_role("button", name="Remove gone.txt").click()
        expect(attached).to_have_count(2)
        self.shot("attachments")
        self.ask("plain?")
        expect(attached).to_have_count(0)
        content = "plain?\n\na.py:\n```py\nprint(1)\n```\n\nnotes:\n````\n``` é\n````"
        self.assertEqual(self.body()["messages"], [{"role": "user", "content": content}])
        self.page.reload()
        expect(self.questions.locator(".bubble")).to_have_text("plain?")
        self.questions.get_by_text("a.py").click()
        expect(self.questions.locator("pre").first).to_have_text("print(1)")
        self.questions.get_by_role("button", name="Edit").click()
        self.page.get_by_label("Edit your message").fill("plain!")
        self.page.get_by_label("Edit your message").press("Enter")
        self.wait_state("done")
        self.assertEqual(self.body()["messages"][0]["content"], content.replace("?", "!"))
        self.page.get_by_role("button", name="New chat").click()
        self.attach(("alone.md", b"# Alone"))
        expect(attached).to_have_count(1)
        self.page.get_by_role("button", name="Send").click()
        self.wait_state("done")
        expect(self.page.locator("#chats .open").first).to_have_text("alone.md")

    def test_dropped_file(self):
        transfer = self.page.evaluate_handle("""() => {
          const transfer = new DataTransfer();
          transfer.items.add(new File(['dropped text'], 'dropped.txt'));
          return transfer;
        }""")
        self.page.dispatch_event("#scroller", "drop", {"dataTransfer": transfer})
        expect(self.page.locator("#attachments li")).to_contain_text("dropped.txt")

    def test_refused_files(self):
        notice = self.page.locator("#notice")
        for name, data, problem in (
                ("photo.png", b"\x89PNG\r\n", "“photo.png” is not a text in UTF-8."),
                ("zeros.bin", b"a\x00b", "“zeros.bin” is not a text in UTF-8."),
                ("wide.txt", "wide".encode("utf-16"), "“wide.txt” is not a text in UTF-8."),
                ("large.log", b"x" * ((512 << 10) + 1), "may have 512 KiB, with it they have 513 KiB")):
            self.attach((name, data))
            expect(notice).to_contain_text(problem)
        self.attach(*((f"{k}.txt", b"x") for k in range(21)))
        expect(notice).to_contain_text("“20.txt” is not attached: a message may have 20 files.")
        expect(self.page.locator("#attachments li")).to_have_count(20)
