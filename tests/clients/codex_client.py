"""Codex: a session of ten turns with calls, a cut call and a compaction."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import codex_cli_bin

from checks import TOO_LONG, URL, check, equal, main, recipe
from forcing_proxy import TALK, Call, ForcingProxy

PROGRAM = Path(codex_cli_bin.__file__).parent / "bin" / "codex"
MOST_REREAD = 512  # tokens of the turns that the server knows

folder = Path(tempfile.mkdtemp(prefix="codex_"))
work = folder / "work"
work.mkdir()
WRITTEN = work / "tale.txt"
# Half of the command begins the file, too.
COMMAND = f"echo Once > {WRITTEN}; echo {'upon a time, ' * 20} >> {WRITTEN}"
proxy = ForcingProxy(URL, {"exec_command": [{"cmd": COMMAND}]})
for name in ("config.toml", "fathom.json"):
    (folder / name).write_text(recipe(f"Codex: ~/.codex/{name}").replace(URL, proxy.url))


def codex(prompt, *arguments, script=(TALK,), goes_on=True):
    """Runs one turn. Returns its output and the exchanges with the model."""
    proxy.expect(*script)
    begin = len(proxy.exchanges)
    ran = subprocess.run(
        [PROGRAM, "exec", *(("resume", "--last") if goes_on else ()), "--skip-git-repo-check",
         "-c", 'sandbox_mode="danger-full-access"', *arguments, "-"],
        cwd=work, env={**os.environ, "HOME": str(folder), "CODEX_HOME": str(folder)}, input=prompt,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
    return ran, [e for e in proxy.exchanges[begin:] if e.path == "/v1/responses"]


def events(exchange):
    return [json.loads(line.removeprefix("data:")) for line in exchange.answer.splitlines()
            if line.startswith("data:")]


def arguments(exchange):
    """The arguments of the calls, as streamed."""
    return "".join(event["delta"] for event in events(exchange)
                   if event["type"] == "response.function_call_arguments.delta")


def response(exchange):
    return events(exchange)[-1]["response"]


def reread(before, exchange):
    """The tokens that `before` read or wrote and the next request did not find in the cache."""
    cached = response(exchange)["usage"]["input_tokens_details"]["cached_tokens"]
    return response(before)["usage"]["total_tokens"] - cached


def succeeded(ran, exchanges):
    assert ran.returncode == 0, ran.stdout
    for exchange in exchanges:
        assert exchange.status == 200, exchange.answer
    equal(proxy.rest(), [])


@check
def first_turn_by_the_recipe():
    ran, exchanges = codex("Tell a tale.", goes_on=False)
    succeeded(ran, exchanges)
    # Codex knows the model, and takes the instructions of the models file.
    assert "metadata" not in ran.stdout, ran.stdout
    instructions = json.loads((folder / "fathom.json").read_text())["models"][0]["base_instructions"]
    equal(exchanges[0].body["input"][0]["content"][0]["text"], instructions)


@check
def call_and_result():
    ran, exchanges = codex("Run it.", script=(Call("exec_command"), TALK))
    succeeded(ran, exchanges)
    assert "upon a time" in WRITTEN.read_text()
    equal(exchanges[1].body["input"][-1]["type"], "function_call_output")
    assert reread(*exchanges[:2]) <= MOST_REREAD, reread(*exchanges[:2])


@check
def cut_call_runs_nothing():
    WRITTEN.unlink()
    _, exchanges = codex("Run it again.", script=(Call("exec_command", max_tokens=160),))
    equal(response(exchanges[0])["status"], "incomplete")
    assert "upon" in arguments(exchanges[0]), arguments(exchanges[0])
    assert not WRITTEN.exists(), WRITTEN.read_text()


@check
def turn_after_a_cut_call():
    succeeded(*codex("Go on."))


@check
def steered_turns():
    for prompt in ("And then?", "And then?", "Who was it?"):
        succeeded(*codex(prompt))


@check
def compaction():
    ran, exchanges = codex("Remember it.", "-c", "model_auto_compact_token_limit=8000",
                           script=(TALK,))
    succeeded(ran, exchanges)
    assert "context compacted" in ran.stdout, ran.stdout


@check
def call_after_the_compaction():
    succeeded(*codex("Run it.", script=(Call("exec_command"), TALK)))


@check
def last_turn():
    succeeded(*codex("The end?"))


@check
def full_context_is_told():
    ran, exchanges = codex(TOO_LONG * 3, script=())
    assert "ran out of room" in ran.stdout, ran.stdout
    equal({e.status for e in exchanges}, {200})


main()
