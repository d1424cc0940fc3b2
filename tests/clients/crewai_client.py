"""CrewAI: its models for servers like OpenAI's and for vLLM, and a crew."""

import os
import tempfile

folder = tempfile.TemporaryDirectory()
# Before the import: nothing is sent elsewhere or kept.
os.environ.update(CREWAI_DISABLE_TELEMETRY="true", OTEL_SDK_DISABLED="true",
                  CREWAI_TRACING_ENABLED="false", CREWAI_STORAGE_DIR=folder.name,
                  HOME=folder.name, OPENAI_API_KEY="none")

import openai
from crewai import LLM, Agent, Crew, Task
from crewai.utilities.exceptions.context_window_exceeding_exception import (
    LLMContextLengthExceededError)
from pydantic import BaseModel

from checks import (END_JSON, MODEL, QUESTION, SHORT, TOO_LONG, URL, check, equal,
                    main, raises)


def models(max_tokens=SHORT, **more):
    return [LLM(model=provider + MODEL, base_url=URL + "/v1", api_key="none", temperature=0,
                max_tokens=max_tokens, max_retries=0, **more)
            for provider in ("openai/", "hosted_vllm/")]


class Day(BaseModel):
    city: str
    sunny: bool


@check
def calls():
    for model in models():
        assert model.call(QUESTION)
        equal(model.get_token_usage_summary().completion_tokens, SHORT)


@check
def streaming():
    for whole, streamed in zip(models(), models(stream=True)):
        equal(streamed.call(QUESTION), whole.call(QUESTION))


@check
def structured_output():
    for model in models(200, response_format=Day):
        model.additional_params = {"logit_bias": END_JSON}
        equal(type(model.call(QUESTION)), Day)


@check
def crew():
    for model in models():
        teller = Agent(role="Teller", goal="Tell tales.", backstory="A bard.", llm=model,
                       max_iter=1, max_retry_limit=0)
        task = Task(description=QUESTION, expected_output="A tale.", agent=teller)
        assert Crew(agents=[teller], tasks=[task]).kickoff().raw


@check
def errors():
    for model in models(top_p=2):
        raises(openai.BadRequestError, lambda: model.call(QUESTION), "top_p")
    for model in models():
        raises(LLMContextLengthExceededError, lambda: model.call(TOO_LONG))


main()
