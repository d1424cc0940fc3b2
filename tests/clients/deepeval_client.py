"""DeepEval: its model for local servers, and a metric that such a model judges."""

import json
import os

# Before the import: nothing is sent elsewhere, and an error is not asked for again.
os.environ.update(DEEPEVAL_TELEMETRY_OPT_OUT="YES", DEEPEVAL_RETRY_MAX_ATTEMPTS="1",
                  DEEPEVAL_DISABLE_DOTENV="1")

import openai
from deepeval.metrics import GEval
from deepeval.models import LocalModel
from deepeval.test_case import LLMTestCase, SingleTurnParams
from pydantic import BaseModel
from tenacity import RetryError

from checks import END_JSON, MODEL, QUESTION, SHORT, TOO_LONG, URL, check, equal, main, raises

# Forces the verdict that G-Eval asks for in its prompt.
VERDICT = {"type": "object", "additionalProperties": False, "required": ["score", "reason"],
           "properties": {"score": {"const": 8}, "reason": {"type": "string"}}}


def model(**more):
    return LocalModel(model=MODEL, base_url=URL + "/v1", api_key="none",
                      generation_kwargs={"max_tokens": SHORT, **more})


def forced(schema):
    return model(max_tokens=200, logit_bias=END_JSON, response_format={
        "type": "json_schema", "json_schema": {"name": "answer", "schema": schema}})


class Day(BaseModel):
    city: str
    sunny: bool


@check
async def chat():
    answer, _ = model().generate(QUESTION)
    assert answer
    equal(await model().a_generate(QUESTION), (answer, 0.0))


@check
def structured_output():
    answer, _ = forced(Day.model_json_schema()).generate(QUESTION, schema=Day)
    equal(type(answer), Day)


@check
def metric():
    for is_async in (False, True):
        judge = GEval(name="Tale", evaluation_steps=["Is it a tale?"], model=forced(VERDICT),
                      evaluation_params=[SingleTurnParams.ACTUAL_OUTPUT], async_mode=is_async)
        case = LLMTestCase(input=QUESTION, actual_output="Once upon a time there was a king.")
        equal(judge.measure(case, _show_indicator=False), 0.8)


@check
def errors():
    raises(openai.BadRequestError, lambda: model(top_p=2).generate(QUESTION), "top_p")
    raises(openai.BadRequestError, lambda: model().generate(TOO_LONG), "maximum context length")


main()
