"""AutoGen: its client for chat completions, and the assistant of AgentChat."""

import json
from typing import Literal

import openai
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ToolCallSummaryMessage
from autogen_core.models import CreateResult, UserMessage
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient
from pydantic import BaseModel

from checks import END_AT_ONCE, END_JSON, MODEL, QUESTION, SHORT, TOO_LONG, URL, check, equal, main

QUESTIONS = [UserMessage(content=QUESTION, source="user")]
ABILITIES = {"vision": False, "function_calling": True, "json_output": True, "family": "unknown",
             "structured_output": True}


def client(max_tokens=SHORT, **more):
    return OpenAIChatCompletionClient(model=MODEL, base_url=URL + "/v1", api_key="none",
                                      model_info=ABILITIES, max_retries=0, temperature=0,
                                      max_tokens=max_tokens, **more)


class Day(BaseModel):
    city: str
    sunny: bool


def get_weather(city: Literal["Paris"]) -> str:
    """The weather of a city."""
    return "sunny in " + city


async def fails(task, *words):
    try:
        await task
    except openai.BadRequestError as error:
        assert all(word in str(error) for word in words), error
        return
    raise AssertionError("expected BadRequestError, found no error")


@check
async def chat():
    answer = await client().create(QUESTIONS)
    assert answer.content
    equal((answer.finish_reason, answer.usage.completion_tokens), ("length", SHORT))


@check
async def streaming():
    whole = await client().create(QUESTIONS)
    *pieces, last = [piece async for piece in client().create_stream(
        QUESTIONS, extra_create_args={"stream_options": {"include_usage": True}})]
    equal("".join(pieces), whole.content)
    equal((type(last), last.content, last.usage), (CreateResult, whole.content, whole.usage))


@check
async def forced_tools():
    for strict in (False, True):
        tool = FunctionTool(get_weather, "The weather of a city.", strict=strict)
        asked = {"tools": [tool], "tool_choice": tool,
                 "extra_create_args": {"logit_bias": END_AT_ONCE}}
        whole = await client(200).create(QUESTIONS, **asked)
        equal(whole.finish_reason, "function_calls")
        equal([(call.name, json.loads(call.arguments)) for call in whole.content],
              [("get_weather", {"city": "Paris"})])
        *_, last = [piece async for piece in client(200).create_stream(QUESTIONS, **asked)]
        equal([call.arguments for call in last.content],
              [call.arguments for call in whole.content])


@check
async def agent_with_a_tool():
    # The agent lets the model choose, so the body says otherwise. The tool's result ends the turn.
    forced = client(200, extra_body={"tool_choice": "required", "logit_bias": END_AT_ONCE})
    tool = FunctionTool(get_weather, "The weather of a city.", strict=True)
    for stream in (False, True):
        agent = AssistantAgent("teller", forced, tools=[tool], model_client_stream=stream)
        result = await agent.run(task=QUESTION)
        equal(type(result.messages[-1]), ToolCallSummaryMessage)
        equal(result.messages[-1].content, "sunny in Paris")


@check
async def structured_output():
    agent = AssistantAgent("teller", client(200, logit_bias=END_JSON), output_content_type=Day)
    result = await agent.run(task=QUESTION)
    equal(type(result.messages[-1].content), Day)


@check
async def errors():
    await fails(client(top_p=2).create(QUESTIONS), "top_p")
    await fails(client().create([UserMessage(content=TOO_LONG, source="user")]),
                "maximum context length")


main()
