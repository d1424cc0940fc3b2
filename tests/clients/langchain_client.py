"""LangChain, by its package for OpenAI: chat completions, responses, completions and agents' tools."""

import openai
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import BaseModel

from checks import (END_AT_ONCE, MODEL, QUESTION, SHORT, TOO_LONG, URL, check, equal, main, raises)

SERVER = {"model": MODEL, "base_url": URL + "/v1", "api_key": "none", "max_retries": 0,
          "max_tokens": SHORT}
chat_model = ChatOpenAI(**SERVER, seed=7)


class Weather(BaseModel):
    """The weather of a city."""

    city: str = "Paris"
    days: int = 1


@tool
def get_weather(city: str = "Paris") -> str:
    """The weather of a city."""
    return "sunny in " + city


@check
def chat():
    answer = chat_model.invoke(QUESTION)
    equal(answer.response_metadata["finish_reason"], "length")
    equal(answer.usage_metadata["output_tokens"], SHORT)
    batch = chat_model.batch([QUESTION, QUESTION])
    equal([one.content for one in batch], [answer.content] * 2)


@check
def streaming():
    whole = chat_model.invoke(QUESTION)
    chunks = list(chat_model.stream(QUESTION, stream_usage=True))
    joined = sum(chunks[1:], chunks[0])
    equal(joined.content, whole.content)
    equal(joined.usage_metadata["total_tokens"], whole.usage_metadata["total_tokens"])


@check
def tool_round():
    for strict in (None, True):
        bound = chat_model.bind_tools([get_weather], strict=strict, tool_choice="get_weather")
        first = bound.invoke(QUESTION, logit_bias=END_AT_ONCE)
        equal(first.response_metadata["finish_reason"], "tool_calls")
        result = get_weather.invoke(first.tool_calls[0])
        equal((type(result), result.content), (ToolMessage, "sunny in Paris"))
        chunks = list(bound.stream(QUESTION, logit_bias=END_AT_ONCE))
        equal(sum(chunks[1:], chunks[0]).tool_calls[0]["args"], {})
        second = chat_model.bind_tools([get_weather]).invoke(
            [HumanMessage(QUESTION), first, result])
        assert second.content


@check
def structured_output():
    called = chat_model.with_structured_output(Weather, method="function_calling")
    equal(called.invoke(QUESTION, logit_bias=END_AT_ONCE), Weather())
    # The default method is a schema, which the server refuses until it can enforce one.
    for structured in (chat_model.with_structured_output(Weather),
                       chat_model.with_structured_output(Weather, method="json_schema")):
        raises(openai.BadRequestError, lambda: structured.invoke(QUESTION),
               "json_schema is not supported yet")
    ended = ChatOpenAI(**SERVER, seed=7, stop=["e"])  # LangChain refuses cut answers
    answer = ended.with_structured_output(Weather, method="json_mode",
                                          include_raw=True).invoke(QUESTION)
    equal(answer["raw"].response_metadata["finish_reason"], "stop")
    assert answer["parsing_error"]


@check
def responses():
    model = ChatOpenAI(**SERVER, use_responses_api=True, temperature=0)
    whole = model.invoke(QUESTION)
    equal(whole.response_metadata["status"], "incomplete")
    chunks = list(model.stream(QUESTION))
    equal(sum(chunks[1:], chunks[0]).text, whole.text)
    called = model.bind_tools([get_weather], tool_choice="any").invoke(QUESTION)
    equal([call["name"] for call in called.tool_calls], ["get_weather"])


@check
def completions():
    model = OpenAI(**SERVER, seed=7)
    equal("".join(model.stream("Once upon a time")), model.invoke("Once upon a time"))


@check
def errors():
    raises(openai.BadRequestError, lambda: chat_model.invoke(QUESTION, temperature=9),
           "temperature")
    raises(ContextOverflowError, lambda: chat_model.invoke(TOO_LONG))


main()
