#!/usr/bin/env bash
# Claude Code 2.1.332 runs a tool call that was cut by max_tokens, if its arguments are closed.
#
# A server streams a call of Bash whose command is half of what the model meant, closes the string and
# the object, and ends with the stop reason max_tokens. Claude Code runs the half command and tells the
# model its output. If the same arguments end where the model was cut, it runs nothing and tells the
# model that the input could not be parsed. So a server that completes the JSON of cut calls, to be
# kind to its clients, has half commands run; the stop reason does not prevent it.
#
# Seen with: Claude Code 2.1.332, as claude-agent-sdk 0.2.189 of PyPI bundles it. Needs python3 with
# venv, and 800 MB of disk. The server is one of this script; nothing is asked of another machine.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check claude-agent-sdk==0.2.189

cat > "$work/run.py" <<'CODE'
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import claude_agent_sdk

WORK = Path(sys.argv[1])
PROGRAM = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"


def stream(block, deltas, stop_reason):
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
               "stop_reason": None, "stop_sequence": None,
               "usage": {"input_tokens": 9, "output_tokens": 0}}
    events = [{"type": "message_start", "message": message},
              {"type": "content_block_start", "index": 0, "content_block": block},
              *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
              {"type": "content_block_stop", "index": 0},
              {"type": "message_delta", "usage": {"output_tokens": 9},
               "delta": {"stop_reason": stop_reason, "stop_sequence": None}},
              {"type": "message_stop"}]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def has_run(closes):
    """Whether half of a command is run if its arguments are closed, or not."""
    mark = WORK / f"mark_{closes}"
    half = json.dumps({"command": f"touch {mark}", "description": "Makes a file"})
    if not closes:
        half = json.dumps({"description": "Makes a file", "command": f"touch {mark}"})[:-2]
    told = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            is_main = any(tool.get("name") == "Bash" for tool in body.get("tools") or [])
            results = [part for message in body["messages"] for part in message["content"]
                       if isinstance(part, dict) and part.get("type") == "tool_result"]
            told.extend(results)
            if is_main and not results:
                answer = stream({"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}},
                                [{"type": "input_json_delta", "partial_json": half}], "max_tokens")
            else:
                answer = stream({"type": "text", "text": ""},
                                [{"type": "text_delta", "text": "Done."}], "end_turn")
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    subprocess.run(
        [PROGRAM, "-p", "Make the file.", "--permission-mode", "acceptEdits", "--allowedTools", "Bash"],
        cwd=WORK, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False,
        env={**os.environ, "HOME": str(WORK), "ANTHROPIC_BASE_URL": url, "IS_SANDBOX": "1",
             "ANTHROPIC_AUTH_TOKEN": "none", "ANTHROPIC_MODEL": "m",
             "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1"})
    server.shutdown()
    said = json.dumps([result["content"] for result in told[:1]])
    print(f"arguments {'closed' if closes else 'open'}: ran {mark.exists()}, told {said[:160]}")
    return mark.exists()


if not has_run(True) or has_run(False):
    sys.exit("Changed: expected closed arguments to be run, and open ones not")
print("As found: a cut call with closed arguments is run.")
CODE
"$work/venv/bin/python" "$work/run.py" "$work"
