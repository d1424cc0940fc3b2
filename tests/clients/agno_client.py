"""Agno: its models for chat completions and for responses, in agents with tools and schemas."""

from typing import Literal

from agno.agent import Agent
from agno.models.openai import OpenAILike, OpenAIResponses
from agno.models.vllm import VLLM
from agno.run.agent import RunEvent, RunStatus
from agno.tools import tool
from pydantic import BaseModel

from checks import END_AT_ONCE, END_JSON, MODEL, QUESTION, SHORT, TOO_LONG, URL, check, equal, main

SERVER = {"id": MODEL, "base_url": URL + "/v1", "api_key": "none", "temperature": 0}
asked = []


def models(length=SHORT, bias=None, **more):
    body = {"extra_body": {"logit_bias": bias or {}}}
    return (OpenAILike(**SERVER, **body, max_tokens=length, **more),
            VLLM(**SERVER, **body, max_tokens=length, **more),
            OpenAIResponses(**SERVER, **body, max_output_tokens=length, **more))


class Day(BaseModel):
    city: str
    sunny: bool


@tool(stop_after_tool_call=True)
def get_weather(city: Literal["Paris"]) -> str:
    """The weather of a city."""
    asked.append(city)
    return "sunny"


def calling(model, **more):
    return Agent(model=model, tools=[get_weather], tool_choice="required", **more)


@check
def plain_run():
    for model in models():
        result = Agent(model=model).run(QUESTION)
        assert result.content
        equal((result.status, result.metrics.output_tokens), (RunStatus.completed, SHORT))


@check
def streaming():
    for model in models():
        whole = Agent(model=model).run(QUESTION)
        pieces = Agent(model=model).run(QUESTION, stream=True)
        equal("".join(piece.content or "" for piece in pieces
                      if piece.event == RunEvent.run_content), whole.content)


@check
def forced_tools():
    for model in models(200, END_AT_ONCE):
        for stream in (False, True):
            asked.clear()
            result = calling(model).run(QUESTION, stream=stream, stream_events=stream)
            events = list(result) if stream else []
            equal(asked, ["Paris"])
            equal([event.tool.result for event in events
                   if event.event == RunEvent.tool_call_completed], ["sunny"] * stream)


@check
def another_turn():
    # Without the force, the model reads the result of its call.
    for model in models(200, END_AT_ONCE):
        first = calling(model).run(QUESTION)
        model.extra_body = {"stop": ["."]}
        result = Agent(model=model, tools=[get_weather]).run([*first.messages, *first.messages[:1]])
        equal(result.status, RunStatus.completed)


@check
def structured_output():
    for model in models(200, END_JSON):
        equal(type(Agent(model=model, output_schema=Day).run(QUESTION).content), Day)


@check
def errors():
    for wrong, question, words in (({"top_p": 2}, QUESTION, "top_p"),
                                   ({}, TOO_LONG, "maximum context length")):
        for model in models(**wrong):
            result = Agent(model=model).run(question)
            equal(result.status, RunStatus.error)
            assert words in result.content, result.content


main()
