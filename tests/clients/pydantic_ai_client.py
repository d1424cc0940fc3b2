"""Pydantic AI with its models for OpenAI's and Anthropic's APIs."""

from typing import Literal

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from checks import END_AT_ONCE, END_JSON, MODEL, QUESTION, SHORT, TOO_LONG, URL, check, equal, main, raises

openai_provider = OpenAIProvider(base_url=URL + "/v1", api_key="none")
CHAT = OpenAIChatModel(MODEL, provider=openai_provider)
MODELS = (CHAT, OpenAIResponsesModel(MODEL, provider=openai_provider),
          AnthropicModel(MODEL, provider=AnthropicProvider(base_url=URL, api_key="none")))
SETTINGS = {"max_tokens": SHORT, "temperature": 0.0}
ENDING = {"max_tokens": 200, "temperature": 0.0, "extra_body": {"logit_bias": END_AT_ONCE}}
JSON = {**ENDING, "extra_body": {"logit_bias": END_JSON}}


class Weather(BaseModel):
    city: Literal["Paris"] = "Paris"


class Day(BaseModel):
    city: str
    sunny: bool


def agent_of(model, settings=None, **more):
    return Agent(model, instructions="Tell tales.", model_settings=settings or SETTINGS, retries=0,
                 **more)


@check
def plain_run():
    for model in MODELS:
        result = agent_of(model).run_sync(QUESTION)
        assert result.output
        equal(result.usage.output_tokens, SHORT)
        equal(result.response.finish_reason, "length")


@check
async def streaming():
    for model in MODELS:
        whole = await agent_of(model).run(QUESTION)
        async with agent_of(model).run_stream(QUESTION) as result:
            text = [part async for part in result.stream_text(delta=True)]
        equal("".join(text), whole.output)


class CallsFirst(AbstractCapability):
    """Forces a call in the first step of a run."""

    def get_model_settings(self):
        return lambda run: {**ENDING, "tool_choice": "required"} if run.run_step == 1 else {}


@check
def tool_round():
    for model in MODELS:
        asked = []
        agent = agent_of(model, capabilities=[CallsFirst()])

        @agent.tool_plain
        def get_weather(city: str = "Paris") -> str:
            """The weather of a city."""
            asked.append(city)
            return "sunny in " + city

        result = agent.run_sync(QUESTION)
        assert result.output
        equal((asked, result.usage.requests), (["Paris"], 2))


@check
def output_by_a_tool():
    # The agent forces a call of its output tool.
    agent = agent_of(CHAT, ENDING, output_type=ToolOutput(Weather))
    first = agent.run_sync(QUESTION)
    equal(first.output, Weather())
    again = agent.run_sync("And now?", message_history=first.all_messages())
    equal(again.output, Weather())


@check
def structured_output():
    for model in MODELS[:2]:  # the client has no schemas for Anthropic's models it does not know
        agent = agent_of(model, JSON, output_type=NativeOutput(Day))
        equal(type(agent.run_sync(QUESTION).output), Day)
    # Asked for in the prompt, with json_object: some object, which is not the one.
    prompted = agent_of(CHAT, JSON, output_type=PromptedOutput(Day))
    raises(UnexpectedModelBehavior, lambda: prompted.run_sync(QUESTION))


@check
def errors():
    for model in MODELS:
        raises(ModelHTTPError, lambda: agent_of(model, {"top_p": 2.0}).run_sync(QUESTION), "top_p")
        raises(ModelHTTPError, lambda: agent_of(model).run_sync(TOO_LONG), "400")


main()
