"""Google's Agent Development Kit by its model for LiteLLM: agents, streams and tools."""

import os

os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", GOOGLE_GENAI_USE_VERTEXAI="FALSE")

import litellm
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types

from checks import END_AT_ONCE, MODEL, QUESTION, SHORT, TOO_LONG, URL, check, equal, main

PROVIDERS = ("openai/", "hosted_vllm/")
asked = []


def get_weather(tool_context, city: str = "Paris") -> str:
    """The weather of a city."""
    asked.append(city)
    tool_context.actions.skip_summarization = True  # ends the turn
    return "sunny"


async def run(provider, question=QUESTION, max_tokens=SHORT, streaming=False, tools=(), **more):
    """Returns the events of a turn."""
    model = LiteLlm(model=provider + MODEL, api_base=URL + "/v1", api_key="none", num_retries=0,
                    max_tokens=max_tokens, temperature=0, **more)
    runner = InMemoryRunner(LlmAgent(name="teller", model=model, tools=list(tools)))
    session = await runner.session_service.create_session(app_name=runner.app_name, user_id="me")
    message = types.Content(role="user", parts=[types.Part(text=question)])
    mode = StreamingMode.SSE if streaming else StreamingMode.NONE
    return [event async for event in runner.run_async(
        user_id="me", session_id=session.id, new_message=message,
        run_config=RunConfig(streaming_mode=mode))]


def text(event):
    return "".join(part.text or "" for part in event.content.parts) if event.content else ""


@check
async def plain_run():
    for provider in PROVIDERS:
        last = (await run(provider))[-1]
        assert text(last)
        equal((last.finish_reason, last.usage_metadata.candidates_token_count),
              (types.FinishReason.MAX_TOKENS, SHORT))


@check
async def streaming():
    for provider in PROVIDERS:
        whole = (await run(provider))[-1]
        events = await run(provider, streaming=True)
        equal("".join(text(event) for event in events if event.partial), text(whole))
        equal(text(events[-1]), text(whole))


@check
async def forced_tools():
    for provider in PROVIDERS:
        for streaming in (False, True):
            asked.clear()
            events = await run(provider, max_tokens=200, streaming=streaming, tools=[get_weather],
                               tool_choice="required", extra_body={"logit_bias": END_AT_ONCE})
            equal(asked, ["Paris"])
            equal(events[-1].get_function_responses()[0].response, {"result": "sunny"})


@check
async def errors():
    for provider in PROVIDERS:
        for question, more, kind, word in (
                (QUESTION, {"top_p": 2}, litellm.BadRequestError, "top_p"),
                (TOO_LONG, {}, litellm.ContextWindowExceededError, "maximum context length")):
            try:
                events = await run(provider, question, **more)
            except kind as error:
                assert word in str(error), error
            else:
                raise AssertionError(f"expected {kind.__name__}, found {events[-1]}")


main()
