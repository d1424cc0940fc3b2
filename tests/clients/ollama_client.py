"""ollama, Ollama's own Python package: chats, prompts, formats and errors."""

import json

from checks import MODEL, QUESTION, SHORT, TOO_LONG, URL, check, equal, main, raises

import ollama

client = ollama.Client(host=URL)
OPTIONS = {"seed": 7, "num_predict": SHORT}
MESSAGES = [{"role": "user", "content": QUESTION}]


def text(answer):
    return (answer.message.thinking or "") + (answer.message.content or "")


@check
def list_and_show():
    assert MODEL in [model.model for model in client.list().models]
    assert "completion" in client.show(MODEL).capabilities


@check
def chat():
    whole = client.chat(MODEL, MESSAGES, options=OPTIONS)
    equal((whole.done, whole.done_reason, whole.eval_count), (True, "length", SHORT))
    assert text(whole) and whole.eval_duration > 0
    parts = list(client.chat(MODEL, MESSAGES, options=OPTIONS, stream=True))
    equal("".join(map(text, parts)), text(whole))
    equal([part.done for part in parts], [False] * (len(parts) - 1) + [True])


@check
def think():
    whole = client.chat(MODEL, MESSAGES, options=OPTIONS, think=False)
    assert whole.message.content and not whole.message.thinking
    assert client.chat(MODEL, MESSAGES, options=OPTIONS, think=True).message.thinking


@check
def generate():
    whole = client.generate(MODEL, "Once upon a time", raw=True, options=OPTIONS)
    parts = client.generate(MODEL, "Once upon a time", raw=True, options=OPTIONS, stream=True)
    equal("".join(part.response for part in parts), whole.response)
    assert whole.response
    equal(client.generate(MODEL).done_reason, "load")


@check
def structured_output():
    whole = client.chat(MODEL, MESSAGES, format={"enum": ["sunny"]}, think=False)
    equal(json.loads(whole.message.content), "sunny")


@check
def tools_offered():
    def get_weather(city: str) -> str:
        """The weather.

        Args:
            city: its name
        """
        return city

    assert text(client.chat(MODEL, MESSAGES, tools=[get_weather], options=OPTIONS))


@check
def errors():
    wrong = [{"role": "user", "content": TOO_LONG}]
    raises(ollama.ResponseError, lambda: client.chat(MODEL, wrong), "maximum context length")
    raises(ollama.ResponseError, lambda: list(client.chat(MODEL, wrong, stream=True)),
           "maximum context length")
    raises(ollama.ResponseError,
           lambda: client.chat(MODEL, MESSAGES, options={"mirostat": 2}), "mirostat")


main()
