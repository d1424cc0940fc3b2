#!/usr/bin/env bash
# LlamaIndex 0.14 runs a tool call that was cut with None in place of the argument that was cut.
#
# A server ends a call in the middle of its arguments, as OpenAI does, with the finish reason length.
# LlamaIndex repairs the open JSON, and the string without its end becomes None. Its agent then calls
# the function, streamed or not, with None for a parameter that the function declares as a string and
# its schema as required. So a server cannot count on open arguments being refused, and a tool sees
# None for what its schema demands.
#
# Seen with: llama-index-core 0.14.25, llama-index-llms-openai 0.8.3 and llama-index-llms-openai-like
# 0.8.1 of PyPI. Needs python3 with venv. The server is one of this script; nothing is asked of another
# machine.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check llama-index-core==0.14.25 \
    llama-index-llms-openai==0.8.3 llama-index-llms-openai-like==0.8.1

cat > "$work/run.py" <<'CODE'
import asyncio
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

CUT = {"name": "bash", "arguments": '{"folder": "build", "command": "make clean-'}


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


def bash(command: str, folder: str) -> str:
    """Runs a command."""
    ran.append((command, folder))
    return "done"


async def has_run(streams):
    ran.clear()
    model = OpenAILike(model="m", api_base=URL, api_key="none", is_chat_model=True,
                       is_function_calling_model=True)
    tool = FunctionTool.from_defaults(bash)
    answer = await FunctionAgent(tools=[tool], llm=model, streaming=streams).run("Clean.")
    print(f"{'streamed' if streams else 'whole'}: ran {ran}, then said {answer}")
    return list(ran)


if any(asyncio.run(has_run(streams)) != [(None, "build")] for streams in (False, True)):
    sys.exit("Changed: expected the cut call to be run, with None in place of the cut argument")
print("As found: a cut call is run with None for what was cut.")
CODE
"$work/venv/bin/python" "$work/run.py"
