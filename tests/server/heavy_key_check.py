#!/usr/bin/env python3
"""Measures how much requests of one API key whose forms cost the most delay those of another key.

One key asks for answers whose masks, or whose schemas, take seconds of a processor, some or many at
once. Meanwhile another key asks for a JSON answer of five tokens and for five tokens without a form,
again and again. Then all clients of the first key leave. Prints the times, and ends with 1 if a short
answer with a form took a second, or if the server still computes half a second after the clients have
left.

  heavy_key_check.py --seconds 5
"""

import argparse
import http.client
import json
import os
import socket
import statistics
import sys
import threading
import time
import urllib.parse
from pathlib import Path

from server_process import FathomServer, metric

MASK = {"prompt": "a", "max_tokens": 4, "guided_regex": "(?=(.*a.{12})*$)(?=(.*b.{13})*$).{1,}"}
FORM = {"prompt": "a", "max_tokens": 5, "guided_json": {
    "type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}}
FREE = {"prompt": "a", "max_tokens": 5, "ignore_eos": True}
LONGEST = 1.0  # seconds of a short answer with a form
IDLE = 0.1  # processors that a server without requests may use


def mask(number):
    """Another constraint for each request: equal ones would share what was found."""
    return dict(MASK, guided_regex=MASK["guided_regex"] + f"|{'c' * number}")


def schema(number):
    patterns = {f"[a-m]{{{i}}}": {"minimum": 64 * number + i} for i in range(64)}
    return {"prompt": "a", "max_tokens": 4, "guided_json": {"patternProperties": patterns}}


class Clients:
    """Connections of a key, which ask again and again until they leave."""

    def __init__(self, host, bodies):
        self.host = host
        self.is_left = threading.Event()
        self.sockets = []
        self.threads = [threading.Thread(target=self._ask, args=(body,)) for body in bodies]
        for thread in self.threads:
            thread.start()

    def _ask(self, body):
        while not self.is_left.is_set():
            try:
                connection = http.client.HTTPConnection(self.host, timeout=600)
                connection.connect()
                self.sockets.append(connection.sock)
                post(connection, body, "k1")
            except (OSError, http.client.HTTPException):
                pass

    def leave(self):
        self.is_left.set()
        for one in self.sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
                one.close()
            except OSError:
                pass
        for thread in self.threads:
            thread.join()


def post(connection, body, key):
    connection.request("POST", "/v1/completions", json.dumps(body),
                       {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
    response = connection.getresponse()
    return response.status, response.read()


def seconds_of(host, body):
    connection = http.client.HTTPConnection(host, timeout=600)
    start = time.monotonic()
    status, answer = post(connection, body, "k2")
    seconds = time.monotonic() - start
    connection.close()
    assert status == 200, answer
    return seconds


def processor_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def show(name, seconds):
    print(f"{name:30} median {1e3 * statistics.median(seconds):7.1f} ms, "
          f"longest {1e3 * max(seconds):7.1f} ms, of {len(seconds)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    parser.add_argument("--serve", nargs=argparse.REMAINDER, default=[],
                        help="more arguments for fathom serve; the last option")
    options = parser.parse_args()
    server = FathomServer("--api-key", "k1", "--api-key", "k2", "--log-requests", "off",
                          *options.serve)
    host = urllib.parse.urlsplit(server.url).netloc
    failed = False
    try:
        for body in (FORM, FREE):
            seconds_of(host, body)
        kinds = {"alone": []}
        for n in (2, 8):
            kinds[f"{n} heavy masks"] = [mask(i) for i in range(n)]
        for n in (8, 60):
            kinds[f"{n} heavy schemas"] = [schema(i) for i in range(n)]
        for name, bodies in kinds.items():
            clients = Clients(host, bodies)
            time.sleep(0.5)
            forms, free = [], []
            end = time.monotonic() + options.seconds
            while time.monotonic() < end:
                forms.append(seconds_of(host, FORM))
                free.append(seconds_of(host, FREE))
            clients.leave()
            show(f"{name}: form", forms)
            show(f"{name}: free", free)
            time.sleep(0.5)
            before = processor_seconds(server.process.pid)
            time.sleep(1)
            used = processor_seconds(server.process.pid) - before
            print(f"{name + ': left':30} {used:.2f} processors, "
                  f"{server.resident_bytes() >> 20} MiB")
            failed = failed or max(forms) >= LONGEST or used >= IDLE
        print(f"{metric(server.url, 'fathom_constraint_slow_masks_total'):.0f} slow masks")
    finally:
        code = server.stop()
        server.kill()
    return 1 if failed or code != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
