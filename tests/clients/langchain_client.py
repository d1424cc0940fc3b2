"""LangChain, by its package for OpenAI: chat completions, responses, completions and agents' tools."""

import json
from typing import Literal

import openai
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import BaseModel

from checks import (END_AT_ONCE, END_JSON, MODEL, QUESTION, SHORT, TOO_LONG, URL, check, equal, main,
                    raises, recipe)

SERVER = {"model": MODEL, "base_url": URL + "/v1", "api_key": "none", "max_retries": 0,
          "max_tokens": SHORT}
LONGER = {**SERVER, "max_tokens": 200}  # calls and objects
by_recipe = eval(recipe("LangChain"))
chat_model = ChatOpenAI(**SERVER, seed=7)
long_model = ChatOpenAI(**LONGER, seed=7)


class Weather(BaseModel):
    """The weather of a city."""

    city: str = "Paris"
    days: int = 1


class Day(BaseModel):
    """A day in a city."""

    city: str
    sunny: bool


@tool
def get_weather(city: Literal["Paris"] = "Paris") -> str:
    """The weather of a city."""
    return "sunny in " + city


@check
def chat():
    answer = chat_model.invoke(QUESTION)
    equal(answer.response_metadata["finish_reason"], "length")
    equal(answer.usage_metadata["output_tokens"], SHORT)
    equal(by_recipe.invoke(QUESTION, seed=7, max_tokens=SHORT).content, answer.content)
    batch = chat_model.batch([QUESTION, QUESTION])
    equal([one.content for one in batch], [answer.content] * 2)


@check
def streaming():
    whole = chat_model.invoke(QUESTION)
    chunks = list(chat_model.stream(QUESTION, stream_usage=True))
    joined = sum(chunks[1:], chunks[0])
    equal(joined.content, whole.content)
    equal(joined.usage_metadata["total_tokens"], whole.usage_metadata["total_tokens"])


@check
def tool_round():
    for strict in (None, True):
        bound = long_model.bind_tools([get_weather], strict=strict, tool_choice="get_weather")
        first = bound.invoke(QUESTION, logit_bias=END_AT_ONCE)
        equal(first.response_metadata["finish_reason"], "tool_calls")
        result = get_weather.invoke(first.tool_calls[0])
        equal((type(result), result.content), (ToolMessage, "sunny in Paris"))
        chunks = list(bound.stream(QUESTION, logit_bias=END_AT_ONCE))
        equal(sum(chunks[1:], chunks[0]).tool_calls[0]["args"], first.tool_calls[0]["args"])
        second = chat_model.bind_tools([get_weather]).invoke(
            [HumanMessage(QUESTION), first, result])
        assert second.content


@check
def structured_output():
    called = long_model.with_structured_output(Weather, method="function_calling")
    equal(called.invoke(QUESTION, logit_bias=END_AT_ONCE), Weather())
    model = ChatOpenAI(**{**LONGER, "logit_bias": END_JSON}, seed=7)
    for more in ({}, {"method": "json_schema"}, {"method": "json_schema", "strict": True}):
        equal(type(model.with_structured_output(Day, **more).invoke(QUESTION)), Day)
    answer = model.with_structured_output(Day, method="json_mode",
                                          include_raw=True).invoke(QUESTION)
    equal(answer["raw"].response_metadata["finish_reason"], "stop")
    equal(type(json.loads(answer["raw"].content)), dict)


@check
def responses():
    model = ChatOpenAI(**SERVER, use_responses_api=True, temperature=0)
    whole = model.invoke(QUESTION)
    equal(whole.response_metadata["status"], "incomplete")
    chunks = list(model.stream(QUESTION))
    equal(sum(chunks[1:], chunks[0]).text, whole.text)
    called = ChatOpenAI(**LONGER, use_responses_api=True, temperature=0).bind_tools(
        [get_weather], tool_choice="any").invoke(QUESTION)
    equal([call["name"] for call in called.tool_calls], ["get_weather"])


@check
def completions():
    model = OpenAI(**SERVER, seed=7)
    equal("".join(model.stream("Once upon a time")), model.invoke("Once upon a time"))


@check
def errors():
    raises(openai.BadRequestError, lambda: chat_model.invoke(QUESTION, temperature=9),
           "temperature")
    raises(ContextOverflowError, lambda: chat_model.invoke(TOO_LONG))


main()
