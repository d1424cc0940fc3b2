"""The official OpenAI package against a running server."""

import json
import threading
import unittest

import openai
import pydantic

from scripts import PATCH, SCRIPTS, WEATHER_SCHEMA
from server_process import ScriptedServer, metric, wait_until

TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city.", "parameters": WEATHER_SCHEMA}}]
RESPONSE_TOOLS = [{"type": "function", "name": "get_weather", "description": "The weather.",
                   "parameters": WEATHER_SCHEMA, "strict": False}]


def ask(name):
    return [{"role": "user", "content": f"script:{name}"}]


class ClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ScriptedServer(SCRIPTS)
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.stop()


class OpenAiTest(ClientTest):
    def chat(self, name, **more):
        return self.client.chat.completions.create(model="fairy", messages=ask(name), **more)

    def test_models(self):
        models = self.client.models.list().data
        self.assertEqual([model.id for model in models], ["fairy"])
        self.assertEqual(self.client.models.retrieve("fairy").object, "model")
        self.assertEqual(self.client.models.retrieve("any/name").id, "any/name")

    def test_chat(self):
        answer = self.chat("plain", reasoning_effort="none")
        self.assertEqual(answer.choices[0].message.content, SCRIPTS["plain"]["text"])
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertEqual(answer.model, "fairy")
        usage = answer.usage
        self.assertEqual(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)

    def test_thinking(self):
        message = self.chat("thinking").choices[0].message
        self.assertEqual(message.content, "Paris.")
        self.assertEqual(message.reasoning_content, "The user asks.\nI know.")
        self.assertEqual(message.reasoning, message.reasoning_content)

    def test_stream(self):
        chunks = list(self.chat("thinking", stream=True, stream_options={"include_usage": True}))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
        self.assertEqual("".join(delta.content or "" for delta in deltas), "Paris.")
        self.assertEqual("".join(getattr(delta, "reasoning_content", None) or ""
                                 for delta in deltas), "The user asks.\nI know.")
        self.assertEqual([c.finish_reason for chunk in chunks for c in chunk.choices
                          if c.finish_reason], ["stop"])
        self.assertEqual(chunks[-1].choices, [])
        whole = self.chat("thinking").usage
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.completion_tokens)
        self.assertGreater(whole.completion_tokens_details.reasoning_tokens, 0)
        self.assertEqual(len({chunk.id for chunk in chunks}), 1)

    def test_stream_helper_accumulates(self):
        with self.client.chat.completions.stream(model="fairy", messages=ask("tool"),
                                                 tools=TOOLS) as stream:
            for _ in stream:
                pass
            final = stream.get_final_completion().choices[0]
        self.assertEqual(final.message.content, "Let me look.")
        self.assertEqual(json.loads(final.message.tool_calls[0].function.arguments),
                         {"city": 'Par"is\n🗼', "days": 3})
        self.assertEqual(final.finish_reason, "tool_calls")

    def test_tool_round_trip(self):
        first = self.chat("tool", tools=TOOLS).choices[0]
        self.assertEqual(first.finish_reason, "tool_calls")
        call = first.message.tool_calls[0]
        self.assertEqual(json.loads(call.function.arguments), {"city": 'Par"is\n🗼', "days": 3})
        messages = ask("tool") + [
            first.message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": call.id, "content": "sunny script:plain"}]
        second = self.client.chat.completions.create(model="fairy", messages=messages, tools=TOOLS)
        self.assertEqual(second.choices[0].message.reasoning_content, SCRIPTS["plain"]["text"])

    def test_exact_replay(self):
        first = self.chat("tool", tools=TOOLS).choices[0].message
        call = first.tool_calls[0]
        arguments = json.dumps(dict(reversed(json.loads(call.function.arguments).items())))
        lost = {"role": "assistant", "content": first.content, "tool_calls": [
            {"id": call.id, "type": "function",
             "function": {"name": call.function.name, "arguments": arguments}}]}
        result = {"role": "tool", "tool_call_id": call.id, "content": "sunny script:plain"}
        before = metric(self.server.url, "fathom_exact_replay_hits_total")
        for stream in (False, True):
            answer = self.client.chat.completions.with_raw_response.create(
                model="fairy", messages=[*ask("tool"), lost, result], tools=TOOLS, stream=stream)
            self.assertEqual(answer.headers["x-exact-replay"], "1")
            self.assertTrue(list(answer.parse()))
        self.assertEqual(metric(self.server.url, "fathom_exact_replay_hits_total"), before + 2)
        prompt = self.prompt([*ask("tool"), lost, result])
        self.assertIn("<think>" + SCRIPTS["tool"]["text"] + "<｜end▁of▁sentence｜>", prompt)
        lost["content"] = "Let me not look."
        self.assertIn("<think></think>Let me not look.", self.prompt([*ask("tool"), lost, result]))

    def prompt(self, messages):
        def post(path, body):
            return self.client.post(f"{self.server.url}/{path}", body=body, cast_to=object)
        tokens = post("tokenize", {"messages": messages, "tools": TOOLS})["tokens"]
        return post("detokenize", {"tokens": tokens})["prompt"]

    def test_parallel_tools(self):
        calls = self.chat("parallel", tools=TOOLS).choices[0].message.tool_calls
        self.assertEqual([json.loads(call.function.arguments)["city"] for call in calls],
                         ["Paris", "Rome"])
        self.assertEqual(len({call.id for call in calls}), 2)
        one = self.chat("parallel", tools=TOOLS, parallel_tool_calls=False).choices[0]
        self.assertEqual(len(one.message.tool_calls), 1)
        self.assertEqual(one.finish_reason, "tool_calls")

    def test_forced_tools(self):
        for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
            for effort in ("none", "high"):
                name = "forced" if effort == "high" else "parallel"
                answer = self.chat(name, tools=TOOLS, tool_choice=choice,
                                   reasoning_effort=effort).choices[0]
                self.assertEqual(answer.message.tool_calls[0].function.name, "get_weather")
                json.loads(answer.message.tool_calls[0].function.arguments)
        none = self.chat("plain", tools=TOOLS, tool_choice="none", reasoning_effort="none")
        self.assertIsNone(none.choices[0].message.tool_calls)
        with self.assertRaises(openai.BadRequestError) as refused:
            self.chat("forced", tools=TOOLS, tool_choice={
                "type": "function", "function": {"name": "unknown"}})
        self.assertIn("tool_choice", refused.exception.body["param"])

    def test_allowed_tools(self):
        allowed = [{"type": "function", "function": {"name": "get_weather"}}]
        for mode, script in (("auto", "tool"), ("required", "forced")):
            answer = self.chat(script, tools=TOOLS, tool_choice={
                "type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": allowed}})
            call = answer.choices[0].message.tool_calls[0]
            self.assertEqual(call.function.name, "get_weather")

    def test_a_forced_call_that_is_refused(self):
        for stream in (False, True):
            answer = self.chat("refuses", tools=TOOLS, tool_choice="required", stream=stream)
            choices = [chunk.choices[0] for chunk in answer] if stream else answer.choices
            parts = [choice.delta if stream else choice.message for choice in choices]
            calls = [call for part in parts for call in part.tool_calls or []]
            self.assertEqual(calls[0].function.name, "get_weather")
            self.assertEqual("".join(call.function.arguments for call in calls), "{}")
            self.assertFalse([part.content for part in parts if part.content])
            self.assertEqual(choices[-1].finish_reason, "tool_calls")

    def test_a_turn_token_ends_the_answer(self):
        choice = self.chat("turn").choices[0]
        self.assertEqual(choice.message.content, "Done.")
        self.assertEqual(choice.finish_reason, "stop")
        self.assertIsNone(choice.stop_reason)
        deltas = [chunk.choices[0].delta.content for chunk in self.chat("turn", stream=True)]
        self.assertEqual("".join(delta or "" for delta in deltas), "Done.")
        on = self.chat("turn", extra_body={"ignore_eos": True}).choices[0]
        self.assertEqual(on.message.content, "Done.Thanks!More.")
        markers = self.chat("markers", extra_body={"ignore_eos": True}).choices[0]
        self.assertEqual(markers.message.content, "ABC.")
        raw = self.client.completions.create(model="fairy", prompt="script:turn")
        self.assertIn("<｜User｜>", raw.choices[0].text)

    def test_choices_seed_and_limits(self):
        answer = self.chat("count", n=3, seed=7, max_tokens=3)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1, 2])
        self.assertEqual({choice.finish_reason for choice in answer.choices}, {"length"})
        stopped = self.chat("count", stop=["four"])
        self.assertEqual(stopped.choices[0].message.content, "one two three ")
        self.assertEqual(stopped.choices[0].finish_reason, "stop")

    def test_logprobs(self):
        whole = self.chat("count", logprobs=True, top_logprobs=1).choices[0].logprobs.content
        self.assertEqual("".join(entry.token for entry in whole), "one two three four five six")
        chunks = list(self.chat("count", logprobs=True, top_logprobs=1, stream=True))
        streamed = [entry.token for chunk in chunks for choice in chunk.choices
                    if choice.logprobs for entry in choice.logprobs.content or []]
        self.assertEqual(streamed, [entry.token for entry in whole])

    def test_completions(self):
        answer = self.client.completions.create(model="fairy", prompt="script:count", logprobs=1)
        self.assertEqual(answer.choices[0].text, "</think>one two three four five six")
        pieces = [chunk.choices[0].text for chunk in self.client.completions.create(
            model="fairy", prompt=["script:count", "script:count"], stream=True)
            if chunk.choices]
        self.assertEqual("".join(pieces).count("six"), 2)

    def test_errors(self):
        for more, param in (({"temperature": 3}, "temperature"),
                            ({"response_format": {"type": "json_schema", "json_schema": {}}},
                             "response_format.json_schema.schema"),
                            ({"n": 1000}, "n"), ({"extra_body": {"guided_json": 5}}, "guided_json"),
                            ({"logit_bias": {"x": 1}}, "logit_bias"),
                            ({"max_tokens": 0}, "max_tokens")):
            with self.assertRaises(openai.BadRequestError) as refused:
                self.chat("plain", **more)
            self.assertEqual(refused.exception.body["param"], param, more)
        with self.assertRaises(openai.RateLimitError) as busy:
            self.chat("full")
        self.assertIn("retry-after", busy.exception.response.headers)
        with self.assertRaises(openai.InternalServerError):
            self.chat("error")
        with self.assertRaises(openai.APIError):
            list(self.chat("error", stream=True))
        with self.assertRaises(openai.BadRequestError) as refused:
            self.client.chat.completions.create(
                model="fairy", messages=[{"role": "user", "content": "word " * 9000}])
        self.assertEqual(refused.exception.code, "context_length_exceeded")
        self.assertIn("maximum context length", str(refused.exception))

    def test_strict_tools(self):
        strict = [{"type": "function", "function": {**TOOLS[0]["function"], "strict": True}}]
        for tools in (strict, TOOLS):
            raw = self.client.chat.completions.with_raw_response.create(
                model="fairy", messages=ask("tool"), tools=tools)
            self.assertNotIn("x-constraint-relaxed", raw.headers)
            self.assertEqual(raw.parse().choices[0].finish_reason, "tool_calls")
        strict[0]["function"]["parameters"] = {"type": "object", "properties": {
            "a": {"type": "string", "pattern": r"\bword"}}}
        with self.assertRaises(openai.BadRequestError) as refused:
            self.chat("tool", tools=strict)
        self.assertEqual(refused.exception.body["param"], "tools[0].function.parameters")
        self.assertEqual(refused.exception.code, "unsupported_schema")
        place = refused.exception.body["errors"][0]
        self.assertEqual((place["pointer"], place["keyword"]),
                         ("/properties/a", "pattern"))

    def test_parsed_models(self):
        class Day(pydantic.BaseModel):
            city: str
            sunny: bool

        answer = self.client.chat.completions.parse(
            model="fairy", messages=ask("json"), response_format=Day).choices[0]
        self.assertEqual(answer.message.parsed, Day(city="Paris", sunny=True))
        self.assertIsNone(answer.message.refusal)
        self.assertEqual((answer.finish_reason, answer.message.reasoning), ("stop", "So."))
        with self.client.chat.completions.stream(
                model="fairy", messages=ask("json"), response_format=Day) as stream:
            self.assertEqual(stream.get_final_completion().choices[0].message.parsed,
                             answer.message.parsed)
        with self.assertRaises(openai.LengthFinishReasonError):
            self.client.chat.completions.parse(
                model="fairy", messages=ask("json_length"), response_format=Day)
        response = self.client.responses.parse(model="fairy", input="script:json", text_format=Day)
        self.assertEqual(response.output_parsed, answer.message.parsed)
        self.assertEqual(response.text.format.type, "json_schema")
        with self.client.responses.stream(
                model="fairy", input="script:json", text_format=Day) as stream:
            self.assertEqual(stream.get_final_response().output_parsed, answer.message.parsed)
        cut = self.client.responses.create(model="fairy", input="script:json_length")
        self.assertEqual((cut.status, cut.incomplete_details.reason),
                         ("incomplete", "max_output_tokens"))

    def test_functions_of_before_there_were_tools(self):
        functions = [TOOLS[0]["function"]]
        choice = self.chat("tool", functions=functions).choices[0]
        self.assertEqual(choice.finish_reason, "function_call")
        call = choice.message.function_call
        self.assertEqual(json.loads(call.arguments)["days"], 3)
        answer = self.client.chat.completions.create(
            model="fairy", functions=functions, messages=[
                *ask("tool"), choice.message.model_dump(exclude_none=True),
                {"role": "function", "name": call.name, "content": "script:thinking"}])
        self.assertEqual(answer.choices[0].message.content, "Paris.")

    def test_request_ids(self):
        raw = self.client.chat.completions.with_raw_response.create(
            model="fairy", messages=ask("plain"), extra_headers={"X-Request-Id": "mine-1"})
        self.assertEqual(raw.headers["x-request-id"], "mine-1")
        self.assertEqual(raw.parse()._request_id, "mine-1")

    def test_closing_a_stream_cancels(self):
        stream = self.chat("slow", stream=True)
        next(iter(stream))
        self.assertEqual(self.load(), 1)
        stream.close()
        wait_until(lambda: self.load() == 0, seconds=5)

    def test_going_away_while_waiting_cancels(self):
        def impatient():
            with self.assertRaises(openai.APITimeoutError):
                self.client.with_options(timeout=0.3).chat.completions.create(
                    model="fairy", messages=ask("slow"))
        thread = threading.Thread(target=impatient)
        thread.start()
        wait_until(lambda: self.load() == 1, seconds=5)
        thread.join()
        wait_until(lambda: self.load() == 0, seconds=5)

    def load(self):
        return self.client.get("/../load", cast_to=object)["server_load"]

    def test_metrics_count(self):
        before = self.count_of_answers()
        self.chat("plain")
        wait_until(lambda: self.count_of_answers() > before)

    def count_of_answers(self):
        try:
            return metric(self.server.url, 'fathom_request_success_total{finished_reason="stop"}')
        except AssertionError:
            return 0


