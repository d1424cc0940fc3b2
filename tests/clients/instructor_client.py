"""Instructor: objects by tools, by JSON and by schemas."""

from typing import Literal

import instructor
import openai
from instructor.core import InstructorRetryException, IncompleteOutputException
from pydantic import BaseModel

from checks import END_AT_ONCE, END_JSON, MODEL, QUESTION, TOO_LONG, URL, check, equal, main, raises

ASK = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}], "max_retries": 0,
       "seed": 7}
ENDING = {**ASK, "logit_bias": END_AT_ONCE, "max_tokens": 200}


class Weather(BaseModel):
    city: Literal["Paris"] = "Paris"


class Day(BaseModel):
    city: str
    sunny: bool


def client_of(mode):
    return instructor.from_openai(
        openai.OpenAI(base_url=URL + "/v1", api_key="none", max_retries=0), mode=mode)


@check
def tools():
    for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT):
        equal(client_of(mode).create(**ENDING, response_model=Weather).city, "Paris")
    found, answer = client_of(instructor.Mode.TOOLS).create_with_completion(
        **ENDING, response_model=Weather)
    equal((found.city, answer.choices[0].finish_reason), ("Paris", "tool_calls"))


@check
def tools_streamed():
    partial = list(client_of(instructor.Mode.TOOLS).create_partial(
        **ENDING, response_model=Weather))
    equal(partial[-1].city, "Paris")


@check
def cut_answers():
    raises(IncompleteOutputException, lambda: client_of(instructor.Mode.TOOLS).create(
        **ASK, max_tokens=4, response_model=Weather))


@check
def json_object():
    # The schema stands in the prompt, and any object will do for the server.
    equal(client_of(instructor.Mode.JSON).create(
        **ASK, logit_bias=END_AT_ONCE | {"128": 100}, max_tokens=200, response_model=Weather).city, "Paris")
    # The tale of the model is not JSON, which Instructor says after its retries.
    raises(InstructorRetryException, lambda: client_of(instructor.Mode.MD_JSON).create(
        **{**ASK, "max_retries": 1}, stop=[" "], response_model=Weather))


@check
def structured_output():
    found = client_of(instructor.Mode.JSON_SCHEMA).create(
        **ASK, logit_bias=END_JSON, max_tokens=200, response_model=Day)
    equal((type(found.city), type(found.sunny)), (str, bool))


@check
def plain_chat():
    answer = client_of(instructor.Mode.TOOLS).create(**ASK, max_tokens=8, response_model=None)
    equal(answer.usage.completion_tokens, 8)


@check
def errors():
    client = client_of(instructor.Mode.TOOLS)
    raises(InstructorRetryException, lambda: client.create(
        **ASK, temperature=9, response_model=Weather), "temperature")
    raises(InstructorRetryException, lambda: client.create(**{
        **ASK, "messages": [{"role": "user", "content": TOO_LONG}]}, response_model=Weather),
        "maximum context length")


main()
