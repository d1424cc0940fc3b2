"""The official package of Anthropic."""

import json
from typing import Literal

import anthropic
from pydantic import BaseModel

from checks import MODEL, QUESTION, SHORT, TOO_LONG, URL, check, equal, main, raises

client = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0)
ASK = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}], "max_tokens": SHORT,
       "extra_body": {"seed": 7}}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris"]}},
          "required": ["city"]}
JSON = {**ASK, "max_tokens": 200, "extra_body": {"seed": 7, "x-fathom": {"whitespace": "compact"}}}


class Weather(BaseModel):
    city: Literal["Paris"]
    sunny: bool


TOOLS = [{"name": "get_weather", "description": "The weather.", "input_schema": SCHEMA},
         {"type": "bash_20250124", "name": "bash"}]


@check
def models():
    equal([model.id for model in client.models.list()], [MODEL])


@check
def messages():
    answer = client.messages.create(**ASK)
    equal((answer.stop_reason, answer.usage.output_tokens), ("max_tokens", SHORT))
    equal([block.type for block in answer.content], ["text"])
    counted = client.messages.count_tokens(model=MODEL, messages=ASK["messages"])
    equal(counted.input_tokens, answer.usage.input_tokens)


@check
def streaming():
    whole = client.messages.create(**ASK)
    with client.messages.stream(**ASK) as stream:
        equal("".join(stream.text_stream), whole.content[0].text)
        final = stream.get_final_message()
    equal(final.content[0].text, whole.content[0].text)
    equal((final.stop_reason, final.usage.output_tokens), ("max_tokens", SHORT))


@check
def tool_round():
    for name in ("get_weather", "bash"):
        first = client.messages.create(**{**ASK, "max_tokens": 60}, tools=TOOLS,
                                       tool_choice={"type": "tool", "name": name})
        call = first.content[0]
        equal((call.type, call.name, type(call.input)), ("tool_use", name, dict))
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
        second = client.messages.create(**{**ASK, "messages": [
            *ASK["messages"], {"role": "assistant", "content": first.content},
            {"role": "user", "content": [result]}]}, tools=TOOLS)
        equal(second.content[0].type, "text")


@check
def tools_streamed():
    with client.messages.stream(**{**ASK, "max_tokens": 60}, tools=TOOLS,
                                tool_choice={"type": "any"}) as stream:
        final = stream.get_final_message()
    equal([block.type for block in final.content], ["tool_use"])


@check
def structured_output():
    ask = {**JSON, "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}
    answer = client.messages.create(**ask)
    equal(answer.content[0].text, json.dumps({"city": "Paris"}, separators=(",", ":")))
    equal(answer.stop_reason, "end_turn")
    with client.messages.stream(**ask) as stream:
        equal("".join(stream.text_stream), answer.content[0].text)
    parsed = client.messages.parse(**JSON, output_format=Weather)
    equal((type(parsed.parsed_output), parsed.stop_reason), (Weather, "end_turn"))
    wrong = {"type": "json_schema", "schema": {"$ref": "#/$defs/none"}}
    error = raises(anthropic.BadRequestError, lambda: client.messages.create(
        **ASK, output_config={"format": wrong}), "output_config.format")
    equal(error.body["error"]["code"], "invalid_schema")
    equal(error.body["error"]["errors"][0]["keyword"], "$ref")


@check
def errors():
    raises(anthropic.BadRequestError,
           lambda: client.messages.create(**{**ASK, "max_tokens": 0}), "max_tokens")
    raises(anthropic.BadRequestError, lambda: client.messages.create(**{
        **ASK, "messages": [{"role": "user", "content": TOO_LONG}]}), "prompt is too long")


main()
