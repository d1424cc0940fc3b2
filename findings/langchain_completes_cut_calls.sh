#!/usr/bin/env bash
# LangChain 1.x runs a tool call that was cut, if it was streamed, though its arguments are open JSON.
#
# A server ends a call in the middle of its arguments, as OpenAI does, with the finish reason length.
# From a whole answer, LangChain lists the call as invalid and its agent runs nothing. From a stream it
# closes the string and the object itself (parse_partial_json, meant for showing what has come so far),
# and keeps this as the call when the stream is over: the agent runs the half command. Arguments that
# are left open protect only the clients that parse them strictly; a server that must not have half
# commands run has to make the user see the finish reason, or leave the cut call out.
#
# Seen with: langchain 1.5.2, langchain-core 1.8.3 and langchain-openai 1.7.4 of PyPI. Needs python3
# with venv. The server is one of this script; nothing is asked of another machine.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check langchain==1.5.2 langchain-core==1.8.3 \
    langchain-openai==1.7.4

cat > "$work/run.py" <<'CODE'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

CUT = {"name": "bash", "arguments": '{"command": "make clean-'}  # the model meant more


class Handler(BaseHTTPRequestHandler):
    """Answers with a call that max_tokens cut, and with text once there is a result."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_done = any(message["role"] == "tool" for message in body["messages"])
        message = {"role": "assistant", "content": "Done."} if is_done else {
            "role": "assistant", "content": None, "tool_calls": [
                {"index": 0, "id": "call_1", "type": "function", "function": CUT}]}
        choice = {"index": 0, "finish_reason": "stop" if is_done else "length"}
        shared = {"id": "chatcmpl-1", "created": 1, "model": "m"}
        if body.get("stream"):
            chunk = {**shared, "object": "chat.completion.chunk"}
            chunks = [{**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
                      {**chunk, "choices": [{**choice, "delta": {}}]}]
            answer = "".join(f"data: {json.dumps(one)}\n\n" for one in chunks) + "data: [DONE]\n\n"
        else:
            answer = json.dumps({**shared, "object": "chat.completion", "usage": {
                "prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18},
                "choices": [{**choice, "message": message}]})
        self.send_response(200)
        self.send_header("Content-Type",
                         "text/event-stream" if body.get("stream") else "application/json")
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
URL = f"http://127.0.0.1:{server.server_address[1]}/v1"
ran = []


def bash(command: str) -> str:
    """Runs a command."""
    ran.append(command)
    return "done"


def has_run(streams):
    ran.clear()
    model = ChatOpenAI(model="m", base_url=URL, api_key="none", streaming=streams)
    messages = create_agent(model, tools=[bash]).invoke({"messages": ["Clean."]})["messages"]
    print(f"{'streamed' if streams else 'whole'}: ran {ran}, then {[one.type for one in messages]}")
    return list(ran)


if has_run(streams=False) != [] or has_run(streams=True) != ["make clean-"]:
    sys.exit("Changed: expected the cut call to be run if it is streamed, and only then")
print("As found: a cut call is completed and run, if it is streamed.")
CODE
"$work/venv/bin/python" "$work/run.py"
