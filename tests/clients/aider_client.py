"""aider, the command line program: questions and edits, streamed and whole."""

import json
import tempfile
from pathlib import Path

from checks import MODEL, QUESTION, TOO_LONG, check, command, equal, main, recipe_command

NAME = "openai/" + MODEL
VARIABLES, WORDS = recipe_command("aider")


def aider(*arguments, settings=None, content="def king():\n    pass\n"):
    """Runs it in a folder with the file king.py. Returns its output, and the file afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "king.py")
        file.write_text(content)
        Path(folder, ".aider.model.metadata.json").write_text(json.dumps({NAME: {
            "max_input_tokens": 1 << 20, "max_output_tokens": 1 << 20, "input_cost_per_token": 0,
            "output_cost_per_token": 0, "litellm_provider": "openai", "mode": "chat"}}))
        Path(folder, ".aider.model.settings.yml").write_text(json.dumps([
            {"name": NAME, "use_temperature": False, "edit_format": "whole",
             "extra_params": {"temperature": 0, "stop": ["."], **(settings or {})}}]))
        output = command(
            *WORDS, "--weak-model", NAME, "--no-git", "--yes-always", "--no-check-update",
            "--no-show-release-notes", "--analytics-disable", "--no-pretty", "--map-tokens", "0",
            *arguments, "king.py", folder=folder, HOME=folder, **VARIABLES,
            LITELLM_LOCAL_MODEL_COST_MAP="True")
        return output, file.read_text()


@check
def questions():
    def ask(*arguments):
        output, _ = aider("--edit-format", "ask", "--message", QUESTION, *arguments)
        return output.split("king.py to the chat.")[1].split("Tokens:")[0].split()
    assert ask("--stream")
    equal(ask("--no-stream"), ask("--stream"))


@check
def edits():
    output, after = aider("--message", "Rename king to queen.")  # a tale holds no edit
    assert "Tokens:" in output, output
    equal(after, "def king():\n    pass\n")


@check
def errors():
    output, _ = aider("--message", QUESTION, settings={"top_p": 2})
    assert "top_p: expected a number from 0 to 1" in output, output
    output, _ = aider("--message", QUESTION, content="# " + TOO_LONG)
    assert "hit a token limit" in output and "Output tokens: ~0" in output, output


main()
