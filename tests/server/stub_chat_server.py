"""A server with scripted answers: what no model says on demand (injections, slow answers, errors).

The first word of the last message of the user that is a key of SCRIPTS chooses the answer. One that
is to be continued goes on with what its text does not have yet.
"""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MARKDOWN = """# A heading

Text with *emphasis*, **strong** words, `code` and a [link](https://example.com/page).
A line after it.

1. first
2. second
   - nested
   - again

> A quote.

| Name | Depth |
|:-----|------:|
| Puerto Rico | 8376 m |
| Mariana | 10935 m |

```python
def fathom(metres):
    return metres / 1.8288
```

An end.

```
still open
"""

# Everything here must be shown as text, or left out.
INJECTION = """<script>window.ran = 'script'</script>
<img src=x onerror="window.ran = 'img'"> <svg onload="window.ran = 'svg'"></svg>
</details></article></main><iframe srcdoc="<script>parent.ran = 'iframe'</script>"></iframe>

[one](javascript:window.ran='link') [two](data:text/html,<script>window.ran='data'</script>)
[three](JaVaScRiPt:window.ran='case') [four](java\tscript:window.ran='tab')
[five](\x01javascript:window.ran='control') [six](vbscript:x) [seven](//example.com "x" onclick="y")
![image](https://example.com/spy.png) ![image](javascript:window.ran='image')
<javascript:window.ran='angle'> <https://example.com/"onmouseover="window.ran='quote'>
[nested [link](javascript:window.ran='inner')](https://example.com/outer)

`<b onclick="window.ran='code'">` **<i onmouseover="window.ran='bold'">x</i>**

| <img src=x onerror="window.ran='cell'"> | b |
|---|---|
| [x](javascript:window.ran='table') | c |

```"><script>window.ran='language'</script>
</code></pre><script>window.ran='fence'</script>
```

$\\text{<img src=x onerror="window.ran='text'">} \\href{javascript:window.ran='href'}{x}$

$$ \\<script>window.ran='formula'</script> $$

<style>* { display: none }</style> <base href="https://example.com/"> <form action="x"></form>
"""

THOUGHTS = "The reader greets me.\nI should greet in return, and keep it short."

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript"}

SCRIPTS = {
    "plain": ("", "Good day. This is a plain answer."),
    "thinking": (THOUGHTS, "Good day to you."),
    "markdown": ("", MARKDOWN),
    "injection": (INJECTION, INJECTION),
    "slow": ("", "word " * 400),
    "ponder": ("First thought.\n" + "And a thought more. " * 200, "Done."),
    "stall": ("", "First. Second."),  # and then nothing until the reader stops
    "limit": (THOUGHTS, "One, two, three and four."),
    "cut": (THOUGHTS, "Good day to you, too."),
    "tool": ("", "I shall look."),
    "long": ("", "A paragraph of some words to fill the page.\n\n" * 60),
    "colors": ("", '```cpp\n#include <a>\nint a = 1; // <b>\nputs("x");\n```\n'),
    "code": ("", "```\n" + "line of code\n" * 3000 + "```\n"),
}


