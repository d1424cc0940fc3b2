#!/usr/bin/env python3
"""Compares prompts with those of deepseek-recipe, DeepSeek's own converter.

    converter_test.py PROMPT_PRINTER TOKENIZER_DIRECTORY

Makes requests of every class in which the two once differed and docs/spec/encoding.md section 12
decides, the same ones in every run, and fails if a prompt differs. Where Fathom's rule is another
one (system texts of chats stay in place), the expected prompt is that of the request which says the
same in the converter's words. Exit code 77: the package is not installed.
"""
import json
import random
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "testing"))
from pinned_packages import require  # noqa: E402

recipe = require("deepseek_recipe")

PER_CLASS = 24
REQUESTS = {"chat": recipe.ChatCompletionRequest, "responses": recipe.ResponsesRequest,
            "messages": recipe.MessagesRequest}
WORDS = ["go", "why?", "two words", "日本", "a\n\nb", " blank ", "{\"a\": 1}", "ünï", "x" * 40, "tab\there"]
EFFORTS = [None, "none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"]


def converted(api, body):
    """The prompt of the converter."""
    request = REQUESTS[api]({"model": "DeepSeek-V4-Pro", **body})
    conversation = request.convert(recipe.ConversionOptions()).conversation
    return recipe.DeepseekV4Encoding().render_conversation(conversation).prompt


def user(text):
    return {"role": "user", "content": text}


def system(text):
    return {"role": "system", "content": text}


def assistant(text, **fields):
    return {"role": "assistant", "content": text, **fields}


def reminder(text):
    return f"<system-reminder>\n{text}\n</system-reminder>"


