"""OpenAI's agents SDK with its default, strict tools: by responses and by chat completions."""

from typing import Literal

import agents
import openai
from pydantic import BaseModel

from checks import END_AT_ONCE, END_JSON, MODEL, QUESTION, TOO_LONG, URL, check, equal, main

client = openai.AsyncOpenAI(base_url=URL + "/v1", api_key="none", max_retries=0)
MODELS = (agents.OpenAIResponsesModel(MODEL, client),
          agents.OpenAIChatCompletionsModel(MODEL, client))
agents.set_tracing_disabled(True)
END_WITH_SENTENCE = {"stop": ["."]}  # the SDK refuses answers of responses that are cut
called = []


class Weather(BaseModel):
    city: str


@agents.function_tool
def get_weather(city: Literal["Paris"] = "Paris") -> str:
    """The weather of a city."""
    called.append(city)
    return "sunny in " + city


def agent_of(model, output_type=None, ended=END_WITH_SENTENCE, **settings):
    return agents.Agent("Teller", instructions="Tell tales.", model=model, tools=[get_weather],
                        output_type=output_type, model_settings=agents.ModelSettings(
                            temperature=0, max_tokens=256, extra_body=ended, **settings))


async def expect(kind, agent, question, *words):
    try:
        await agents.Runner.run(agent, question)
    except kind as error:
        assert all(word in str(error) for word in words), error
        return
    raise AssertionError(f"expected {kind.__name__}, found no error")


@check
async def plain_run():
    for model in MODELS:
        result = await agents.Runner.run(agent_of(model), QUESTION)
        assert result.final_output
        equal(result.context_wrapper.usage.requests, 1)


@check
async def streaming():
    for model in MODELS:
        whole = await agents.Runner.run(agent_of(model), QUESTION)
        result = agents.Runner.run_streamed(agent_of(model), QUESTION)
        text = [event.data.delta async for event in result.stream_events()
                if event.type == "raw_response_event"
                and event.data.type == "response.output_text.delta"]
        equal("".join(text), whole.final_output)
        equal(result.final_output, whole.final_output)


@check
async def strict_tools():
    assert get_weather.strict_json_schema
    for model in MODELS:
        called.clear()
        result = await agents.Runner.run(agent_of(model, ended={"logit_bias": END_AT_ONCE},
                                                   tool_choice="required"), QUESTION)
        equal(called, ["Paris"])
        equal([item.type for item in result.new_items[:2]], ["tool_call_item",
                                                             "tool_call_output_item"])
        equal(result.context_wrapper.usage.requests, 2)


@check
async def tools_streamed():
    for model in MODELS:
        called.clear()
        result = agents.Runner.run_streamed(agent_of(model, ended={"logit_bias": END_AT_ONCE},
                                                   tool_choice="required"), QUESTION)
        names = [event.name async for event in result.stream_events()
                 if event.type == "run_item_stream_event"]
        equal((called, names[:2]), (["Paris"], ["tool_called", "tool_output"]))


@check
async def another_turn():
    for model in MODELS:
        first = await agents.Runner.run(agent_of(model), QUESTION)
        more = first.to_input_list() + [{"role": "user", "content": "Go on."}]
        second = await agents.Runner.run(agent_of(model), more)
        usage = [run.context_wrapper.usage.input_tokens for run in (first, second)]
        assert usage[0] < usage[1], usage


@check
async def structured_output():
    for model in MODELS:
        result = await agents.Runner.run(
            agent_of(model, Weather, ended={"logit_bias": END_JSON}), QUESTION)
        equal(type(result.final_output), Weather)


@check
async def errors():
    for model in MODELS:
        await expect(openai.BadRequestError, agent_of(model, top_p=2), QUESTION, "top_p")
        await expect(openai.BadRequestError, agent_of(model), TOO_LONG, "maximum context length")


main()
