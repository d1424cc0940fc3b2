"""The official Anthropic package against a running server."""

import unittest

import anthropic
import pydantic

from scripts import SCRIPTS, WEATHER_SCHEMA
from server_process import ScriptedServer, get_json, wait_until

TOOLS = [{"name": "get_weather", "description": "The weather of a city.",
          "input_schema": WEATHER_SCHEMA}]
CITY = 'Par"is\n🗼'


def ask(name):
    return [{"role": "user", "content": f"script:{name}"}]


class AnthropicTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ScriptedServer(SCRIPTS, key="secret")
        cls.client = anthropic.Anthropic(base_url=cls.server.url, api_key="secret", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.stop()

    def create(self, name, **more):
        return self.client.messages.create(
            **{"model": "fairy", "max_tokens": 1000, "messages": ask(name), **more})

    def stream(self, name, **more):
        return self.client.messages.stream(
            **{"model": "fairy", "max_tokens": 1000, "messages": ask(name), **more})

    def test_plain(self):
        message = self.create("plain", thinking={"type": "disabled"})
        self.assertEqual([block.type for block in message.content], ["text"])
        self.assertEqual(message.content[0].text, SCRIPTS["plain"]["text"])
        self.assertEqual(message.stop_reason, "end_turn")
        self.assertGreater(message.usage.output_tokens, 0)
        counted = self.client.messages.count_tokens(
            model="fairy", messages=ask("plain"), thinking={"type": "disabled"})
        self.assertEqual(counted.input_tokens,
                         message.usage.input_tokens + message.usage.cache_read_input_tokens)

    def test_thinking_blocks(self):
        message = self.create("thinking", thinking={"type": "enabled", "budget_tokens": 1024},
                              max_tokens=2000)
        self.assertEqual([block.type for block in message.content], ["thinking", "text"])
        self.assertEqual(message.content[0].thinking, "The user asks.\nI know.")
        self.assertTrue(message.content[0].signature)
        replay = ask("thinking") + [
            {"role": "assistant", "content": [block.model_dump() for block in message.content]},
            {"role": "user", "content": "script:plain"}]
        again = self.create("plain", messages=replay, thinking={"type": "disabled"})
        self.assertEqual(again.content[0].text, SCRIPTS["plain"]["text"])

    def test_stream(self):
        with self.stream("thinking") as stream:
            kinds = [event.type for event in stream]
            message = stream.get_final_message()
        self.assertEqual(kinds[0], "message_start")
        self.assertEqual(kinds[-1], "message_stop")
        self.assertEqual([block.type for block in message.content], ["thinking", "text"])
        self.assertEqual(message.content[0].thinking, "The user asks.\nI know.")
        self.assertEqual(message.content[1].text, "Paris.")
        whole = self.create("thinking")
        self.assertEqual(message.usage.output_tokens, whole.usage.output_tokens)

    def test_tool_use(self):
        with self.stream("tool", tools=TOOLS) as stream:
            partial = "".join(event.partial_json for event in stream if event.type == "input_json")
            message = stream.get_final_message()
        self.assertEqual(message.stop_reason, "tool_use")
        use = message.content[-1]
        self.assertEqual(use.input, {"city": CITY, "days": 3})
        self.assertTrue(use.id.startswith("toolu_"))
        self.assertTrue(partial)
        whole = self.create("tool", tools=TOOLS)
        self.assertEqual(whole.content[-1].input, use.input)
        follow_up = ask("tool") + [
            {"role": "assistant", "content": [block.model_dump() for block in message.content]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": use.id, "content": "sunny"},
                {"type": "text", "text": "script:thinking"}]}]
        answer = self.create("", messages=follow_up, tools=TOOLS)
        self.assertEqual(answer.content[-1].text, "Paris.")
        follow_up[1]["content"] = [block for block in follow_up[1]["content"]
                                   if block["type"] != "thinking"]
        again = self.client.messages.with_raw_response.create(
            model="fairy", max_tokens=1000, messages=follow_up, tools=TOOLS)
        self.assertEqual(again.headers["x-exact-replay"], "1")
        self.assertEqual(again.parse().usage.input_tokens, answer.usage.input_tokens,
                         "the reasoning that was left out is back")

    def test_parallel_and_forced_tools(self):
        message = self.create("parallel", tools=TOOLS)
        self.assertEqual([block.input["city"] for block in message.content], ["Paris", "Rome"])
        one = self.create("parallel", tools=TOOLS,
                          tool_choice={"type": "auto", "disable_parallel_tool_use": True})
        self.assertEqual(len(one.content), 1)
        for choice in ({"type": "any"}, {"type": "tool", "name": "get_weather"}):
            forced = self.create("forced", tools=TOOLS, tool_choice=choice)
            self.assertEqual(forced.content[-1].name, "get_weather")
            self.assertEqual(forced.stop_reason, "tool_use")

    def test_structured_outputs(self):
        class Day(pydantic.BaseModel):
            city: str
            sunny: bool

        message = self.client.messages.parse(
            model="fairy", max_tokens=1000, messages=ask("json"), output_format=Day)
        self.assertEqual(message.parsed_output, Day(city="Paris", sunny=True))
        self.assertEqual(message.stop_reason, "end_turn")
        self.assertEqual(self.create("json_length", max_tokens=2).stop_reason, "max_tokens")
        schema = {"type": "string", "pattern": r"\bword"}
        with self.assertRaises(anthropic.BadRequestError) as refused:
            self.create("json", output_config={
                "format": {"type": "json_schema", "schema": schema}})
        error = refused.exception.body["error"]
        self.assertEqual((error["type"], error["code"], error["param"]),
                         ("invalid_request_error", "unsupported_schema",
                          "output_config.format.schema"))
        self.assertEqual(error["errors"][0]["keyword"], "pattern")

    def test_request_ids(self):
        self.assertTrue(self.create("plain")._request_id.startswith("req_"))
        mine = self.create("plain", extra_headers={"X-Request-Id": "mine"})
        self.assertEqual(mine._request_id, "mine")

    def test_a_turn_token_ends_the_turn(self):
        message = self.create("turn")
        self.assertEqual(message.stop_reason, "end_turn")
        self.assertIsNone(message.stop_sequence)
        self.assertEqual(message.content[-1].text, "Done.")
        with self.stream("turn") as stream:
            self.assertEqual("".join(stream.text_stream), "Done.")

    def test_a_forced_call_that_is_refused(self):
        for choice in ({"type": "any"}, {"type": "tool", "name": "get_weather"}):
            with self.stream("refuses", tools=TOOLS, tool_choice=choice) as stream:
                message = stream.get_final_message()
            self.assertEqual(message.stop_reason, "tool_use")
            self.assertEqual([block.type for block in message.content], ["thinking", "tool_use"])
            self.assertEqual(message.content[-1].input, {})

    def test_stops(self):
        stopped = self.create("count", stop_sequences=["four"])
        self.assertEqual(stopped.stop_reason, "stop_sequence")
        self.assertEqual(stopped.stop_sequence, "four")
        self.assertEqual(stopped.content[0].text, "one two three ")
        self.assertEqual(self.create("length", max_tokens=2).stop_reason, "max_tokens")
        # The engine ended it before max_tokens: the context was full.
        full = self.create("length")
        self.assertEqual(full.stop_reason, "model_context_window_exceeded")
        self.assertEqual(full.content[0].text, "This is cut")
        cut = self.create("thinking_length")
        self.assertEqual([block.type for block in cut.content], ["thinking"])

    def test_system_and_prefill(self):
        answer = self.create("", system=[{"type": "text", "text": "Be brief."},
                                         {"type": "text", "text": "script:count"}],
                             messages=[{"role": "user", "content": "Go."},
                                       {"role": "assistant", "content": "one two"}],
                             thinking={"type": "disabled"})
        self.assertTrue(answer.content[0].text)

    def test_errors(self):
        with self.assertRaises(anthropic.BadRequestError) as refused:
            self.create("plain", extra_body={"temperature": 9})
        self.assertIn("temperature", str(refused.exception))
        self.assertEqual(refused.exception.body["type"], "error")
        self.assertEqual(refused.exception.request_id, refused.exception.body["request_id"])
        self.assertTrue(refused.exception.request_id.startswith("req_"))
        with self.assertRaises(anthropic.BadRequestError) as refused:
            self.create("", messages=[{"role": "user", "content": [
                {"type": "image", "source": {"type": "url", "url": "http://x/y.png"}}]}])
        self.assertIn("messages[0].content[0]", str(refused.exception))
        with self.assertRaises(anthropic.BadRequestError) as refused:
            self.create("", messages=[{"role": "user", "content": "word " * 9000}])
        self.assertIn("prompt is too long", str(refused.exception))
        with self.assertRaises(anthropic.RateLimitError):
            self.create("full")
        with self.assertRaises(anthropic.APIStatusError):
            self.create("error")
        with self.assertRaises(anthropic.APIError):
            with self.stream("error") as stream:
                list(stream)
        with anthropic.Anthropic(base_url=self.server.url, api_key="wrong",
                                 max_retries=0) as stranger:
            with self.assertRaises(anthropic.AuthenticationError):
                stranger.messages.create(model="fairy", max_tokens=1, messages=ask("plain"))

    def test_models(self):
        models = self.client.models.list()
        self.assertEqual([model.id for model in models.data], ["fairy"])
        self.assertEqual(self.client.models.retrieve("fairy").display_name, "fairy")

    def test_leaving_cancels(self):
        load = lambda: self.client.get("/load", cast_to=object)["server_load"]
        with self.stream("slow") as stream:
            next(iter(stream.text_stream))
            self.assertEqual(load(), 1)
        wait_until(lambda: load() == 0, seconds=5)

    def test_health_needs_no_key(self):
        self.assertEqual(get_json(self.server.url + "/health"), {"status": "ok"})


if __name__ == "__main__":
    unittest.main()