class ResponsesTest(ClientTest):
    def test_whole(self):
        response = self.client.responses.create(model="fairy", input="script:thinking")
        self.assertEqual(response.output_text, "Paris.")
        self.assertEqual(response.status, "completed")
        self.assertEqual([item.type for item in response.output], ["reasoning", "message"])
        self.assertGreater(response.usage.output_tokens_details.reasoning_tokens, 0)

    def test_stream(self):
        with self.client.responses.stream(model="fairy", input="script:thinking") as stream:
            events = list(stream)
            final = stream.get_final_response()
        self.assertEqual(final.output_text, "Paris.")
        numbers = [event.sequence_number for event in events if hasattr(event, "sequence_number")]
        self.assertEqual(numbers, sorted(numbers))
        self.assertEqual(events[0].type, "response.created")
        self.assertEqual(events[-1].type, "response.completed")
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        self.assertEqual(text, "Paris.")

    def test_tools(self):
        with self.client.responses.stream(model="fairy", input="script:tool",
                                          tools=RESPONSE_TOOLS) as stream:
            arguments = "".join(event.delta for event in stream
                                if event.type == "response.function_call_arguments.delta")
            final = stream.get_final_response()
        call = [item for item in final.output if item.type == "function_call"][0]
        self.assertEqual(call.arguments, arguments)
        self.assertEqual(json.loads(arguments), {"city": 'Par"is\n🗼', "days": 3})
        follow_up = self.client.responses.create(
            model="fairy", tools=RESPONSE_TOOLS, previous_response_id=final.id,
            input=[{"type": "function_call_output", "call_id": call.call_id,
                    "output": "sunny script:thinking"}])
        self.assertEqual(follow_up.output_text, "Paris.")
        without_reasoning = self.client.responses.with_raw_response.create(
            model="fairy", tools=RESPONSE_TOOLS, store=False, input=[
                {"role": "user", "content": "script:tool"},
                *(item.model_dump() for item in final.output if item.type != "reasoning"),
                {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}])
        self.assertEqual(without_reasoning.headers["x-exact-replay"], "1")

    def test_custom_tool(self):
        tools = [{"type": "custom", "name": "apply_patch"}]
        with self.client.responses.stream(model="fairy", input="script:patch",
                                          tools=tools) as stream:
            deltas = [event.delta for event in stream
                      if event.type == "response.custom_tool_call_input.delta"]
            final = stream.get_final_response()
        self.assertEqual(final.output[-1].input, PATCH)
        self.assertEqual("".join(deltas), PATCH)
        whole = self.client.responses.create(model="fairy", input="script:patch", tools=tools)
        self.assertEqual(whole.output[-1].input, PATCH)

    def test_stored_responses(self):
        first = self.client.responses.create(model="fairy", input="script:plain",
                                             reasoning={"effort": "none"})
        again = self.client.responses.retrieve(first.id)
        self.assertEqual(again.output_text, first.output_text)
        with self.assertRaises(openai.BadRequestError) as refused:
            self.client.responses.cancel(first.id)
        self.assertIn("Cannot cancel a synchronous response.", str(refused.exception))
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.cancel("resp_unknown")
        self.client.responses.delete(first.id)
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve(first.id)

    def test_stored_responses_are_streamed_and_listed(self):
        first = self.client.responses.create(model="fairy", input="script:thinking")
        events = list(self.client.responses.retrieve(first.id, stream=True))
        self.assertEqual(events[-1].type, "response.completed")
        self.assertEqual(events[-1].response.output_text, "Paris.")
        rest = list(self.client.responses.retrieve(first.id, stream=True, starting_after=2))
        self.assertEqual([event.sequence_number for event in rest],
                         [event.sequence_number for event in events[3:]])
        second = self.client.responses.create(
            model="fairy", input="script:plain", previous_response_id=first.id)
        items = list(self.client.responses.input_items.list(second.id, limit=2, order="asc"))
        self.assertEqual([item.type for item in items],
                         ["message", "reasoning", "message", "message"])
        self.assertEqual(items[0].content[0].text, "script:thinking")
        count = self.client.post("/responses/input_tokens", cast_to=object,
                                 body={"model": "fairy", "input": "script:thinking"})
        self.assertEqual(count["input_tokens"], first.usage.input_tokens)
        with self.assertRaises(openai.NotFoundError):
            self.client.post("/responses/compact", cast_to=object, body={"model": "fairy"})

    def test_shell(self):
        tools = [{"type": "shell"}]
        response = self.client.responses.create(
            model="fairy", input="script:shell", tools=tools, tool_choice={"type": "shell"})
        call = response.output[-1]
        self.assertEqual(call.type, "shell_call")
        self.assertEqual(call.action.commands, ["ls -l", "pwd"])
        again = self.client.responses.create(
            model="fairy", tools=tools, previous_response_id=response.id, input=[{
                "type": "shell_call_output", "call_id": call.call_id, "output": [
                    {"stdout": "script:plain", "stderr": "",
                     "outcome": {"type": "exit", "exit_code": 0}}]}])
        self.assertEqual(again.status, "completed")

    def test_incomplete_and_failed(self):
        cut = self.client.responses.create(model="fairy", input="script:length")
        self.assertEqual(cut.status, "incomplete")
        self.assertEqual(cut.incomplete_details.reason, "max_output_tokens")
        events = list(self.client.responses.create(model="fairy", input="script:error",
                                                   stream=True))
        self.assertEqual(events[-1].type, "response.failed")

    def test_errors(self):
        for more in ({"background": True}, {"include": ["everything"]},
                     {"text": {"format": {"type": "json_schema", "name": "x", "schema": 5}}},
                     {"previous_response_id": "resp_unknown"}):
            with self.assertRaises(openai.APIStatusError) as refused:
                self.client.responses.create(model="fairy", input="x", **more)
            self.assertIn(refused.exception.status_code, (400, 404))

    def test_probe_of_codex(self):
        response = self.client.responses.create(model="fairy", input="", max_output_tokens=1)
        self.assertIn(response.status, ("completed", "incomplete"))


class KeyTest(unittest.TestCase):
    def test_keys(self):
        server = ScriptedServer(SCRIPTS, key="secret")
        try:
            with openai.OpenAI(base_url=server.url + "/v1", api_key="secret") as client:
                self.assertEqual(client.models.list().data[0].id, "fairy")
            with openai.OpenAI(base_url=server.url + "/v1", api_key="secreT",
                               max_retries=0) as client:
                with self.assertRaises(openai.AuthenticationError):
                    client.models.list()
        finally:
            server.stop()


if __name__ == "__main__":
    unittest.main()