def pieces(text, size):
    return [text[at:at + size] for at in range(0, len(text), size)]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def log_message(self, *arguments):
        pass

    def reply(self, status, content_type, body, fields=()):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        for name, value in fields:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def reply_json(self, status, value):
        self.reply(status, "application/json", json.dumps(value).encode())

    def do_GET(self):
        stub = self.server.stub
        if self.path == "/":
            self.reply(200, TYPES[".html"], (stub.folder / "page.html").read_bytes())
        elif self.path == "/blank":
            self.reply(200, TYPES[".html"], b"")
        elif self.path.startswith("/web/") and (stub.folder / self.path[5:]).is_file():
            file = stub.folder / self.path[5:]
            self.reply(200, TYPES[file.suffix], file.read_bytes())
        elif self.path == "/v1/models":
            self.reply_json(200, {"object": "list", "data": [
                {"id": "stub-model", "description": "A stub that knows nothing."}]})
        elif self.path == "/metrics":
            running = stub.others_running + stub.streams
            self.reply(stub.metrics_status, "text/plain",
                       f"fathom_running {running}\nfathom_waiting {stub.waiting}\n".encode())
        else:
            stub.unknown_paths.append(self.path)
            self.reply_json(404, {"error": {"message": "no such path"}})

    def do_POST(self):
        stub = self.server.stub
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with stub.lock:
            stub.requests.append((body, self.headers.get("Authorization")))
        *others, last = body["messages"]
        written = last if last.get("prefix") else None
        words = (others[-1] if written else last)["content"].split()
        script = next((word for word in words if word in SCRIPTS or word in ("error", "broken")),
                      "plain")
        if script == "error":
            self.reply_json(400, {"error": {"message": "temperature: expected at most 2"}})
            return
        self.reply(200, "text/event-stream", b"")
        with stub.lock:
            stub.streams += 1
        try:
            self.stream(script, len(stub.requests), written,
                        body.get("continue_reasoning", False))
        except OSError:
            stub.aborted.set()
        with stub.lock:
            stub.streams -= 1

    # written: the message that is continued, or None.
    def stream(self, script, number, written, thinks_on):
        reasoning, content = SCRIPTS.get(script, ("", "It begins"))
        finish = "stop"
        if written:
            thinks_on = thinks_on and not written["content"]
            reasoning = reasoning[len(written.get("reasoning_content", "")):] if thinks_on else ""
            content = content[len(written["content"]):]
        elif script == "limit":
            content, finish = content[:19], "length"
        elif script == "cut":
            reasoning, content, finish = reasoning[:19], "", "length"
        if script == "plain":
            content += f" Number {number}."
        size, delay = {"slow": (5, .02), "ponder": (5, .02), "injection": (7, 0), "code": (400, .002),
                       "long": (60, .002)}.get(script, (4, .004))
        self.send_chunk({"delta": {"role": "assistant", "content": ""}})
        for field, text in (("reasoning_content", reasoning), ("content", content)):
            for piece in pieces(text, size):
                self.send_chunk({"delta": {field: piece}})
                time.sleep(delay)
        if script == "tool":
            for call in ({"id": "call_1", "type": "function",
                          "function": {"name": "depth", "arguments": ""}},
                         {"function": {"arguments": '{"place": '}},
                         {"function": {"arguments": '"<b>x</b>"}'}}):
                self.send_chunk({"delta": {"tool_calls": [{"index": 0, **call}]}})
        while script == "stall":
            self.wfile.write(b": wait\n\n")
            time.sleep(.1)
        if script == "broken":
            self.send_data({"error": {"message": "the engine has stopped"}})
            return
        self.send_chunk({"delta": {}, "finish_reason": finish})
        self.send_data({"choices": [], "usage": {
            "prompt_tokens": 200, "completion_tokens": 42, "total_tokens": 242,
            "prompt_tokens_details": {"cached_tokens": 150},
            "completion_tokens_details": {"reasoning_tokens": 12, "accepted_prediction_tokens": 30,
                                          "rejected_prediction_tokens": 10}}})
        self.wfile.write(b"data: [DONE]\n\n")

    def send_chunk(self, choice):
        self.send_data({"object": "chat.completion.chunk",
                        "choices": [{"index": 0, "finish_reason": None, **choice}]})

    def send_data(self, value):
        self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")
        self.wfile.flush()


class StubServer:
    """Serves the page in `folder` (src/server/web) at `url` until stop().

    `requests` holds (body, Authorization) of each question. /metrics counts the answers that are
    being sent and `others_running`.
    """

    def __init__(self, folder):
        self.folder = folder
        self.lock = threading.Lock()
        self.requests = []
        self.streams = 0  # answers that are being sent
        self.others_running = 2
        self.waiting = 1
        self.metrics_status = 200
        self.unknown_paths = []
        self.aborted = threading.Event()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.stub = self
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def stop(self):
        self.http.shutdown()
        self.http.server_close()
