"""Strands Agents: its models for chat completions and for responses, in agents with tools."""

from typing import Literal

import openai
from pydantic import BaseModel
from strands import Agent, ToolContext, tool
from strands.models.openai import OpenAIModel
from strands.models.openai_responses import OpenAIResponsesModel
from strands.types.exceptions import ContextWindowOverflowException, MaxTokensReachedException

from checks import END_AT_ONCE, MODEL, QUESTION, SHORT, TOO_LONG, URL, check, equal, main, raises

CONNECTION = {"base_url": URL + "/v1", "api_key": "none", "max_retries": 0}
UNTIL_A_SENTENCE_ENDS = {"stop": ["."]}  # an agent refuses answers that are cut
asked = []


def models(length=256, body=UNTIL_A_SENTENCE_ENDS, **more):
    shared = {"temperature": 0, "extra_body": body, **more}
    server = {"client_args": CONNECTION, "model_id": MODEL}
    return (OpenAIModel(**server, params={"max_tokens": length, **shared}),
            OpenAIModel(**server, params={"max_tokens": length, **shared}, stream=False),
            OpenAIResponsesModel(**server, params={"max_output_tokens": length, **shared}))


def agent_of(model, **more):
    return Agent(model, callback_handler=None, retry_strategy=None, **more)


class Day(BaseModel):
    """A day in a city."""

    city: Literal["Paris"]
    sunny: bool


@tool(context=True)
def get_weather(city: Literal["Paris"], tool_context: ToolContext) -> str:
    """The weather of a city.

    Args:
        city: The city.
    """
    asked.append(city)
    tool_context.invocation_state["request_state"]["stop_event_loop"] = True
    return "sunny"


@check
def plain_run():
    for model in models():
        agent = agent_of(model)
        first = agent(QUESTION)
        assert str(first).strip()
        equal((first.stop_reason, first.metrics.accumulated_usage["outputTokens"] > 0),
              ("end_turn", True))
        equal(len((agent("Go on."), agent.messages)[1]), 4)


@check
async def streaming():
    for model in models():
        agent = agent_of(model)
        events = [event async for event in agent.stream_async(QUESTION)]
        equal("".join(event["data"] for event in events if "data" in event),
              str(events[-1]["result"]).removesuffix("\n"))


@check
def tool_round():
    forced = models(200, {"logit_bias": END_AT_ONCE, "tool_choice": "required"})
    for model, free in zip(forced, models()):
        asked.clear()
        first = agent_of(model, tools=[get_weather])
        equal(first(QUESTION).stop_reason, "tool_use")
        equal(asked, ["Paris"])
        # Another agent goes on from the result and is free to answer.
        second = agent_of(free, tools=[get_weather], messages=first.messages)
        equal(second("And now?").stop_reason, "end_turn")


@check
def structured_output():
    # The agent forces a call of a tool that has the form of the output.
    for model in models(200, {"logit_bias": END_AT_ONCE}):
        result = agent_of(model)(QUESTION, structured_output_model=Day)
        equal(type(result.structured_output), Day)


@check
def errors():
    for model in models(SHORT, {}):
        raises(MaxTokensReachedException, lambda: agent_of(model)(QUESTION))
    for model in models(top_p=2):
        raises(openai.BadRequestError, lambda: agent_of(model)(QUESTION), "top_p")
    for model in models():
        raises(ContextWindowOverflowException, lambda: agent_of(model)(TOO_LONG))


main()
