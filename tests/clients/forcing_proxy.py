"""A proxy that makes a toy model work as an agent.

The embedded model calls no tool of its own accord. The proxy stands between an agent and the server
and changes requests so that the answers follow a script, one entry for each request of the
main conversation. A forced call is a real answer of the server: `tool_choice` names the tool, and
the tool has a strict schema that allows only the arguments of the script. The schema is the same in
all requests of a session, so that forcing leaves the prefix of the prompt alone.
"""

import http.client
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

STOPS = (".",)  # end the tales of the model
TALK = None  # an answer of text, in a script


class Call(NamedTuple):
    """A forced call. max_tokens: cuts it."""
    tool: str
    max_tokens: int = 0


class Exchange(NamedTuple):
    path: str
    body: dict
    status: int
    answer: str  # as received


class ForcingProxy:
    """Serves until stop() and keeps all exchanges.

    arguments: {tool: [arguments, ...]}, what calls of the tool may say.
    """

    def __init__(self, url, arguments):
        self.exchanges = []
        self._upstream = urlsplit(url)
        self._arguments = arguments
        self._script = []
        self._lock = threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                proxy.forward(self, None)

            def do_HEAD(self):
                proxy.forward(self, None)

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                proxy.forward(self, body)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def expect(self, *script):
        """Sets the answers to the next requests of the main conversation: Call, or TALK."""
        with self._lock:
            self._script = list(script)

    def rest(self):
        """The answers of the script that no request asked for."""
        with self._lock:
            return list(self._script)

    def stop(self):
        self._server.shutdown()
        self._server.server_close()

    def forward(self, handler, body):
        path = handler.path.split("?")[0]
        fields = {name: value for name, value in handler.headers.items()
                  if name.lower() not in ("host", "content-length", "accept-encoding")}
        parsed = {}
        if body and path.endswith(("/messages", "/responses")) and (
                handler.headers.get("Content-Encoding") is None):
            parsed = json.loads(body)
            self._force(parsed)
            body = json.dumps(parsed).encode()
        upstream = http.client.HTTPConnection(self._upstream.netloc, timeout=300)
        upstream.request(handler.command, handler.path, body, fields)
        answer = upstream.getresponse()
        handler.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                handler.send_header(name, value)
        handler.send_header("Connection", "close")
        handler.end_headers()
        received = b""
        while piece := answer.read1(65536):
            received += piece
            try:
                handler.wfile.write(piece)
                handler.wfile.flush()
            except OSError:  # the agent has left
                break
        handler.close_connection = True
        upstream.close()
        with self._lock:
            self.exchanges.append(Exchange(path, parsed, answer.status, received.decode()))

    def _force(self, body):
        is_messages = "messages" in body
        tools = body.get("tools") or []
        for tool in tools:
            allowed = self._arguments.get(tool.get("name"))
            if allowed is None:
                continue
            tool["input_schema" if is_messages else "parameters"] = one_of(allowed)
            tool["strict"] = True
        with self._lock:
            is_main = any(tool.get("name") in self._arguments for tool in tools)
            answer = self._script.pop(0) if is_main and self._script else TALK
        if answer is TALK:
            body["stop_sequences" if is_messages else "stop"] = list(STOPS)
        else:
            body["tool_choice"] = {"type": "tool" if is_messages else "function",
                                   "name": answer.tool}
            if answer.max_tokens:
                body["max_tokens" if is_messages else "max_output_tokens"] = answer.max_tokens
        # The agents' sessions are about calls; the toy's reasoning would fill the limit.
        if is_messages:
            body["thinking"] = {"type": "disabled"}
            body.pop("output_config", None)
        else:
            body["reasoning"] = {"effort": "none"}


def one_of(allowed):
    """The strict schema of objects that are one of the allowed ones."""
    schemas = [{"type": "object", "additionalProperties": False, "required": list(arguments),
                "properties": {key: {"const": value} for key, value in arguments.items()}}
               for arguments in allowed]
    return schemas[0] if len(schemas) == 1 else {"type": "object", "anyOf": schemas}
