#!/usr/bin/env bash
# Codex 0.163.0 sees that a context is full only in an event of a stream, not in an error response.
#
# A server that refuses a prompt as too long with HTTP 400 and the code context_length_exceeded, as
# OpenAI's own library expects it, has Codex print the JSON of the error. The same error as the event
# response.failed of a stream with HTTP 200 becomes its own words: it ran out of room, and the user may
# start anew or clear earlier history. So a server has to begin a stream to refuse.
#
# Seen with: Codex 0.163.0, as openai-codex-cli-bin 0.163.0 of PyPI bundles it. Needs python3 with
# venv, and 600 MB of disk. The server is one of this script; nothing is asked of another machine.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check openai-codex-cli-bin==0.163.0

cat > "$work/run.py" <<'CODE'
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import codex_cli_bin

HOME = Path(sys.argv[1])
PROGRAM = Path(codex_cli_bin.__file__).parent / "bin" / "codex"
ERROR = {"code": "context_length_exceeded", "message": "the prompt is too long"}


def said(in_event):
    """What Codex says to a full context, told in an event or in a response."""
    response = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
    events = [{"type": "response.created", "sequence_number": 0, "response": response},
              {"type": "response.failed", "sequence_number": 1,
               "response": {**response, "status": "failed", "error": ERROR}}]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200 if in_event else 400)
            self.send_header("Content-Type", "text/event-stream" if in_event else "application/json")
            self.end_headers()
            error = {"error": {**ERROR, "type": "invalid_request_error", "param": "input"}}
            stream = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
            self.wfile.write((stream if in_event else json.dumps(error)).encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (HOME / "config.toml").write_text(f"""model = "m"
model_provider = "local"
[model_providers.local]
name = "local"
base_url = "http://127.0.0.1:{server.server_address[1]}/v1"
wire_api = "responses"
""")
    ran = subprocess.run([PROGRAM, "exec", "--skip-git-repo-check", "hello"], cwd=HOME,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True, timeout=120, check=False,
                         env={**os.environ, "HOME": str(HOME), "CODEX_HOME": str(HOME)})
    server.shutdown()
    line = next((line for line in ran.stdout.splitlines() if line.startswith("ERROR")), "")
    print(f"{'event' if in_event else 'response'}: {line}")
    return line


if "ran out of room" not in said(True) or "ran out of room" in said(False):
    sys.exit("Changed: expected its own words for the event only")
print("As found: a full context is understood in an event only.")
CODE
"$work/venv/bin/python" "$work/run.py" "$work"