class Maker:
    """Makes one request of each class. A class returns (api, request, request of the converter)."""

    def __init__(self, seed):
        self.dice = random.Random(seed)

    def text(self):
        return " ".join(self.dice.sample(WORDS, self.dice.randint(1, 3)))

    def turns(self):
        """An even number of turns, the user's first."""
        turns = []
        for _ in range(self.dice.randint(0, 2)):
            turns += [user(self.text()), assistant(self.text())]
        return turns

    def body(self, api, messages, **fields):
        """The request of these turns, with one way to say whether to reason."""
        effort = self.dice.choice(EFFORTS)
        if effort is not None:
            fields |= {"chat": {"reasoning_effort": effort}, "responses": {"reasoning": {"effort": effort}},
                       "messages": {"output_config": {"effort": effort}}}[api]
        elif api == "messages":
            fields["thinking"] = {"type": self.dice.choice(["enabled", "disabled"])}
        if api == "messages":
            fields["max_tokens"] = 9
        return {"input" if api == "responses" else "messages": messages, **fields}

    def same(self, api, messages, **fields):
        body = self.body(api, messages, **fields)
        return api, body, body

    def api(self):
        return self.dice.choice(list(REQUESTS))

    def in_words(self, api, messages, said, **fields):
        """`messages`, and the turns `said` that say the same in the converter's words."""
        body = self.body(api, messages, **fields)
        key = "input" if api == "responses" else "messages"
        return api, body, {**body, key: said}

    def e1_last_system(self):
        api = self.api()
        text, last = self.text(), self.text()
        turns = [*self.turns(), user(text)]
        return self.in_words(api, [*turns, system(last)],
                             [*turns[:-1], user(f"{text}\n\n{reminder(last)}")])

    def e1_only_system(self):
        return self.same(self.dice.choice(["chat", "responses"]), [system(self.text())])

    def e2_system_in_the_middle(self):
        api = self.api()
        turns = [user(self.text()), assistant(self.text())]
        middle, last = self.text(), self.text()
        return self.in_words(api, [*turns, system(middle), user(last)],
                             [*turns, user(f"{reminder(middle)}\n\n{last}")])

    def e2_messages(self):
        turns = [user(self.text()), *self.turns()[2:]]
        turns.insert(self.dice.randint(1, len(turns)), system(self.text()))
        return self.same("messages", [*turns, user(self.text())])

    def e3_developer(self):
        turns = [*self.turns(), user(self.text())]
        turns.insert(self.dice.randint(1, len(turns)), {"role": "developer", "content": self.text()})
        return self.same("responses", turns, instructions=self.text())

    def e4_leading_systems(self):
        heads = [system(self.text()) for _ in range(self.dice.randint(2, 4))]
        return self.same("chat", [*heads, *self.turns(), user(self.text())], tools=self.tools())

    def e5_two_assistants(self):
        turns = [user(self.text()), *(assistant(self.text(), reasoning_content=self.text())
                                      for _ in range(self.dice.randint(2, 3))), user(self.text())]
        tools = {"tools": self.tools()} if self.dice.random() < 0.5 else {}
        return self.same("chat", turns, **tools)

    def e6_first_assistant(self):
        heads = [system(self.text())] if self.dice.random() < 0.5 else []
        turns = [*heads, assistant(self.text(), reasoning_content=self.text()), user(self.text())]
        tools = {"tools": self.tools()} if self.dice.random() < 0.5 else {}
        return self.same("chat", turns, **tools)

    def e8_prefix(self):
        last = assistant(self.dice.choice(["", self.text()]), prefix=True)
        if self.dice.random() < 0.5:
            last["reasoning_content"] = self.text()
        return self.same("chat", [*self.turns(), user(self.text()), last])

    def e9_effort(self):
        api = self.api()
        body = self.body(api, [user(self.text())])
        if self.dice.random() < 0.5 and api != "responses":
            body["thinking"] = {"type": self.dice.choice(["enabled", "disabled"])}
        return api, body, body

    def schema(self):
        properties = {name: {"type": self.dice.choice(["string", "integer", "boolean"])}
                      for name in self.dice.sample(["b", "a", "ü", "long_name"], 2)}
        return {"type": "object", "properties": properties, "required": list(properties)[:1]}

    def e10_schema(self):
        format = {"name": "n", "schema": self.schema()}
        if self.dice.random() < 0.5:
            format["description"] = self.text()
        heads = [system(self.text())] if self.dice.random() < 0.5 else []
        if self.dice.random() < 0.5:
            return self.same("responses", [*heads, user(self.text())],
                             text={"format": {"type": "json_schema", **format}})
        return self.same("chat", [*heads, user(self.text())],
                         response_format={"type": "json_schema", "json_schema": format})

    def e11_object(self):
        heads = [system(self.text())] if self.dice.random() < 0.5 else []
        tools = {"tools": self.tools()} if self.dice.random() < 0.3 else {}
        return self.same("chat", [*heads, user("json: " + self.text())],
                         response_format={"type": "json_object"}, **tools)

    def tools(self):
        tools = []
        for i in range(self.dice.randint(1, 3)):
            function = {"name": f"f_{i}"}
            if self.dice.random() < 0.6:
                function["description"] = self.dice.choice([None, "", self.text()])
            if self.dice.random() < 0.6:
                function["parameters"] = self.schema()
            if self.dice.random() < 0.5:
                function[self.dice.choice(["x", "title"])] = self.text()
            if self.dice.random() < 0.5:
                function["strict"] = self.dice.choice([None, False])
            items = list(function.items())
            self.dice.shuffle(items)
            tools.append({"type": "function", "function": dict(items)})
        return tools

    def e12_tools(self):
        api = self.api()
        tools = self.tools()
        if api == "responses":
            tools = [{"type": "function", **tool["function"]} for tool in tools]
            for tool in tools:
                tool.setdefault("parameters", self.schema())
        if api == "messages":
            tools = [{"name": tool["function"]["name"], "input_schema": self.schema(),
                      "description": tool["function"].get("description") or self.text()}
                     for tool in tools]
        return self.same(api, [user(self.text())], tools=tools)

    def e17_reminder(self):
        turns = [*self.turns(), user(self.text())]
        turns.insert(self.dice.randint(0, len(turns)),
                     {"role": "latest_reminder", "content": self.text()})
        if turns[-1]["role"] == "assistant":
            turns.append(user(self.text()))
        return self.same("chat", turns)

    def e17_thinking_blocks(self):
        blocks = [{"type": "thinking", "thinking": self.text(), "signature": ""}
                  for _ in range(self.dice.randint(2, 3))]
        turns = [user(self.text()), assistant([*blocks, {"type": "text", "text": self.text()}]),
                 user(self.text())]
        tools = [{"name": "f", "description": "d", "input_schema": self.schema()}]
        return self.same("messages", turns, tools=tools)


def cases():
    makers = [name for name in dir(Maker) if name.startswith("e") and name[1].isdigit()]
    for name in makers:
        maker = Maker(name)
        for number in range(PER_CLASS):
            yield (f"{name} {number}", *getattr(maker, name)())


def main(printer, tokenizer):
    listed = list(cases())
    lines = "".join(json.dumps({"api": api, "request": body}, ensure_ascii=False) + "\n"
                    for _, api, body, _ in listed)
    done = subprocess.run([printer, tokenizer], input=lines, capture_output=True, text=True, check=True)
    prompts = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(prompts) == len(listed), done.stderr
    n_wrong = 0
    shown = set()  # classes of which a wrong prompt was printed
    for (name, api, body, said), prompt in zip(listed, prompts):
        expected = converted(api, said)
        if prompt != expected:
            n_wrong += 1
            kind = name.split()[0]
            if kind not in shown:
                shown.add(kind)
                print(f"{name}, {api}: {json.dumps(body, ensure_ascii=False)}\n"
                      f"  expected {expected[-600:]!r}\n  found    {str(prompt)[-600:]!r}")
    print(f"{len(listed)} prompts, {n_wrong} differ")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
