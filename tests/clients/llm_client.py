"""llm, the command line program: prompts, conversations, tools and schemas."""

import json
import tempfile
from pathlib import Path

from checks import (END_JSON, MODEL, QUESTION, SHORT, TOO_LONG, URL, check, command, equal, main,
                    recipe)

folder = tempfile.TemporaryDirectory()
Path(folder.name, "extra-openai-models.yaml").write_text(f"""
{recipe("llm: extra-openai-models.yaml in the folder of llm logs path")}
- {{model_id: continue, model_name: {MODEL}, api_base: {URL}/v1, completion: true}}
""")
SEEDED = ("-o", "seed", "7", "-o", "max_tokens", str(SHORT))


def llm(*arguments, **more):
    return command("llm", *arguments, LLM_USER_PATH=folder.name, OPENAI_API_KEY="none", **more)


@check
def prompt_and_streaming():
    streamed = llm("-m", MODEL, QUESTION, *SEEDED)
    assert streamed.strip()
    equal(llm("-m", MODEL, QUESTION, *SEEDED, "--no-stream"), streamed)
    logged = json.loads(llm("logs", "-n", "1", "--json"))[0]
    equal((logged["output_tokens"], logged["response"]), (SHORT, streamed.strip("\n")))


@check
def conversation():
    before = json.loads(llm("logs", "-n", "1", "--json"))[0]
    llm("-c", "Go on.", *SEEDED)
    after = json.loads(llm("logs", "-n", "1", "--json"))[0]
    equal(after["conversation_id"], before["conversation_id"])
    assert after["input_tokens"] > before["input_tokens"]


@check
def completions():
    equal(llm("-m", "continue", "Once upon a time", *SEEDED),
          llm("-m", "continue", "Once upon a time", *SEEDED, "--no-stream"))


@check
def tools_offered():
    weather = 'def get_weather(city: str) -> str:\n    "The weather."\n    return "sunny"'
    assert llm("-m", MODEL, QUESTION, "--functions", weather, *SEEDED).strip()


@check
def structured_output():
    ended = ("-o", "max_tokens", "100", "-o", "logit_bias", json.dumps(END_JSON))
    found = json.loads(llm("-m", MODEL, QUESTION, "--schema", "city, days int", *ended))
    equal([type(found[key]) for key in ("city", "days")], [str, int])
    found = json.loads(llm("-m", MODEL, QUESTION, "-o", "json_object", "1", *ended))
    equal(type(found), dict)


@check
def errors():
    wrong = llm("-m", MODEL, QUESTION, "-o", "logit_bias", '{"999999": 1}', expect=1)
    assert "logit_bias" in wrong, wrong
    assert "maximum context length" in llm("-m", MODEL, text=TOO_LONG, expect=1)


main()
