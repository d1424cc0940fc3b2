"""mini-SWE-agent: its agent with a shell, by chat completions through LiteLLM."""

import os
import tempfile

folder = tempfile.TemporaryDirectory()
# Before the import: its settings stay in the folder, and an error is not asked for again.
os.environ.update(MSWEA_GLOBAL_CONFIG_DIR=folder.name, MSWEA_SILENT_STARTUP="1",
                  MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT="1", MSWEA_COST_TRACKING="ignore_errors",
                  LITELLM_LOCAL_MODEL_COST_MAP="True")

import litellm
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

from checks import END_AT_ONCE, MODEL, QUESTION, SHORT, TOO_LONG, URL, check, equal, main, raises


def agent(step_limit, max_tokens=SHORT, **more):
    model = LitellmModel(model_name="hosted_vllm/" + MODEL, model_kwargs={
        "api_base": URL + "/v1", "api_key": "none", "max_tokens": max_tokens, **more})
    return DefaultAgent(model, LocalEnvironment(cwd=folder.name), step_limit=step_limit,
                        system_template="You fix programs.", instance_template="{{task}}")


@check
def cut_commands():
    # The model is forced to give a command, which is cut: it is told so, and nothing is run.
    forced = agent(1, 60, tool_choice="required", extra_body={"logit_bias": END_AT_ONCE})
    equal(forced.run(QUESTION)["exit_status"], "LimitsExceeded")
    equal([message["role"] for message in forced.messages], ["system", "user", "user", "exit"])
    assert "arguments" in forced.messages[2]["content"], forced.messages[2]


@check
def answers_without_a_command():
    talking = agent(3)
    equal(talking.run(QUESTION)["exit_status"], "RepeatedFormatError")
    said = talking.messages[2]["extra"]["response"]
    equal((said["choices"][0]["finish_reason"], said["usage"]["completion_tokens"]),
          ("length", SHORT))


@check
def errors():
    raises(litellm.BadRequestError, lambda: agent(1, top_p=2).run(QUESTION), "top_p")
    raises(litellm.ContextWindowExceededError, lambda: agent(1).run(TOO_LONG))


main()
