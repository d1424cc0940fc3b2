"""Semantic Kernel: its services for chats and for texts, and functions that it invokes itself."""

from openai import AsyncOpenAI
from pydantic import BaseModel
from semantic_kernel import Kernel
from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.open_ai import (OpenAIChatCompletion,
                                                   OpenAIChatPromptExecutionSettings,
                                                   OpenAITextCompletion,
                                                   OpenAITextPromptExecutionSettings)
from semantic_kernel.contents import ChatHistory, FunctionCallContent
from semantic_kernel.exceptions import ServiceResponseException
from semantic_kernel.functions import kernel_function

from checks import END_AT_ONCE, END_JSON, MODEL, QUESTION, SHORT, TOO_LONG, URL, check, equal, main

client = AsyncOpenAI(base_url=URL + "/v1", api_key="none", max_retries=0)
chat = OpenAIChatCompletion(ai_model_id=MODEL, async_client=client)
text = OpenAITextCompletion(ai_model_id=MODEL, async_client=client)
asked = []


class Day(BaseModel):
    city: str
    sunny: bool


class Weather:
    @kernel_function(description="The weather of a city.")
    def get_weather(self, city: str = "Paris") -> str:
        asked.append(city)
        return "sunny"


kernel = Kernel()
kernel.add_plugin(Weather(), "weather")


def settings(max_tokens=SHORT, **more):
    return OpenAIChatPromptExecutionSettings(max_tokens=max_tokens, temperature=0, **more)


def history(question=QUESTION):
    said = ChatHistory()
    said.add_user_message(question)
    return said


async def fails(answer, *words):
    try:
        await answer
    except ServiceResponseException as error:
        assert all(word in str(error) for word in words), error
        return
    raise AssertionError("expected ServiceResponseException, found no error")


@check
async def plain_chat():
    answer = await chat.get_chat_message_content(history(), settings())
    assert answer.content
    equal((answer.finish_reason.value, answer.metadata["usage"].completion_tokens),
          ("length", SHORT))


@check
async def streaming():
    whole = await chat.get_chat_message_content(history(), settings())
    pieces = [piece async for piece in chat.get_streaming_chat_message_content(history(),
                                                                              settings())]
    equal("".join(str(piece) for piece in pieces), whole.content)
    equal(pieces[-1].metadata["usage"].completion_tokens, SHORT)


@check
async def completions():
    more = OpenAITextPromptExecutionSettings(max_tokens=SHORT, temperature=0)
    whole = await text.get_text_content("Once upon a time", more)
    pieces = [piece async for piece in text.get_streaming_text_content("Once upon a time", more)]
    equal("".join(str(piece) for piece in pieces), whole.text)


@check
async def functions_invoked():
    # The first request forces the call; the kernel invokes the function and asks without tools.
    behavior = FunctionChoiceBehavior.Required(maximum_auto_invoke_attempts=1)
    forced = settings(200, logit_bias=END_AT_ONCE, function_choice_behavior=behavior)
    asked.clear()
    await chat.get_chat_message_content(history(), forced, kernel=kernel)
    equal(asked, ["Paris"])
    async for _ in chat.get_streaming_chat_message_content(history(), forced, kernel=kernel):
        pass
    equal(asked, ["Paris"] * 2)


@check
async def calls_left_to_the_caller():
    behavior = FunctionChoiceBehavior.Required(auto_invoke=False)
    forced = settings(200, logit_bias=END_AT_ONCE, function_choice_behavior=behavior)
    whole = await chat.get_chat_message_content(history(), forced, kernel=kernel)
    call = whole.items[0]
    equal((type(call), call.name, call.parse_arguments()),
          (FunctionCallContent, "weather-get_weather", {}))
    pieces = [piece async for piece in chat.get_streaming_chat_message_content(
        history(), forced, kernel=kernel)]
    joined = sum(pieces[1:], pieces[0])
    equal([item.arguments for item in joined.items
           if isinstance(item, FunctionCallContent)], [call.arguments])


@check
async def structured_output():
    answer = await chat.get_chat_message_content(
        history(), settings(200, response_format=Day, logit_bias=END_JSON))
    Day.model_validate_json(answer.content)


@check
async def errors():
    await fails(chat.get_chat_message_content(history(), settings(logit_bias={999999: 1})),
                "logit_bias")
    await fails(chat.get_chat_message_content(history(TOO_LONG), settings()),
                "maximum context length")


main()
