"""Replicas behind nginx, with the configuration that is shipped (deploy/nginx.conf)."""

import json
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

from server_process import PROJECT, FathomServer, get_json, metric, wait_until

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(url, session, n_tokens=4, **more):
    body = {"prompt": "Once upon a time there was " * 60, "max_tokens": n_tokens, "seed": 1,
            "ignore_eos": True, **more}
    request = urllib.request.Request(
        url + "/v1/completions", json.dumps(body).encode(),
        {"Content-Type": "application/json", "X-Session-Id": session})
    return urllib.request.urlopen(request, timeout=60)


@unittest.skipUnless(NGINX, "nginx is not installed")
class ReplicasTest(unittest.TestCase):
    def setUp(self):
        self.replicas = [FathomServer("--threads", "1") for _ in range(2)]
        for replica in self.replicas:
            self.addCleanup(replica.kill)
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        port = free_port()
        text = (PROJECT / "deploy" / "nginx.conf").read_text()
        for number, replica in zip((8000, 8001), self.replicas):
            text = text.replace(f"127.0.0.1:{number}", replica.url.removeprefix("http://"))
        text = text.replace("127.0.0.1:8080", f"127.0.0.1:{port}")
        text = re.sub(r"pid .*;", f"pid {self.folder.name}/pid;", text)
        config = Path(self.folder.name, "nginx.conf")
        config.write_text(text)
        self.nginx = subprocess.Popen(
            [NGINX, "-p", self.folder.name, "-c", config, "-g", "daemon off; user root;"])
        self.addCleanup(self.nginx.wait)
        self.addCleanup(self.nginx.terminate)
        self.url = f"http://127.0.0.1:{port}"

        def is_up():
            try:
                return get_json(self.url + "/health")
            except OSError:
                return False
        wait_until(is_up)

    def generated(self):
        return [self.tokens(replica, "generated") for replica in self.replicas]

    def tokens(self, replica, kind):
        return metric(replica.url, f'fathom_tokens_total{{kind="{kind}"}}')

    def test_a_conversation_stays_where_its_prefix_is(self):
        for session in range(12):
            before = self.generated()
            cached = [self.tokens(replica, "cached") for replica in self.replicas]
            for _ in range(3):
                ask(self.url, f"session {session}").read()
            added = [after - b for after, b in zip(self.generated(), before)]
            self.assertEqual(sorted(added), [0, 12], session)
            chosen = added.index(12)
            self.assertGreaterEqual(self.tokens(self.replicas[chosen], "cached"),
                                    cached[chosen] + 2 * 128)
        self.assertTrue(all(self.generated()), "both replicas have conversations")

    def test_tokens_come_as_they_are_made(self):
        with ask(self.url, "a", n_tokens=400, stream=True) as response:
            times = [time.monotonic() for line in response if line.startswith(b"data: ")]
        self.assertEqual(len(times), 401)  # and [DONE]
        self.assertGreater(times[-1] - times[0], 0.05)

    def test_another_takes_over(self):
        before = self.generated()
        ask(self.url, "b").read()
        chosen = 0 if self.generated()[0] > before[0] else 1
        self.replicas[chosen].kill()
        other = self.replicas[1 - chosen]
        for _ in range(3):
            answer = json.load(ask(self.url, "b"))
            self.assertEqual(answer["usage"]["completion_tokens"], 4)
        self.assertEqual(self.tokens(other, "generated"), 12)


if __name__ == "__main__":
    unittest.main()
