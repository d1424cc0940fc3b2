#!/usr/bin/env bash
# Codex 0.163.0 sends no instructions at all if a models file has empty ones.
#
# A models file (model_catalog_json) tells Codex the context and the abilities of a model that it does
# not know, and ends its warning about missing metadata. The file is refused without
# base_instructions, and what it has there replaces Codex's own text of some 17 kB: an empty text, as a
# program writes that has none to add, leaves the model without a word on how to work, with no message.
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
MODEL = {"slug": "m", "display_name": "m", "description": "m", "context_window": 100000,
         "input_modalities": ["text"], "shell_type": "default", "experimental_supported_tools": [],
         "supports_parallel_tool_calls": True, "supports_reasoning_summaries": True,
         "supported_reasoning_levels": [], "support_verbosity": False, "visibility": "list",
         "truncation_policy": {"mode": "tokens", "limit": 10000}, "supported_in_api": True,
         "priority": 1}


def texts(value):
    """All texts of a request but those of its tools."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, part in value.items() if key != "tools" for text in texts(part)]
    return [text for part in value for text in texts(part)] if isinstance(value, list) else []


def longest_text(instructions):
    """The length of the longest text that Codex sends; 0: it sends nothing."""
    bodies = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(400)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    catalog = ""
    if instructions is not None:
        (HOME / "models.json").write_text(
            json.dumps({"models": [{**MODEL, "base_instructions": instructions}]}))
        catalog = 'model_catalog_json = "models.json"\n'
    (HOME / "config.toml").write_text(f"""model = "m"
model_provider = "local"
{catalog}
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
    longest = max((len(text) for text in texts(bodies[:1])), default=0)
    print(f"base_instructions {(instructions or '')[:9]!r}: longest text {longest}, "
          f"warns {'metadata' in ran.stdout}")
    return longest


without_file, empty, own = longest_text(None), longest_text(""), longest_text("x" * 9000)
if without_file < 10000 or not 0 < empty < 8000 or own != 9000:
    sys.exit("Changed: expected Codex's own text without a file only")
print("As found: a models file replaces Codex's instructions, also by nothing.")
CODE
"$work/venv/bin/python" "$work/run.py" "$work"
