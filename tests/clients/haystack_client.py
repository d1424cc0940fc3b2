"""Haystack: its generators for chat completions and for responses, and tools in its agent."""

import json
from typing import Annotated, Literal

import openai
from haystack.components.agents import Agent
from haystack.components.generators.chat import (OpenAIChatGenerator,
                                                 OpenAIResponsesChatGenerator)
from haystack.dataclasses import ChatMessage
from haystack.tools import tool
from haystack.utils import Secret
from pydantic import BaseModel

from checks import (END_AT_ONCE, END_JSON, MODEL, QUESTION, SHORT, TOO_LONG, URL, check, equal,
                    main, raises)

SERVER = {"model": MODEL, "api_base_url": URL + "/v1", "api_key": Secret.from_token("none"),
          "max_retries": 0}
chat = OpenAIChatGenerator(**SERVER, generation_kwargs={"seed": 7, "max_completion_tokens": SHORT})
responses = OpenAIResponsesChatGenerator(
    **SERVER, generation_kwargs={"temperature": 0, "max_output_tokens": SHORT})
QUESTIONS = [ChatMessage.from_user(QUESTION)]
FORCED = {"tool_choice": "required", "max_completion_tokens": 200, "logit_bias": END_AT_ONCE}
asked = []


class Day(BaseModel):
    city: str
    sunny: bool


@tool
def get_weather(city: Annotated[Literal["Paris"], "The city."] = "Paris") -> str:
    """The weather of a city."""
    asked.append(city)
    return "sunny in " + city


@check
def chat_and_responses():
    for generator in (chat, responses):
        answer = generator.run(QUESTIONS)["replies"][0]
        assert answer.text
    meta = chat.run(QUESTIONS)["replies"][0].meta
    equal((meta["finish_reason"], meta["usage"]["completion_tokens"]), ("length", SHORT))


@check
def streaming():
    for generator in (chat, responses):
        pieces = []
        joined = generator.run(QUESTIONS, streaming_callback=pieces.append)["replies"][0]
        equal(joined.text, generator.run(QUESTIONS)["replies"][0].text)
        equal("".join(piece.content for piece in pieces), joined.text)


@check
def tool_round():
    for strict in (False, True):
        pieces = []
        for callback in (None, pieces.append):
            first = chat.run(QUESTIONS, callback, FORCED, tools=[get_weather],
                             tools_strict=strict)["replies"][0]
            equal(first.meta["finish_reason"], "tool_calls")
            equal(first.tool_call.tool_name, "get_weather")
            result = ChatMessage.from_tool(get_weather.invoke(**first.tool_call.arguments),
                                           origin=first.tool_call)
            second = chat.run([*QUESTIONS, first, result], tools=[get_weather])["replies"][0]
            assert second.text
        assert any(piece.tool_calls for piece in pieces)


@check
def agent():
    # The agent forces a call in each step, so that its limit of steps ends it.
    asked.clear()
    teller = Agent(chat_generator=OpenAIChatGenerator(**SERVER, generation_kwargs=FORCED),
                   tools=[get_weather], max_agent_steps=2)
    equal(len(teller.run(QUESTIONS)["messages"]), 5)
    equal(asked, ["Paris"] * 2)


@check
def structured_output():
    answer = chat.run(QUESTIONS, generation_kwargs={
        "response_format": Day, "max_completion_tokens": 200, "logit_bias": END_JSON})
    Day(**json.loads(answer["replies"][0].text))


@check
def errors():
    for generator in (chat, responses):
        raises(openai.BadRequestError,
               lambda: generator.run(QUESTIONS, generation_kwargs={"top_p": 2}), "top_p")
        raises(openai.BadRequestError, lambda: generator.run([ChatMessage.from_user(TOO_LONG)]),
               "maximum context length")


main()
