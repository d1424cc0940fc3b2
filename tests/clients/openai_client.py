"""The official package of OpenAI: chat, completions and responses."""

import asyncio
import json

import openai
from pydantic import BaseModel

from checks import (END_AT_ONCE, END_JSON, MODEL, QUESTION, SHORT, TOO_LONG, URL, check, equal, main, raises)

client = openai.OpenAI(base_url=URL + "/v1", api_key="none", max_retries=0)
ASK = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}], "max_tokens": SHORT,
       "seed": 7}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris"]}},
              "required": ["city"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather.",
                                         "parameters": PARAMETERS, "strict": True}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "city", "schema": PARAMETERS}}
JSON = {**ASK, "max_tokens": 100, "logit_bias": END_JSON}


class Weather(BaseModel):
    city: str
    days: int | None
    sunny: bool


@check
def models():
    equal([model.id for model in client.models.list()], [MODEL])
    equal(client.models.retrieve(MODEL).id, MODEL)
    raises(openai.NotFoundError, lambda: client.models.retrieve("another"), "another")


@check
def chat():
    answer = client.chat.completions.create(**ASK)
    equal(answer.choices[0].finish_reason, "length")
    equal(answer.usage.completion_tokens, SHORT)
    assert answer.choices[0].message.content
    equal(client.chat.completions.create(**ASK).choices[0].message, answer.choices[0].message)


@check
def streaming():
    whole = client.chat.completions.create(**ASK)
    chunks = list(client.chat.completions.create(
        **ASK, stream=True, stream_options={"include_usage": True}))
    choices = [choice for chunk in chunks for choice in chunk.choices]
    equal("".join(choice.delta.content or "" for choice in choices),
          whole.choices[0].message.content)
    equal([choice.finish_reason for choice in choices if choice.finish_reason], ["length"])
    equal(chunks[-1].usage.total_tokens, whole.usage.total_tokens)


@check
async def many_at_once():
    async with openai.AsyncOpenAI(base_url=URL + "/v1", api_key="none", max_retries=0) as many:
        answers = await asyncio.gather(*(many.chat.completions.create(**{**ASK, "seed": seed})
                                         for seed in (7, 8, 7, 8)))
    texts = [answer.choices[0].message.content for answer in answers]
    equal(texts[:2], texts[2:])


@check
def log_probabilities():
    answer = client.chat.completions.create(**ASK, logprobs=True, top_logprobs=3)
    tokens = answer.choices[0].logprobs.content
    equal("".join(token.token for token in tokens), answer.choices[0].message.content)
    assert all(len(token.top_logprobs) == 3 and token.logprob <= 0 for token in tokens)


@check
def tool_round():
    ended = {**ASK, "max_tokens": 200, "logit_bias": END_AT_ONCE}
    raw = client.chat.completions.with_raw_response.create(
        **ended, tools=[TOOL], tool_choice="required")
    assert "x-constraint-relaxed" not in raw.headers
    choice = client.chat.completions.create(**ended, tools=[TOOL], tool_choice={
        "type": "function", "function": {"name": "get_weather"}}).choices[0]
    equal(choice.finish_reason, "tool_calls")
    call = choice.message.tool_calls[0]
    equal((call.function.name, json.loads(call.function.arguments)), ("get_weather", {"city": "Paris"}))
    again = client.chat.completions.create(**{**ASK, "messages": [
        *ASK["messages"], choice.message, {"role": "tool", "tool_call_id": call.id,
                                           "content": "sunny"}]}, tools=[TOOL])
    assert again.choices[0].message.content


@check
def tools_streamed():
    def stream(**more):
        with client.chat.completions.stream(**{**ASK, **more}, tools=[TOOL],
                                            tool_choice="required") as events:
            return events.get_final_completion().choices[0]
    final = stream(logit_bias=END_AT_ONCE, max_tokens=200)
    equal(final.finish_reason, "tool_calls")
    equal(final.message.tool_calls[0].function.parsed_arguments,
          {"city": "Paris"})
    raises(openai.LengthFinishReasonError, lambda: stream(max_tokens=8))  # the client wants strict calls to be whole


