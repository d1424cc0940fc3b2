"""LlamaIndex: its model for servers like OpenAI's, by chat completions and by completions."""

from typing import Literal

import openai
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

from checks import (END_AT_ONCE, END_JSON, MODEL, QUESTION, SHORT, TOO_LONG, URL, check, equal,
                    main, raises)

SERVER = {"model": MODEL, "api_base": URL + "/v1", "api_key": "none", "max_retries": 0,
          "context_window": 8192, "temperature": 0.0}
chat_model = OpenAILike(**SERVER, is_chat_model=True, max_tokens=SHORT)
text_model = OpenAILike(**SERVER, is_chat_model=False, max_tokens=SHORT)
QUESTIONS = [ChatMessage(QUESTION)]


def calling(bias):
    return OpenAILike(**SERVER, is_chat_model=True, is_function_calling_model=True, max_tokens=200,
                      additional_kwargs={"logit_bias": bias})


class Day(BaseModel):
    """A day in a city."""

    city: Literal["Paris"]
    sunny: bool


def get_weather(city: Literal["Paris"]) -> str:
    """The weather of a city."""
    return "sunny in " + city


weather = FunctionTool.from_defaults(get_weather)


@check
def chat():
    answer = chat_model.chat(QUESTIONS)
    assert answer.message.content
    equal(answer.raw.choices[0].finish_reason, "length")
    equal(answer.raw.usage.completion_tokens, SHORT)


@check
def completions():
    assert text_model.complete("Once upon a time").text


@check
async def streaming():
    chunks = list(chat_model.stream_chat(QUESTIONS))
    equal("".join(chunk.delta or "" for chunk in chunks), chunks[-1].message.content)
    equal(chunks[-1].message.content, chat_model.chat(QUESTIONS).message.content)
    equal((await chat_model.achat(QUESTIONS)).message.content, chunks[-1].message.content)
    texts = list(text_model.stream_complete("Once upon a time"))
    equal(texts[-1].text, text_model.complete("Once upon a time").text)


@check
def tool_round():
    model = calling(END_AT_ONCE)
    first = model.chat_with_tools([weather], chat_history=QUESTIONS, tool_required=True)
    call = model.get_tool_calls_from_response(first)[0]
    equal((call.tool_name, call.tool_kwargs), ("get_weather", {"city": "Paris"}))
    *_, last = model.stream_chat_with_tools([weather], chat_history=QUESTIONS, tool_required=True)
    equal(model.get_tool_calls_from_response(last)[0].tool_kwargs, call.tool_kwargs)
    output = weather.call(**call.tool_kwargs)
    result = ChatMessage(output.content, role="tool",
                         additional_kwargs={"tool_call_id": call.tool_id})
    assert chat_model.chat([*QUESTIONS, first.message, result]).message.content


@check
def structured_output():
    # By a schema; a model that calls functions is forced to call one with the object.
    by_schema = OpenAILike(**SERVER, is_chat_model=True, should_use_structured_outputs=True,
                           max_tokens=200, additional_kwargs={"logit_bias": END_JSON})
    for model in (by_schema, calling(END_AT_ONCE)):
        equal(type(model.as_structured_llm(Day).chat(QUESTIONS).raw), Day)


@check
def errors():
    for ask in (lambda **more: chat_model.chat(QUESTIONS, **more),
                lambda **more: text_model.complete("Once", **more)):
        raises(openai.BadRequestError, lambda: ask(top_p=2), "top_p")
    raises(openai.BadRequestError, lambda: chat_model.chat([ChatMessage(TOO_LONG)]),
           "maximum context length")


main()
