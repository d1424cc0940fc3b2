"""Clients without a key, or without manners, against `fathom serve`: the others are served."""

import http.client
import json
import os
import resource
import signal
import socket
import threading
import time
import unittest
from pathlib import Path

from serve_test import STORY
from server_process import FathomServer, metric, wait_until

KEY = "right"
HALF = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 1000000\r\n\r\n{")
MEBIBYTE = 1 << 20
# Takes long to encode. Where it would be a prompt, it is refused at once: it is too long.
LONG_TEXT = "".join(chr(97 + i * i % 26) for i in range(1000)) * 30000
COUNT = "/v1/messages/count_tokens"
COUNT_BODY = {"messages": [{"role": "user", "content": LONG_TEXT}]}


def processor_seconds(pid):
    """Returns the processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def processor_seconds_of_ended():
    """Returns the processor time of all processes that this one has started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def ask(server, method, path, body=None, key=None, fields=()):
    """(status, text, fields) of one request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    headers = {"Host": "localhost", **dict(fields)}
    if key:
        headers["x-api-key"] = key
    if body is not None:
        headers["Content-Type"] = "application/json"
        body = json.dumps(body)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read().decode(), response.headers
    finally:
        connection.close()


class AttackHttpTest(unittest.TestCase):
    def serve(self, *arguments):
        server = FathomServer(*arguments)
        server.port = int(server.url.split(":")[-1])
        self.addCleanup(server.kill)
        return server

    def open(self, server, n, data):
        """n connections that have sent `data`, and stay open."""
        clients = []
        for _ in range(n):
            client = socket.create_connection(("127.0.0.1", server.port), timeout=30)
            self.addCleanup(client.close)
            client.sendall(data)
            clients.append(client)
        time.sleep(0.5)  # until the server has read it
        return clients

    def assert_serves(self, server, key=None):
        start = time.monotonic()
        self.assertEqual(ask(server, "GET", "/health")[0], 200)
        self.assertEqual(ask(server, "GET", "/metrics")[0], 200)
        status, text, _ = ask(server, "POST", "/v1/completions", {**STORY, "max_tokens": 2}, key)
        self.assertEqual(status, 200, text)
        self.assertLess(time.monotonic() - start, 5)

    def test_half_bodies_without_a_key(self):
        server = self.serve("--api-key", KEY)
        clients = self.open(server, 4096 + 100, HALF)
        self.assert_serves(server, KEY)
        answer = clients[-1].recv(1 << 16)
        self.assertIn(b"HTTP/1.1 401 ", answer)
        self.assertIn(b"Connection: close", answer)
        self.assertEqual(server.stop(), 0)

    def test_half_bodies_where_no_key_is_needed(self):
        server = self.serve("--max-connections", "64")
        self.open(server, 200, HALF)
        self.assert_serves(server)
        self.assertLessEqual(metric(server.url, "fathom_http_connections"), 64)
        self.assertEqual(server.stop(), 0)

    def test_answers_that_nobody_reads(self):
        server = self.serve("--api-key", KEY, "--max-connections", "64")
        for path in (b"/openapi.json", b"/", b"/metrics", b"/health"):
            request = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path
            for _ in range(80):
                client = socket.socket()
                self.addCleanup(client.close)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.settimeout(30)
                client.connect(("127.0.0.1", server.port))
                client.sendall(request * 300)
            time.sleep(1)  # until the server can write no more
            self.assert_serves(server, KEY)
            self.assertEqual(ask(server, "GET", "/v1/models", key=KEY)[0], 200)
        self.assertEqual(server.stop(), 0)

    def test_heads_of_many_fields(self):
        server = self.serve("--api-key", KEY)
        before = server.resident_bytes()
        self.open(server, 300, b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"a:\r\n" * 15000)
        self.assertLess(server.resident_bytes() - before, 64 * MEBIBYTE)
        self.assert_serves(server, KEY)
        self.assertEqual(server.stop(), 0)

    def test_large_bodies_without_a_key(self):
        server = self.serve("--api-key", KEY)
        before = server.resident_bytes()
        # 40 times 63 MiB are more than all bodies may have together. No key is needed for /health,
        # and no body.
        for request in (b"POST /v1/completions", b"GET /health"):
            head = (b"%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" %
                    (request, 63 * MEBIBYTE))
            for client in self.open(server, 20, head):
                try:
                    client.sendall(bytes(2 * MEBIBYTE))
                except OSError:
                    pass  # the server has read enough
        self.assertEqual(metric(server.url, "fathom_http_body_bytes"), 0)
        self.assertLess(server.resident_bytes() - before, 64 * MEBIBYTE)
        body = {"prompt": " " * (60 * MEBIBYTE), "max_tokens": 1}
        status, text, _ = ask(server, "POST", "/v1/completions", body, KEY)
        self.assertEqual(status, 400, text[:1000])
        self.assertIn("context_length_exceeded", text)
        self.assertEqual(server.stop(), 0)

    def test_nothing_is_asked_of_a_stranger(self):
        server = self.serve("--api-key", KEY)
        client = self.open(server, 1, HALF.replace(b"\r\n\r\n{", b"\r\nExpect: 100-continue\r\n\r\n"))
        self.assertIn(b"HTTP/1.1 401 ", client[0].recv(1 << 16), "and no 100")
        self.assertEqual(server.stop(), 0)

    def test_the_reserve(self):
        server = self.serve("--max-connections", "4", "--admin-key", "root")
        long = json.dumps({**STORY, "max_tokens": 60000}).encode()
        self.open(server, 4, b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                  b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" %
                  (len(long), long))
        wait_until(lambda: metric(server.url, "fathom_http_handling") >= 5, seconds=60)
        for n_silent in (0, 3, 50):
            self.open(server, n_silent, b"GET /hea")
            self.assertEqual(ask(server, "GET", "/health")[0], 200)
            self.assertEqual(ask(server, "GET", "/ping")[0], 200)
            self.assertEqual(ask(server, "GET", "/metrics")[0], 200)
            self.assertEqual(len(json.loads(ask(server, "GET", "/slots", key="root")[1])), 4)
            self.assertEqual(ask(server, "GET", "/slots")[0], 401)
            status, _, fields = ask(server, "GET", "/v1/models")
            self.assertEqual(status, 503)
            self.assertEqual(fields["Retry-After"], "1")
        for slot in json.loads(ask(server, "GET", "/slots", key="root")[1]):
            self.assertEqual(ask(server, "POST", "/abort", {"request_id": slot["id"]}, "root")[0],
                             200)
        wait_until(lambda: ask(server, "GET", "/v1/models")[0] == 200, seconds=10)
        self.assertEqual(server.stop(), 0)

    def test_an_abort_does_not_wait_for_a_client_that_does_not_read(self):
        server = self.serve("--admin-key", "root")
        # Every chunk has log probabilities, so that the answer soon fills the system's buffers.
        body = json.dumps({**STORY, "max_tokens": 60000, "stream": True, "logprobs": 20}).encode()
        clients = []
        for _ in range(2):
            client = socket.socket()
            self.addCleanup(client.close)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", int(server.url.rsplit(":", 1)[1])))
            client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                           b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" %
                           (len(body), body))
            clients.append(client)

        def slots():
            return json.loads(ask(server, "GET", "/slots", key="root")[1])

        def is_stuck():
            before = [slot["output_tokens"] for slot in slots()]
            time.sleep(1)
            return len(before) == 2 and before == [slot["output_tokens"] for slot in slots()]

        wait_until(is_stuck, seconds=60)
        for slot in slots():
            ask(server, "POST", "/abort", {"request_id": slot["id"]}, "root")
        wait_until(lambda: not slots(), seconds=5)
        wait_until(lambda: metric(server.url, "fathom_http_handling") == 1, seconds=5)  # this one
        wait_until(lambda: metric(server.url, "fathom_running") == 0, seconds=5)
        self.assertEqual(server.stop(), 0)

    def test_no_spelling_of_a_path_passes_a_key(self):
        server = self.serve("--api-key", KEY, "--admin-key", "root", "--protect-metrics")
        for path in ("/v1/models", "/v1/models/", "//v1/models", "//v1//models//", "/metrics/",
                     "//metrics", "/slots/", "//slots"):
            self.assertEqual(ask(server, "GET", path)[0], 401, path)
            key = "root" if "slots" in path else KEY
            self.assertEqual(ask(server, "GET", path, key=key)[0], 200, path)
        body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
        for path in ("/v1/chat/completions/", "//v1/chat/completions", "/v1//chat/completions"):
            self.assertEqual(ask(server, "POST", path, body)[0], 401, path)
            self.assertEqual(ask(server, "POST", path, body, KEY)[0], 200, path)
        self.assertEqual(server.stop(), 0)

    def test_strangers_do_not_fill_the_log(self):
        server = self.serve("--api-key", KEY)
        for i in range(300):
            ask(server, "GET", f"/{i}.php")
            ask(server, "GET", "/v1/models")
        ask(server, "GET", "/v1/models", key=KEY)
        self.assertEqual(server.stop(), 0)
        lines = [event for event in server.events() if event.get("status") in (401, 404)]
        left_out = sum(event.get("left_out", 0) for event in server.events())
        self.assertLess(len(lines), 100)
        self.assertEqual(len(lines) + left_out, 600)
        self.assertTrue(any(event.get("status") == 200 for event in server.events()))

    def make_busy(self, server):
        """Clients whose texts take long to encode."""
        texts = json.dumps(COUNT_BODY)
        clients = [threading.Thread(target=self.ask_and_forget, args=(server, texts))
                   for _ in range(4)]
        for client in clients:
            client.start()
        wait_until(lambda: metric(server.url, "fathom_http_handling") >= 5, seconds=60)
        self.addCleanup(lambda: [client.join() for client in clients])

    def test_a_signal_ends_busy_handlers(self):
        server = self.serve("--drain-timeout", "1000")
        self.make_busy(server)
        before = processor_seconds_of_ended() + processor_seconds(server.process.pid)
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(timeout=120), 0)
        self.assertLess(processor_seconds_of_ended() - before, 4)

    def test_a_second_signal_does_not_wait_for_busy_handlers(self):
        server = self.serve("--drain-timeout", "1000")
        self.make_busy(server)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        start = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(timeout=30), 0)
        self.assertLess(time.monotonic() - start, 1)

    def test_clients_that_leave_leave_no_work(self):
        server = self.serve()
        text = json.dumps(COUNT_BODY).encode()
        clients = self.open(server, 3, b"POST %s HTTP/1.1\r\nHost: localhost\r\n"
                            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" %
                            (COUNT.encode(), len(text), text))
        wait_until(lambda: metric(server.url, "fathom_http_handling") == 4, seconds=60)
        for client in clients:
            client.close()
        before = processor_seconds(server.process.pid)
        wait_until(lambda: metric(server.url, "fathom_http_handling") == 1, seconds=60)
        self.assertLess(processor_seconds(server.process.pid) - before, 4)

    @staticmethod
    def ask_and_forget(server, body):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        try:
            connection.request("POST", COUNT, body, {"Content-Type": "application/json"})
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()


if __name__ == "__main__":
    unittest.main()
