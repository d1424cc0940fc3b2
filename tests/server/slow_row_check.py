#!/usr/bin/env python3
"""Measures how much a row whose masks cost the most slows the other rows of its batch.

Seven free streams of the embedded model run alone, beside an eighth free one, and beside one that
is held to each of some grammars that are made to be slow; all in turn, several times, so that other
load on the machine meets all of them. Prints the time per token of the seven as multiples of the
time alone, and ends with 1 if a grammar doubles it (docs/spec/constrained.md 5.8).

  slow_row_check.py --rounds 7
"""

import argparse
import http.client
import json
import statistics
import sys
import threading
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

from server_process import FathomServer, metric

ROWS = 7
LETTERS = "[a-zA-Z ,.]"
MANY_RULES = "root ::= {}\n{}".format(
    " | ".join(f"r{i}" for i in range(400)),
    "\n".join(f'r{i} ::= {LETTERS}{{0,{500 + i}}} "#{i}"' for i in range(400)))
GRAMMARS = {
    # All ways to divide the text: a mask costs more with each token, up to the limit.
    "ambiguous": f"root ::= s\ns ::= s s | {LETTERS}",
    "nested": f'root ::= s\ns ::= "(" s ")" s | s s s | {LETTERS}+',
    # Four hundred rules are open all the time, and their states are new at every token.
    "many rules": MANY_RULES,
}


class Check:
    def __init__(self, server, tokens):
        self.host = urllib.parse.urlsplit(server.url).netloc
        self.tokens = tokens
        self.slow_tokens = 0
        self.errors = 0

    def post(self, body):
        connection = http.client.HTTPConnection(self.host, timeout=600)
        connection.request("POST", "/v1/completions", json.dumps(body),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return response.status, answer

    def free(self, number, tokens):
        status, answer = self.post({"prompt": f"Once upon a time {number}", "max_tokens": tokens,
                                    "ignore_eos": True, "seed": number})
        assert status == 200, answer

    def keep_busy(self, grammar, stop):
        """One row after the other, until it may stop."""
        number = 0
        while not stop.is_set():
            number += 1
            if grammar is None:
                self.free(1000 + number, self.tokens)
                continue
            status, answer = self.post({"prompt": "Once upon a time", "max_tokens": self.tokens,
                                        "grammar": grammar, "seed": number})
            if status == 200:
                self.slow_tokens += answer["usage"]["completion_tokens"]
            else:
                self.errors += 1

    def seconds_per_token(self, beside):
        """The time of the seven; `beside` may be a grammar, None for a free row, or False."""
        stop = threading.Event()
        other = threading.Thread(target=self.keep_busy, args=(beside, stop))
        if beside is not False:
            other.start()
            time.sleep(0.2)
        start = time.monotonic()
        with ThreadPoolExecutor(ROWS) as pool:
            list(pool.map(self.free, range(ROWS), [self.tokens] * ROWS))
        seconds = (time.monotonic() - start) / self.tokens
        stop.set()
        if beside is not False:
            other.join()
        return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--serve", nargs=argparse.REMAINDER, default=[],
                        help="more arguments for fathom serve; the last option")
    options = parser.parse_args()
    server = FathomServer("--max-sequences", str(ROWS + 1), "--log-requests", "off",
                          *options.serve)
    kinds = {"alone": False, "free": None, **GRAMMARS}
    found = {name: [] for name in kinds}
    try:
        check = Check(server, options.tokens)
        check.seconds_per_token(False)
        for _ in range(options.rounds):
            for name, beside in kinds.items():
                found[name].append(check.seconds_per_token(beside))
        print(f"the slow rows: {check.slow_tokens} tokens, {check.errors} errors, "
              f"{metric(server.url, 'fathom_constraint_late_masks_total'):.0f} late masks")
    finally:
        code = server.stop()
        server.kill()
    failed = code != 0
    for name, seconds in found.items():
        # The ratio of each round, so that a round in which the machine was busy counts like any other.
        ratio = statistics.median(now / alone for now, alone in zip(seconds, found["alone"]))
        print(f"{name:11} {1e3 * statistics.median(seconds):7.2f} ms per token, x {ratio:.2f}")
        failed = failed or ratio >= 2
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
