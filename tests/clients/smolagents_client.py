"""smolagents: its model for OpenAI's API, an agent that calls tools, and one that writes code."""

import openai
from smolagents import CodeAgent, LogLevel, OpenAIModel, ToolCallingAgent, tool
from smolagents.models import ChatMessage, MessageRole
from smolagents.utils import AgentError, AgentGenerationError

from checks import END_AT_ONCE, MODEL, QUESTION, SHORT, TOO_LONG, URL, check, equal, main, raises

SERVER = {"model_id": MODEL, "api_base": URL + "/v1", "api_key": "none"}
model = OpenAIModel(**SERVER, max_tokens=SHORT, seed=7)
QUESTIONS = [ChatMessage(MessageRole.USER, [{"type": "text", "text": QUESTION}])]
asked = []


@tool
def get_weather(city: str = "Paris") -> str:
    """Returns the weather.

    Args:
        city: The city.
    """
    asked.append(city)
    return "sunny in " + city


@check
def chat():
    answer = model.generate(QUESTIONS)
    assert answer.content
    equal(answer.token_usage.output_tokens, SHORT)


@check
def streaming():
    deltas = list(model.generate_stream(QUESTIONS))
    equal("".join(delta.content or "" for delta in deltas), model.generate(QUESTIONS).content)


@check
def tool_calling_agent():
    # The agent requires a call in each step: the model chooses the tool and ends the call.
    ending = OpenAIModel(**SERVER, seed=7, max_tokens=200, logit_bias=END_AT_ONCE)
    for stream in (False, True):
        asked.clear()
        agent = ToolCallingAgent([get_weather], ending, max_steps=2, stream_outputs=stream,
                                 verbosity_level=LogLevel.OFF)
        agent.run(QUESTION)
        names = [step.model_output_message.tool_calls[0].function.name
                 for step in agent.memory.steps[1:3]]
        assert set(names) <= {"get_weather", "final_answer"}, names
        equal(asked, ["Paris"] * names.count("get_weather"))


@check
def code_agent():
    # A tale is no code: each step ends with the error of the parser, and the agent goes on.
    agent = CodeAgent([], model, max_steps=2, verbosity_level=LogLevel.OFF)
    assert agent.run(QUESTION)
    equal([type(step.error).__name__ for step in agent.memory.steps
           if getattr(step, "error", None)][0], "AgentParsingError")


@check
def structured_output():
    answer = model.generate(QUESTIONS, response_format={
        "type": "json_schema", "json_schema": {"name": "a", "schema": {"enum": ["yes", "no"]}}})
    assert answer.content in ('"yes"', '"no"'), answer.content


@check
def errors():
    raises(openai.BadRequestError, lambda: model.generate(QUESTIONS, temperature=9), "temperature")
    agent = CodeAgent([], model, max_steps=1, verbosity_level=LogLevel.OFF)
    error = raises(AgentGenerationError, lambda: agent.run(TOO_LONG), "maximum context length")
    assert isinstance(error, AgentError)


main()
