"""Sends to `fathom serve` what hostile clients send: bounded in time and memory, and answered."""

import http.client
import json
import re
import struct
import time
import unittest
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from server_process import FathomServer, get_json

MEBIBYTE = 1 << 20


def post(url, path, body, timeout=120):
    """Returns the status and the body of the response."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=timeout)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def most_resident_bytes(server):
    """The most memory that the server has ever had."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024


class CollidingKeys:
    """Texts of 32 bytes with one hash in GNU's standard library (MurmurHash64A, seed 0xc70f6907).

    Each 8 bytes change the state of the hash by a function that can be inverted: for any first 8
    bytes of a pair there are 8 more that lead to the same state.
    """

    MASK = (1 << 64) - 1
    MULTIPLIER = 0xC6A4A7935BD1E995
    INVERSE = pow(MULTIPLIER, -1, 1 << 64)
    MIDDLE = 0x0123456789ABCDEF  # the state behind each pair

    @classmethod
    def make(cls, n_keys):
        per_pair = int(n_keys ** 0.5 + 0.999)
        first = cls.pairs(0xC70F6907 ^ (32 * cls.MULTIPLIER & cls.MASK), per_pair)
        second = cls.pairs(cls.MIDDLE, per_pair)
        return [a + b for a in first for b in second][:n_keys]

    @classmethod
    def pairs(cls, state, n_pairs):
        found = []
        candidate = 0
        while len(found) < n_pairs:
            digits = f"{candidate:08x}".encode()
            candidate += 1
            mixed = cls.mix(int.from_bytes(digits, "little") * cls.MULTIPLIER & cls.MASK)
            between = (state ^ mixed * cls.MULTIPLIER) * cls.MULTIPLIER & cls.MASK
            wanted = (cls.MIDDLE * cls.INVERSE ^ between) & cls.MASK
            block = cls.mix(wanted * cls.INVERSE & cls.MASK) * cls.INVERSE & cls.MASK
            if block & 0x8080808080808080 == 0:
                found.append((digits + struct.pack("<Q", block)).decode())
        return found

    @staticmethod
    def mix(value):
        return value ^ value >> 47


class JsonAttackTest(unittest.TestCase):
    """Bodies that are JSON."""

    @classmethod
    def setUpClass(cls):
        cls.server = FathomServer()
        cls.addClassCleanup(cls.server.kill)

    def tearDown(self):
        self.assertEqual(get_json(self.server.url + "/health"), {"status": "ok"})

    def seconds_to_answer(self, keys):
        body = json.dumps({"prompt": "Once", "max_tokens": 1,
                           "metadata": {key: 1 for key in keys}}).encode()
        begin = time.monotonic()
        status, text = post(self.server.url, "/v1/completions", body)
        self.assertEqual(status, 200, text)
        return time.monotonic() - begin

    def test_colliding_keys(self):
        hostile = CollidingKeys.make(40_000)
        self.assertEqual(len(set(hostile)), 40_000)
        usual = self.seconds_to_answer(f"a key of thirty-two bytes {i:06}" for i in range(40_000))
        self.assertLess(self.seconds_to_answer(hostile), max(1, 10 * usual))

    def grown_by(self, path, body):
        """The status, the text, and the bytes by which the server's memory grew at most."""
        before = most_resident_bytes(self.server)
        begin = time.monotonic()
        status, text = post(self.server.url, path, body)
        self.assertLess(time.monotonic() - begin, 30)
        return status, text, most_resident_bytes(self.server) - before

    def test_tiny_values(self):
        unit = b"[],"
        body = b'{"x":[' + unit * (57_000_000 // len(unit)) + b"[]]}"
        for path in ("/v1/completions", "/v1/chat/completions", "/v1/messages", "/v1/responses",
                     "/tokenize"):
            status, text, grown = self.grown_by(path, body)
            self.assertEqual(status, 413, text)
            self.assertIn(f"JSON of {len(body)} bytes: expected", text)
            self.assertIn("found 304", text)
            self.assertLess(grown, 2 * len(body) + 32 * MEBIBYTE)

    def test_memory_of_bodies_that_pass(self):
        for unit in (b"0,", b"[],", b'{"":0},', b'"",', b"1e9,", b'{"role":"user"},'):
            for field in (b"x", b"messages", b"input", b"prompt", b"tools"):
                body = b'{"' + field + b'":[' + unit * (12_000_000 // len(unit)) + b"0]}"
                for path in ("/v1/chat/completions", "/v1/messages", "/v1/responses"):
                    status, text, grown = self.grown_by(path, body)
                    self.assertIn(status, (400, 413), text)
                    self.assertLess(grown, 10 * len(body) + 32 * MEBIBYTE, (path, field, unit))

    def test_memory_of_what_grows(self):
        """Bodies of which the server makes something longer."""
        keys = "{" + ",".join(f'"{i:x}":0' for i in range(700_000)) + "}"
        call = '{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":%s}}]}'
        use = '{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":%s}]}'
        shell = '{"type":"shell"}'
        cases = [
            ("/v1/chat/completions", '{"messages":[%s]}' % call % keys),
            ("/v1/chat/completions", '{"messages":[%s]}' % call % json.dumps(keys)),
            ("/v1/messages", '{"max_tokens":1,"messages":[%s]}' % use % keys),
            ("/v1/responses", '{"input":[{"type":"function_call","call_id":"a","name":"f",'
                              '"arguments":%s}]}' % json.dumps(keys)),
            ("/v1/responses", '{"input":"x","tools":[%s]}' % ",".join([shell] * 400_000)),
            ("/v1/chat/completions", '{"model":"%s","stream":true,"max_tokens":50,"messages":'
                                     '[{"role":"user","content":"x"}]}' % ("m" * 8_000_000)),
            ("/v1/responses", '{"input":"x","stream":true,"max_output_tokens":1,"metadata":{"a":[%s]}}'
             % ",".join(["0"] * 4_000_000)),
            ("/detokenize", '{"tokens":[%s]}' % ",".join(["0"] * 4_000_000)),
            ("/v1/completions", '{"prompt":"%s"}' % ("中" * 3_000_000)),
            ("/v1/chat/completions",
             '{"messages":[{"role":"user","content":"%s"}]}' % ("é" * 4_000_000))]
        for path, body in cases:
            body = body.encode()
            status, text, grown = self.grown_by(path, body)
            self.assertEqual(status, 400, text[:1000])
            self.assertLess(grown, 10 * len(body) + 32 * MEBIBYTE, (path, body[:100]))

    def test_prompts_of_a_million_tokens(self):
        for token in ("7", "415", "4 "):
            body = ('{"prompt":[' + ",".join([token] * 1_000_000) + "]}").encode()
            status, text, _ = self.grown_by("/v1/completions", body)
            self.assertEqual(status, 400, text)
            self.assertIn("maximum context length", text)


class ManyBodiesTest(unittest.TestCase):
    def test_values_of_large_bodies_are_not_held_together(self):
        server = FathomServer()
        self.addCleanup(server.kill)
        n_bodies = 6
        # Values take 8 bytes per byte.
        body = b'{"prompt":"Hi","max_tokens":1,"x":[' + b"0," * 15_000_000 + b"0]}"
        before = most_resident_bytes(server)
        with ThreadPoolExecutor(n_bodies) as clients:
            answers = list(clients.map(lambda _: post(server.url, "/v1/completions", body),
                                       range(n_bodies)))
        self.assertEqual({status for status, _ in answers}, {200})
        grown = most_resident_bytes(server) - before
        self.assertLess(grown, (2 * n_bodies + 9) * len(body))


if __name__ == "__main__":
    unittest.main()
