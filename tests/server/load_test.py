"""Many clients at once against `fathom serve` with the embedded model.

FATHOM_STREAMS: how many streams at once (default 1000).
"""

import asyncio
import json
import os
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from server_process import BUILD, FathomServer, get_json, metric, wait_until

STREAMS = int(os.environ.get("FATHOM_STREAMS", "1000"))
TOKENS = 16
MEBIBYTE = 1 << 20


def body_of(i):
    """Greedy, drawn, chats and completions, with few and many common beginnings."""
    body = {"max_tokens": TOKENS, "seed": i, "temperature": (i % 3) / 2}
    text = f"Once upon a time there lived {i % 97} {'very ' * (i % 40)}old kings"
    if i % 4 == 0:
        return "/v1/chat/completions", {**body, "messages": [{"role": "user", "content": text}]}
    return "/v1/completions", {**body, "prompt": text}


def request(path, body):
    data = json.dumps(body).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n\r\n").encode() + data


async def open_stream(port, path, body, receive_bytes=None):
    client = socket.socket()
    if receive_bytes:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=client, limit=1 << 20)
    writer.write(request(path, {**body, "stream": True}))
    await writer.drain()
    return reader, writer


async def read_stream(port, path, body):
    """(text of the answer, reasoning first, finish_reason); every event must be whole."""
    reader, writer = await open_stream(port, path, body)
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise AssertionError(head.decode())
        reasoning, content, finish = "", "", None
        while True:
            line = await reader.readline()
            if not line:
                raise AssertionError("the stream ended without [DONE]")
            if not line.startswith(b"data: "):
                continue  # sizes of chunks, blank lines, comments
            if line.strip() == b"data: [DONE]":
                return reasoning + content, finish
            for choice in json.loads(line[6:])["choices"]:
                delta = choice.get("delta", choice)
                reasoning += delta.get("reasoning_content") or ""
                content += delta.get("content") or delta.get("text") or ""
                finish = choice["finish_reason"] or finish
    finally:
        writer.close()


def answers_without_server(n):
    """Answers the requests as a batch: {i: (text, finish_reason)}."""
    with tempfile.TemporaryDirectory() as folder:
        requests, answers = Path(folder, "in.jsonl"), Path(folder, "out.jsonl")
        lines = []
        for i in range(n):
            path, body = body_of(i)
            lines.append(json.dumps({"custom_id": str(i), "url": path, "body": body}))
        requests.write_text("\n".join(lines))
        subprocess.run([BUILD / "fathom", "batch", "--max-sequences", "4", "--prefix-cache", "off",
                        str(requests), str(answers)], check=True, capture_output=True)
        found = {}
        for line in answers.read_text().splitlines():
            answer = json.loads(line)
            choice = answer["response"]["body"]["choices"][0]
            message = choice.get("message")
            text = (message.get("reasoning_content", "") + (message["content"] or "")
                    if message else choice["text"])
            found[int(answer["custom_id"])] = (text, choice["finish_reason"])
        return found


class LoadTest(unittest.TestCase):
    def setUp(self):
        self.server = FathomServer("--log-requests", "off")
        self.port = int(self.server.url.split(":")[-1])
        self.addCleanup(self.server.kill)

    def test_each_of_many_streams_is_the_answer_it_would_be_alone(self):
        expected = answers_without_server(STREAMS)
        self.assertEqual(len(expected), STREAMS)

        async def one_round():
            return await asyncio.gather(*(read_stream(self.port, *body_of(i))
                                          for i in range(STREAMS)))
        memory = []
        for _ in range(3):
            start = time.monotonic()
            answers = asyncio.run(one_round())
            for i, answer in enumerate(answers):
                self.assertEqual(answer, expected[i], body_of(i))
            wait_until(lambda: metric(self.server.url, "fathom_http_connections") <= 2)
            memory.append(self.server.resident_bytes())
            print(f"{STREAMS} streams in {time.monotonic() - start:.1f} s, "
                  f"{memory[-1] / MEBIBYTE:.0f} MiB resident", flush=True)
        self.assertLess(memory[2] - memory[1], 16 * MEBIBYTE, "memory is flat")
        self.assertEqual(self.server.stop(), 0)

    def test_slow_readers_do_not_slow_the_others(self):
        async def fast():
            start = time.monotonic()
            await asyncio.gather(*(read_stream(self.port, "/v1/completions", {
                "prompt": f"Far away {i}", "max_tokens": 200, "ignore_eos": True, "seed": i})
                for i in range(8)))
            return time.monotonic() - start

        async def run():
            await fast()  # warm
            alone = min([await fast() for _ in range(3)])
            # They read nothing: small buffers fill, the engine's queue fills, and they pause.
            slow = [await open_stream(self.port, "/v1/completions", {
                "prompt": f"Far away {i}", "max_tokens": 60000, "ignore_eos": True},
                receive_bytes=4096) for i in range(200)]
            for _, writer in slow:
                writer.transport.pause_reading()
            # Until all of them have run into their buffers.
            for _ in range(600):
                before = metric(self.server.url, 'fathom_tokens_total{kind="generated"}')
                await asyncio.sleep(0.5)
                if metric(self.server.url, 'fathom_tokens_total{kind="generated"}') == before:
                    break
            else:
                raise AssertionError("the slow readers never paused")
            beside = min([await fast() for _ in range(3)])
            print(f"8 streams of 200 tokens: {alone:.2f} s alone, {beside:.2f} s beside 200 slow "
                  f"readers", flush=True)
            for _, writer in slow:
                writer.transport.abort()
            return alone, beside

        alone, beside = asyncio.run(run())
        # Noise of a shared machine, not more: paused streams take no steps.
        self.assertLess(beside, 2 * alone + 0.2)
        wait_until(lambda: metric(self.server.url, "fathom_running") == 0)
        self.assertEqual(get_json(self.server.url + "/load")["server_load"], 0)
        self.assertEqual(self.server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
