"""Claude Code: a session of ten turns with calls, a tool search, a cut call and a compaction."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import claude_agent_sdk

from checks import TOO_LONG, URL, check, equal, main, recipe_command
from forcing_proxy import TALK, Call, ForcingProxy

PROGRAM = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
VARIABLES, (_, *OPTIONS) = recipe_command("Claude Code")
MOST_REREAD = 512  # tokens of the turns that the server knows

folder = Path(tempfile.mkdtemp(prefix="claude_code_"))
work = folder / "work"
work.mkdir()
WRITTEN = work / "tale.txt"
# Half of the command begins the file, too.
COMMAND = f"echo Once > {WRITTEN}; echo {'upon a time, ' * 20} >> {WRITTEN}"
proxy = ForcingProxy(URL, {
    "Bash": [{"command": COMMAND}],
    "ToolSearch": [{"query": "select:WebFetch", "max_results": 5}],
})


def claude(prompt, *arguments, script=(TALK,), output="json", goes_on=True):
    """Runs one turn. Returns the result, and the exchanges of the main conversation."""
    proxy.expect(*script)
    begin = len(proxy.exchanges)
    environment = {
        **os.environ, **VARIABLES, "HOME": str(folder), "ANTHROPIC_BASE_URL": proxy.url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1",
        "IS_SANDBOX": "1"}
    verbose = ("--verbose",) if output == "stream-json" else ()
    ran = subprocess.run(
        [PROGRAM, "-p", *(("--continue",) if goes_on else ()), "--output-format", output, *verbose,
         *OPTIONS, "--allowedTools", "Bash ToolSearch", *arguments],
        cwd=work, env=environment, input=prompt, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, timeout=300, check=False)
    exchanges = [e for e in proxy.exchanges[begin:] if e.path == "/v1/messages"]
    assert ran.stdout.strip(), ran.stderr
    result = json.loads(ran.stdout.strip().splitlines()[-1])
    equal(proxy.rest(), [])
    return result, exchanges


def all_answered(exchanges):
    for exchange in exchanges:
        assert exchange.status == 200, exchange.answer


def events(exchange):
    return [json.loads(line.removeprefix("data:")) for line in exchange.answer.splitlines()
            if line.startswith("data:")]


def ending(exchange):
    """The last message_delta: the stop reason and the usage."""
    return [event for event in events(exchange) if event["type"] == "message_delta"][-1]


def partial_json(exchange):
    """The arguments of the calls, as streamed."""
    deltas = [event["delta"] for event in events(exchange) if event["type"] == "content_block_delta"]
    return "".join(delta.get("partial_json", "") for delta in deltas)


def rereads_little(before, exchange):
    """Checks that what `before` read and wrote is found in the cache by the next request."""
    usage = ending(before)["usage"]
    known = usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["output_tokens"]
    reread = known - ending(exchange)["usage"]["cache_read_input_tokens"]
    assert reread <= MOST_REREAD, f"{reread} of {known} tokens were read again"


def last_turn_of_user(exchange):
    users = [m for m in exchange.body["messages"] if m["role"] == "user"]
    return json.dumps(users[-1]["content"])


@check
def first_turn_by_the_recipe():
    result, exchanges = claude("Tell a tale.", goes_on=False)
    assert not result["is_error"], result
    equal({used["contextWindow"] for used in result["modelUsage"].values()},
          {int(VARIABLES["CLAUDE_CODE_MAX_CONTEXT_TOKENS"])})
    all_answered(exchanges)


@check
def call_and_result():
    result, exchanges = claude("Run it.", script=(Call("Bash"), TALK))
    assert not result["is_error"], result
    all_answered(exchanges)
    equal(ending(exchanges[0])["delta"]["stop_reason"], "tool_use")
    assert "upon a time" in WRITTEN.read_text()
    assert "tool_result" in last_turn_of_user(exchanges[1])
    rereads_little(*exchanges[:2])


@check
def tool_search_reuses_the_prefix():
    result, exchanges = claude("Find a tool.", script=(Call("ToolSearch"), TALK))
    assert not result["is_error"], result
    all_answered(exchanges)
    assert "tool_reference" in last_turn_of_user(exchanges[1])
    rereads_little(*exchanges[:2])


@check
def cut_call_runs_nothing():
    WRITTEN.unlink()
    _, exchanges = claude("Run it again.", script=(Call("Bash", max_tokens=200), TALK))
    all_answered(exchanges)
    equal(ending(exchanges[0])["delta"]["stop_reason"], "max_tokens")
    assert str(WRITTEN) in partial_json(exchanges[0]), partial_json(exchanges[0])
    assert not WRITTEN.exists(), WRITTEN.read_text()


@check
def turn_after_a_cut_call():
    result, exchanges = claude("Go on.")
    assert not result["is_error"], result
    all_answered(exchanges)


@check
def streamed_thinking_updates():
    result, exchanges = claude("Stream it.", output="stream-json")
    assert not result["is_error"], result
    all_answered(exchanges)


@check
def compaction():
    _, exchanges = claude("/compact")
    all_answered(exchanges)
    assert exchanges, "no summary was asked for"


@check
def call_after_the_compaction():
    result, exchanges = claude("Run it.", script=(Call("Bash"), TALK))
    assert not result["is_error"], result
    all_answered(exchanges)


@check
def last_turn():
    result, exchanges = claude("The end?")
    assert not result["is_error"], result
    all_answered(exchanges)


@check
def full_context_is_told():
    result, _ = claude(TOO_LONG * 3, script=())
    assert "Prompt is too long" in json.dumps(result), result


@check
def nothing_else_was_refused():
    refused = {e.answer for e in proxy.exchanges if 400 <= e.status < 500}
    assert all("prompt is too long" in answer for answer in refused), refused


main()
