"""The inputs of the steps: the bundle, the device, commands that end, and the time left."""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import tempfile
import time

TAIL = 4000  # characters of output that are kept of a command that failed
KILLED_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl
C_LIBRARY = ctypes.CDLL(None)


class Skip(Exception):
    """A step that cannot run, and why."""


class Report:
    """The results, in a file that is whole at every moment."""

    def __init__(self, path):
        self.path = path
        self.content = {}

    def write(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_name(self.path.name + ".new")
        new.write_text(json.dumps(self.content, indent=2) + "\n")
        os.replace(new, self.path)


class Command:
    """How a command ended: code is None where it ran past its limit."""

    def __init__(self, code, out, error, seconds):
        self.code = code
        self.out = out
        self.error = error
        self.seconds = seconds

    def failure(self):
        """Why it failed, in a sentence; empty if it did not."""
        if self.code is None:
            return f"ran past its limit of {self.seconds:.0f} seconds"
        if self.code < 0:
            return f"ended by signal {-self.code} ({signal.Signals(-self.code).name})"
        if self.code > 0:
            return (self.error.strip() or self.out.strip())[-TAIL:] or f"exit code {self.code}"
        return ""


class Context:
    """The inputs of the steps: the unpacked bundle, the device, and the time that is left."""

    def __init__(self, options, folder, work, manifest):
        self.options = options
        self.folder = folder
        self.work = work
        self.manifest = manifest
        self.backend, _, self.number = options.device.partition(":")
        self.quick = manifest["quick"]
        self.end = 0.0  # of everything
        self.deadline = 0.0  # of the step
        self.keep = lambda: None  # writes what the step has so far
        self.device = ""  # the line of `fathom devices`, once it was asked
        self.passed = []  # conformance tests, as far as other steps need not repeat them
        self.has_text = False  # a greedy text was that of the CPU
        self.environment = dict(os.environ)
        # Where CI is set, tests fail without golden data; a bundle has what it has room for.
        self.environment.pop("CI", None)
        self.environment["FATHOM_TEST_GPU"] = options.device
        self.environment["FATHOM_SOURCE_DIR"] = str(self.project())
        self.environment["FATHOM_SHARED_DIR"] = str(work / "shared")
        self.use_libraries("lib")

    def project(self):
        """The folder with models/fairy: the bundle's own, or the tree in which the bundle lies."""
        for folder in (self.work, *self.folder.resolve().parents):
            if (folder / "models" / "fairy" / "config.json").exists():
                return folder
        return self.work

    def use_libraries(self, *folders):
        own = [str(self.work / folder) for folder in folders]
        others = os.environ.get("LD_LIBRARY_PATH")
        self.environment["LD_LIBRARY_PATH"] = ":".join(own + ([others] if others else []))

    def program(self, name):
        path = self.work / "bin" / name
        if not path.exists():
            raise Skip(f"the bundle has no {name}")
        return str(path)

    def model(self, name):
        """The folder of a checkpoint, or None."""
        folder = (self.project() / "models" / "fairy" if name == "fairy" else
                  self.work / "shared" / "oracle" / name)
        return folder if (folder / "config.json").exists() else None

    def on_device(self):
        return ["--backend", self.backend, "--device", self.number]

    def left(self):
        return max(0.0, self.deadline - time.monotonic())

    def begin(self, seconds):
        """Begins something that may take so long, but not beyond the end of everything."""
        self.deadline = min(self.end, time.monotonic() + seconds)

    def command(self, arguments, limit=None, environment=None):
        """Runs a command, ended with all it started when its limit or the step's is over."""
        limit = min(self.left(), limit or self.left())
        start = time.monotonic()
        with output_file() as out, output_file() as error:
            process = subprocess.Popen(
                [str(one) for one in arguments], stdout=out, stderr=error,
                stdin=subprocess.DEVNULL, cwd=self.work, start_new_session=True,
                preexec_fn=end_with_parent, env={**self.environment, **(environment or {})})
            try:
                code = process.wait(timeout=max(limit, 0.1))
            except subprocess.TimeoutExpired:
                code = None
            except BaseException:
                end_group(process)
                raise
            end_group(process)
            out.seek(0)
            error.seek(0)
            return Command(code, out.read(), error.read(), time.monotonic() - start)


def output_file():
    return tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")


def end_with_parent():
    """A command must not use the device any longer when this tool was killed."""
    C_LIBRARY.prctl(KILLED_WITH_PARENT, signal.SIGKILL)


def end_group(process):
    """Ends the command's process group; what it left running as well."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10)  # a process that waits for a lost device may not end