@check
def structured_output():
    answer = client.chat.completions.create(**JSON, response_format=FORMAT)
    equal(json.loads(answer.choices[0].message.content), {"city": "Paris"})
    equal((answer.choices[0].finish_reason, answer.choices[0].message.refusal), ("stop", None))
    chunks = client.chat.completions.create(**JSON, response_format=FORMAT, stream=True)
    equal("".join(chunk.choices[0].delta.content or "" for chunk in chunks),
          answer.choices[0].message.content)
    anything = client.chat.completions.create(**JSON, response_format={"type": "json_object"})
    equal(type(json.loads(anything.choices[0].message.content)), dict)
    completed = client.completions.create(model=MODEL, prompt="Once", max_tokens=8,
                                          extra_body={"guided_choice": ["yes", "no"]})
    assert completed.choices[0].text in ("yes", "no")


@check
def parsed_models():
    parsed = client.chat.completions.parse(**JSON, response_format=Weather).choices[0].message
    equal((type(parsed.parsed), parsed.refusal), (Weather, None))
    with client.chat.completions.stream(**JSON, response_format=Weather) as stream:
        equal(stream.get_final_completion().choices[0].message.parsed, parsed.parsed)
    ask = {"model": MODEL, "input": QUESTION, "max_output_tokens": 100,
           "extra_body": {"logit_bias": END_JSON}}
    response = client.responses.parse(**ask, text_format=Weather)
    equal((response.status, type(response.output_parsed)), ("completed", Weather))
    with client.responses.stream(**ask, text_format=Weather) as stream:
        equal(type(stream.get_final_response().output_parsed), Weather)
    raises(openai.LengthFinishReasonError, lambda: client.chat.completions.parse(
        **{**JSON, "max_tokens": 4}, response_format=Weather))


@check
def refused_schemas():
    wrong = {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}
    error = raises(openai.BadRequestError, lambda: client.chat.completions.create(
        **ASK, response_format={"type": "json_schema", "json_schema": {
            "name": "wrong", "strict": True, "schema": wrong}}), "response_format")
    equal((error.param, error.code), ("response_format.json_schema.schema", "invalid_schema"))
    equal(error.body["errors"][0]["keyword"], "$ref")
    raw = client.chat.completions.with_raw_response.create(
        **JSON, response_format={"type": "json_schema", "json_schema": {
            "name": "n", "schema": {"type": "string", "format": "phone"}}})
    equal(raw.headers["x-constraint-relaxed"], "response_format.json_schema.schema/format")


@check
def completions():
    ask = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": SHORT, "seed": 7}
    whole = client.completions.create(**ask, logprobs=1).choices[0]
    streamed = client.completions.create(**ask, stream=True)
    equal("".join(chunk.choices[0].text for chunk in streamed), whole.text)
    equal("".join(whole.logprobs.tokens), whole.text)


@check
def responses():
    ask = {"model": MODEL, "input": QUESTION, "max_output_tokens": SHORT, "temperature": 0}
    whole = client.responses.create(**ask)
    equal((whole.status, whole.incomplete_details.reason), ("incomplete", "max_output_tokens"))
    with client.responses.stream(**ask) as stream:
        equal("".join(event.delta for event in stream
                      if event.type == "response.output_text.delta"), whole.output_text)
    more = client.responses.create(model=MODEL, input="Go on.", previous_response_id=whole.id,
                                   max_output_tokens=SHORT)
    assert more.usage.input_tokens > whole.usage.input_tokens
    called = client.responses.create(
        **{**ask, "max_output_tokens": 200, "extra_body": {"logit_bias": END_AT_ONCE}}, tool_choice="required", tools=[{
            "type": "function", "name": "get_weather", "parameters": PARAMETERS, "strict": True}])
    equal([item.type for item in called.output], ["function_call"])
    equal(json.loads(called.output[0].arguments), {"city": "Paris"})


@check
def errors():
    wrong = raises(openai.BadRequestError,
                   lambda: client.chat.completions.create(**ASK, temperature=9))
    equal(wrong.param, "temperature")
    long = {**ASK, "messages": [{"role": "user", "content": TOO_LONG}]}
    overflow = raises(openai.BadRequestError, lambda: client.chat.completions.create(**long),
                      "maximum context length")
    equal(overflow.code, "context_length_exceeded")


main()
