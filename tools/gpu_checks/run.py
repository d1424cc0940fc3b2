"""Runs the steps of a bundle, each under its own limit, and writes the results as they come."""

import contextlib
import json
import os
import platform
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import traceback
from pathlib import Path

from .steps import STEPS, Skip

TAIL = 4000  # characters of output that are kept of a command that failed


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
        self.deadline = 0.0  # of the step
        self.environment = dict(os.environ)
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

    def command(self, arguments, limit=None, environment=()):
        """Runs a command, ended with all it started when its limit or the step's is over."""
        limit = min(self.left(), limit or self.left())
        start = time.monotonic()
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as error:
            process = subprocess.Popen(
                [str(one) for one in arguments], stdout=out, stderr=error,
                stdin=subprocess.DEVNULL, cwd=self.work, start_new_session=True,
                env={**self.environment, **dict(environment)})
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


def end_group(process):
    """Ends the command's process group; what it left running as well."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10)  # a process that waits for a lost device may not end


def unpack(folder, work):
    for archive in sorted(folder.glob("*.tar.xz")):
        with tarfile.open(archive) as tar:
            if hasattr(tarfile, "data_filter"):
                tar.extractall(work, filter="data")
            else:
                tar.extractall(work)
    (work / "shared").mkdir(exist_ok=True)


def ready(context):
    """Finds the libraries with which the programs start. Returns why they do not, or nothing."""
    context.deadline = time.monotonic() + 60
    started = context.command([context.program("fathom"), "--version"])
    if started.code != 0:
        context.use_libraries("lib", "runtime")
        started = context.command([context.program("fathom"), "--version"])
    return started.failure()


def run_step(step, context, result, report):
    """Runs a step; `result` ends with its status."""
    start = time.monotonic()

    def keep():
        result["seconds"] = round(time.monotonic() - start, 3)
        report.write()

    try:
        for _ in step.run(context, result):
            keep()
        result["status"] = "failed" if result.get("failures") else "passed"
    except Skip as skip:
        result["status"] = "skipped"
        result["reason"] = str(skip)
    except Exception:  # of this tool: the other steps go on
        result["status"] = "crashed"
        result["reason"] = traceback.format_exc(limit=-3)
    keep()


def run(options, folder):
    begin = time.monotonic()
    report = Report(options.out)
    report.content["machine"] = {"system": platform.platform(), "libc": " ".join(platform.libc_ver()),
                                 "processors": os.cpu_count()}
    report.content["device"] = options.device
    manifest_file = folder / "manifest.json"
    if not manifest_file.exists():
        print(f"gpu_check: {folder}: expected a bundle (gpu_check --bundle DIR), found none")
        return 1
    manifest = json.loads(manifest_file.read_text())
    report.content["commit"] = manifest["commit"]
    report.content["changed"] = manifest["changed"]
    report.content["steps"] = {}
    report.write()
    work = Path(tempfile.mkdtemp(prefix="gpu_check_"))
    try:
        unpack(folder, work)
        context = Context(options, folder, work, manifest)
        obstacle = ready(context)
        for name in options.step:
            result = report.content["steps"].setdefault(name, {})
            left = options.minutes * 60 - (time.monotonic() - begin)
            context.deadline = time.monotonic() + min(STEPS[name].limit, left)
            if obstacle:
                result.update(status="skipped", reason=f"the programs do not start: {obstacle}")
            elif left < 1:
                result.update(status="skipped", reason=f"{options.minutes:g} minutes were over")
            else:
                result["status"] = "running"
                report.write()
                run_step(STEPS[name], context, result, report)
            reason = result.get("reason") or "; ".join(result.get("failures", []))
            print(f"{name:<12} {result['status']}{': ' + reason if reason else ''}", flush=True)
            report.write()
    finally:
        shutil.rmtree(work, ignore_errors=True)
    bad = [name for name in options.step
           if report.content["steps"][name]["status"] in ("failed", "crashed")]
    return 1 if bad else 0
