"""DSPy: its language models, predictions by its adapters, and streams."""

import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise importing it asks the network

import dspy
from dspy.utils.exceptions import AdapterParseError

from checks import MODEL, QUESTION, SHORT, TOO_LONG, URL, check, equal, main, raises

SERVER = {"api_base": URL + "/v1", "api_key": "none", "cache": False, "num_retries": 0}
model = dspy.LM("openai/" + MODEL, **SERVER, max_tokens=SHORT, temperature=0.0)


@check
def chat_completions_and_responses():
    texts = model(QUESTION)
    equal(len(texts), 1)
    assert texts[0]
    equal(model.history[-1]["usage"]["completion_tokens"], SHORT)
    equal(model(QUESTION), texts)
    for kind in ("responses", "text"):
        assert dspy.LM("openai/" + MODEL, kind, **SERVER, max_tokens=SHORT)(QUESTION)[0]


@check
def forced_call():
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}}}}
    answer = model(QUESTION, tools=[tool], tool_choice="required", max_tokens=200)[0]
    call = answer["tool_calls"][0]["function"]
    equal((call["name"], type(json.loads(call["arguments"]))), ("get_weather", dict))


@check
def predictions():
    # The tale has none of the fields, which each adapter says after it was answered.
    for adapter in (dspy.ChatAdapter(), dspy.JSONAdapter()):
        with dspy.context(lm=model, adapter=adapter):
            raises(AdapterParseError,
                   lambda: dspy.Predict("question -> answer")(question=QUESTION), "[answer]")


@check
async def streamed_prediction():
    with dspy.context(lm=model):
        stream = dspy.streamify(dspy.Predict("question -> answer"))
        chunks = []
        try:
            async for chunk in stream(question=QUESTION):
                chunks.append(chunk.choices[0].delta.content or "")
        except AdapterParseError as error:
            assert len(chunks) > 1 and "".join(chunks).strip() in str(error), (chunks, error)
        else:
            raise AssertionError("expected AdapterParseError, found no error")


@check
def errors():
    raises(dspy.LMInvalidRequestError, lambda: model(QUESTION, top_p=2), "top_p")
    raises(dspy.ContextWindowExceededError, lambda: model(TOO_LONG))


main()
