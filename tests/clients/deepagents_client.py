"""Deep Agents: an agent of LangChain with a long prompt, a plan, files and sub-agents."""

from typing import Literal

import openai
from deepagents import create_deep_agent
from langchain.agents.structured_output import ProviderStrategy
from langchain_core.exceptions import ContextOverflowError
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from checks import (END_AT_ONCE, END_JSON, MODEL, QUESTION, SHORT, TOO_LONG, URL, check, equal,
                    main, raises)

SERVER = {"model": MODEL, "base_url": URL + "/v1", "api_key": "none", "max_retries": 0}


def models(max_tokens=SHORT, **more):
    return [ChatOpenAI(**SERVER, max_tokens=max_tokens, temperature=0, use_responses_api=responses,
                       **more) for responses in (False, True)]


class Day(BaseModel):
    city: str
    sunny: bool


@tool(return_direct=True)
def get_weather(city: Literal["Paris"] = "Paris") -> str:
    """The weather of a city."""
    return "sunny in " + city


def asks(question=QUESTION):
    return {"messages": [{"role": "user", "content": question}]}


@check
def plain_run():
    for model in models():
        answer = create_deep_agent(model).invoke(asks())["messages"][-1]
        assert answer.text
        equal(answer.usage_metadata["output_tokens"], SHORT)
        assert answer.usage_metadata["input_tokens"] > 2000, answer.usage_metadata


@check
def streaming():
    for model in models():
        whole = create_deep_agent(model).invoke(asks())["messages"][-1]
        pieces = [piece for piece, _ in create_deep_agent(model).stream(
            asks(), stream_mode="messages")]
        equal("".join(piece.text for piece in pieces), whole.text)


@check
def tool_round():
    model = models(200, extra_body={"logit_bias": END_AT_ONCE, "tool_choice": {
        "type": "function", "function": {"name": "get_weather"}}})[0]
    messages = create_deep_agent(model, tools=[get_weather]).invoke(asks())["messages"]
    equal((messages[-1].type, messages[-1].content), ("tool", "sunny in Paris"))
    more = {"messages": [*messages, *asks("And now?")["messages"]]}
    answer = create_deep_agent(models()[0], tools=[get_weather]).invoke(more)["messages"][-1]
    equal((answer.type, bool(answer.text)), ("ai", True))


@check
def structured_output():
    model = models(200, extra_body={"logit_bias": END_JSON})[0]
    agent = create_deep_agent(model, response_format=ProviderStrategy(Day))
    equal(type(agent.invoke(asks())["structured_response"]), Day)


@check
def errors():
    for model in models(top_p=2):
        raises(openai.BadRequestError, lambda: create_deep_agent(model).invoke(asks()), "top_p")
    for model in models():
        raises(ContextOverflowError, lambda: create_deep_agent(model).invoke(asks(TOO_LONG)))


main()
