"""LiteLLM, by the names of OpenAI, of vLLM and of Anthropic."""

import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise importing it asks the network

import litellm

from checks import (END_AT_ONCE, END_JSON, MODEL, QUESTION, SHORT, TOO_LONG, URL, check, equal, main, raises)

litellm.suppress_debug_info = True
ASK = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": SHORT,
       "api_key": "none", "num_retries": 0}
OPENAI = {**ASK, "model": "openai/" + MODEL, "api_base": URL + "/v1", "seed": 7}
VLLM = {**OPENAI, "model": "hosted_vllm/" + MODEL}
ANTHROPIC = {**ASK, "model": "anthropic/" + MODEL, "api_base": URL, "seed": 7,
             "allowed_openai_params": ["seed"]}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather.",
                                         "parameters": SCHEMA}}


@check
def chat():
    for ask in (OPENAI, VLLM, ANTHROPIC):
        answer = litellm.completion(**ask)
        equal(answer.choices[0].finish_reason, "length")
        equal(answer.usage.completion_tokens, SHORT)
        assert answer.choices[0].message.content


@check
def streaming():
    for ask in (OPENAI, VLLM, ANTHROPIC):
        whole = litellm.completion(**ask)
        chunks = list(litellm.completion(**ask, stream=True,
                                         stream_options={"include_usage": True}))
        joined = litellm.stream_chunk_builder(chunks)
        equal(joined.choices[0].message.content, whole.choices[0].message.content)
        equal(joined.usage.completion_tokens, SHORT)


@check
def tool_round():
    for ask in (OPENAI, VLLM, ANTHROPIC):
        first = litellm.completion(**{**ask, "max_tokens": 200}, tools=[TOOL], tool_choice="required").choices[0].message
        call = first.tool_calls[0]
        equal(call.function.name, "get_weather")
        equal(type(json.loads(call.function.arguments)), dict)
        second = litellm.completion(**{**ask, "messages": [
            *ASK["messages"], first, {"role": "tool", "tool_call_id": call.id,
                                      "content": "sunny"}]}, tools=[TOOL])
        assert second.choices[0].message.content
    whole = litellm.completion(**{**OPENAI, "max_tokens": 200}, tools=[TOOL], tool_choice="required",
                               logit_bias=END_AT_ONCE)
    equal(whole.choices[0].finish_reason, "tool_calls")


@check
def structured_output():
    ask = {**OPENAI, "max_tokens": 200, "logit_bias": END_JSON}
    answer = litellm.completion(**ask, response_format={
        "type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": SCHEMA}})
    equal(list(json.loads(answer.choices[0].message.content)), ["city"])
    answer = litellm.completion(**ask, response_format={
        "type": "json_schema", "json_schema": {
            "name": "n", "schema": {"type": "string", "format": "phone"}}})
    equal(answer._hidden_params["additional_headers"]["llm_provider-x-constraint-relaxed"],
          "response_format.json_schema.schema/format")


@check
def completions_and_responses():
    text = litellm.text_completion(model="text-completion-openai/" + MODEL, api_base=URL + "/v1",
                                   api_key="none", prompt="Once upon a time", max_tokens=SHORT)
    assert text.choices[0].text
    response = litellm.responses(model="openai/" + MODEL, api_base=URL + "/v1", api_key="none",
                                 input=QUESTION, max_output_tokens=SHORT)
    equal(response.status, "incomplete")
    equal(response.usage.output_tokens, SHORT)


@check
def errors():
    long = [{"role": "user", "content": TOO_LONG}]
    for ask in (OPENAI, VLLM, ANTHROPIC):
        raises(litellm.BadRequestError, lambda: litellm.completion(**ask, temperature=9),
               "temperature")
        raises(litellm.ContextWindowExceededError,
               lambda: litellm.completion(**{**ask, "messages": long}))


main()
