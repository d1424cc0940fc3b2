"""Servers for the tests that drive one from outside.

FATHOM_BUILD names the build folder (default: build/release of this project).
"""

import fcntl
import json
import os
import re
import subprocess
import tempfile
import termios
import threading
import time
import urllib.request
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("FATHOM_BUILD", PROJECT / "build" / "release"))


class ScriptedServer:
    """The real server with answers from a script (scripted_server.cc).

    scripts: {name: {"text": ..., ...}}; "default" answers what names no script.
    """

    def __init__(self, scripts, key=""):
        self._file = tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8")
        json.dump({"default": {"text": "</think>Hello."}, **scripts}, self._file)
        self._file.flush()
        self._process = subprocess.Popen(
            [BUILD / "scripted_server", self._file.name, *([key] if key else [])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def stop(self):
        self._process.stdin.close()
        code = self._process.wait(timeout=60)
        self._process.stdout.close()
        self._file.close()
        if code != 0:
            raise AssertionError(f"scripted_server ended with {code}")


class FathomServer:
    """`fathom serve` on a free port, with its log in memory.

    launch: the words before, which start it on several ranks.
    terminal: the descriptor of a terminal in which it runs, for Ctrl-C.
    environment: variables beside the ones of the test.
    stdout: the file that gets its output; default: the output of the test.
    """

    def __init__(self, *arguments, launch=(BUILD / "fathom",), terminal=None, environment=None,
                 stdout=None):
        in_terminal = {} if terminal is None else {
            "stdin": terminal, "start_new_session": True,
            "preexec_fn": lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)}
        self.process = subprocess.Popen(
            [*launch, "serve", "--log-format", "json", "--port", "0", *arguments],
            stdout=stdout, stderr=subprocess.PIPE, text=True,
            env=os.environ | (environment or {}), **in_terminal)
        self.log = []
        self._has_url = threading.Event()
        self.url = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._has_url.wait(timeout=120):
            self.kill()
            raise AssertionError("fathom serve did not start:\n" + "\n".join(self.log))
        if self.url is None:
            self.kill()
            raise AssertionError("fathom serve ended:\n" + "\n".join(self.log))

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))
            found = re.search(r"at (http://[^ ]+) ", line)
            if found:
                self.url = found.group(1)
                self._has_url.set()
        self._has_url.set()

    def events(self):
        """The lines of the log, which must all be JSON."""
        return [json.loads(line) for line in self.log]

    def resident_bytes(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) * 1024

    def stop(self, timeout=60):
        """Asks it to stop, and returns its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(timeout=timeout)
        self._reader.join(timeout=10)
        return code

    def kill(self):
        """For the end of a test, however it ended."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(timeout=10)
        self.process.stderr.close()


def get_json(url):
    with urllib.request.urlopen(url, timeout=30) as response:
        return json.load(response)


def metric(url, name):
    """The value of a metric without labels, or with those written in `name`."""
    with urllib.request.urlopen(url + "/metrics", timeout=30) as response:
        for line in response.read().decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
    raise AssertionError(f"no metric {name}")


def wait_until(condition, seconds=30):
    """Polls until it holds, and returns what it returned."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError("waited in vain")
        time.sleep(0.02)
