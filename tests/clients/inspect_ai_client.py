"""Inspect: evaluations by its providers for chat completions, for responses and for vLLM."""

import tempfile
from typing import Literal

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import GenerateConfig, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import tool

from checks import END_AT_ONCE, MODEL, QUESTION, SHORT, TOO_LONG, URL, check, equal, main

folder = tempfile.TemporaryDirectory()
PROVIDERS = ("openai-api/fathom/" + MODEL, "openai/" + MODEL, "vllm/" + MODEL)
SETTINGS = {"max_tokens": SHORT, "temperature": 0.0, "max_retries": 0}
ENDING = {int(token): bias for token, bias in END_AT_ONCE.items()}
asked = []


@tool
def get_weather():
    async def execute(city: Literal["Paris"]):
        """The weather of a city.

        Args:
            city: The city.
        """
        asked.append(city)
        return "sunny"
    return execute


def evaluate(name, *solvers, question=QUESTION, **settings):
    """Returns the log of a task with one question."""
    responses = {"responses_api": True} if name.startswith("openai/") else {}
    model = get_model(name, base_url=URL + "/v1", api_key="none",
                      config=GenerateConfig(**{**SETTINGS, **settings}), **responses)
    task = Task([Sample(question, target=" ")], solver=[*solvers, generate()], scorer=includes())
    return eval(task, model=model, log_dir=folder.name, display="none")[0]


@check
def answers():
    for name in PROVIDERS:
        log = evaluate(name)
        equal((log.status, log.results.scores[0].metrics["accuracy"].value), ("success", 1.0))
        output = log.samples[0].output
        equal((output.stop_reason, output.usage.output_tokens), ("max_tokens", SHORT))


@check
def log_probabilities():
    for name in PROVIDERS[::2]:
        output = evaluate(name, logprobs=True, top_logprobs=2).samples[0].output
        equal([len(one.top_logprobs) for one in output.choices[0].logprobs.content], [2] * SHORT)


@check
def tool_round():
    # One call is forced; then the model is free to answer.
    for name in PROVIDERS:
        asked.clear()
        log = evaluate(name, use_tools(get_weather(), tool_choice="any"),
                       generate(tool_calls="single", max_tokens=200, logit_bias=ENDING),
                       use_tools(get_weather(), tool_choice="auto"))
        equal((log.status, asked), ("success", ["Paris"]))
        equal([message.role for message in log.samples[0].messages],
              ["user", "assistant", "tool", "assistant"])


@check
def errors():
    for name in PROVIDERS:
        log = evaluate(name, top_p=2.0)
        equal(log.status, "error")
        assert "top_p" in log.error.message, log.error.message
        output = evaluate(name, question=TOO_LONG).samples[0].output
        equal(output.stop_reason, "model_length")


main()
