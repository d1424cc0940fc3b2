"""Runs the steps of a bundle within the minutes, and writes the results as they come."""

import json
import os
import platform
import shutil
import signal
import sys
import tarfile
import tempfile
import textwrap
import time
import traceback
from pathlib import Path

from .context import Context, Report, Skip
from .plan import STEPS, divide

MOST_OF_SENTENCE = 300  # characters that are printed; the file has all


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
    context.begin(30)
    started = context.command([context.program("fathom"), "--version"])
    if started.code != 0:
        context.use_libraries("lib", "runtime")
        started = context.command([context.program("fathom"), "--version"])
    return started.failure()


def run_step(run, context, result, report):
    """Runs a step; `result` ends with its status."""
    start = time.monotonic()

    def keep():
        result["seconds"] = round(time.monotonic() - start, 3)
        report.write()

    context.keep = keep
    result["status"] = "running"
    keep()
    try:
        run(context, result)
        result["status"] = "failed" if result.get("failures") else "passed"
    except Skip as skip:
        # A step that failed before it found that it cannot go on has failed.
        result["status"] = "failed" if result.get("failures") else "skipped"
        result["reason"] = str(skip)
    except Exception:  # of this tool: the other steps go on
        result["status"] = "crashed"
        result["reason"] = traceback.format_exc(limit=-3)
    keep()


def tell(name, result):
    sentences = [*result.get("failures", []), result.get("reason", ""),
                 result.get("with_sync", {}).get("said", "")]
    reason = "; ".join(textwrap.shorten(one, MOST_OF_SENTENCE) for one in sentences if one)
    print(f"{name:<12} {result['status']:<8} {result.get('seconds', 0):6.1f} s"
          f"{': ' + reason if reason else ''}", flush=True)


def run_steps(context, report):
    """Runs the steps that fit into the time, by their order; what one does not need is the next
    one's, and steps that did not fit are looked at again after each."""
    results = report.content["steps"]
    waiting = {name: STEPS[name] for name in context.options.step}
    if not context.options.plan:  # asked for by name: run, however little time there is
        waiting = {name: step._replace(least=min(1, step.least)) for name, step in waiting.items()}
    shares, _ = divide(waiting, context.end - time.monotonic())
    plan = {"name": context.options.plan, "minutes": context.options.minutes,
            "seconds": {name: round(share) for name, share in shares.items()}}
    report.content["plan"] = plan
    while waiting:
        left = context.end - time.monotonic()
        shares, spare = divide(waiting, left)
        plan["left_out"] = [name for name in waiting if name not in shares]
        name = next(iter(shares), None)
        if name is None:
            break
        # A step that needs more than it should have takes what no other one needs.
        context.begin(shares[name] + spare)
        run_step(waiting.pop(name).run, context, results.setdefault(name, {}), report)
        tell(name, results[name])
    for name, step in waiting.items():
        results[name] = {"status": "skipped",
                         "reason": f"left out: of {context.options.minutes:g} minutes {left:.0f} "
                                   f"seconds were left, and it needs {step.least:g}"}
        tell(name, results[name])


def check(options, folder, report, end):
    """Runs what the options ask for; returns why nothing can be run, or nothing."""
    manifest_file = folder / "manifest.json"
    if not manifest_file.exists():
        return f"{folder}: expected a bundle (gpu_check --bundle DIR), found none"
    manifest = json.loads(manifest_file.read_text())
    for name in ("commit", "changed", "quick"):
        report.content[name] = manifest[name]
    report.write()
    if not options.device.startswith(manifest["vendor"] + ":"):
        return (f"expected a device of {manifest['vendor']}, which the bundle is for, found "
                f"{options.device}")
    work = Path(tempfile.mkdtemp(prefix="gpu_check_"))
    try:
        start = time.monotonic()
        unpack(folder, work)
        report.content["unpacked_s"] = round(time.monotonic() - start, 3)
        context = Context(options, folder, work, manifest)
        context.end = end
        obstacle = ready(context)
        if obstacle:
            return f"the programs do not start: {obstacle}"
        run_steps(context, report)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return ""


def run(options, folder):
    end = time.monotonic() + 60 * options.minutes
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # with the commands, and what was unpacked
    report = Report(options.out)
    report.content = {"device": options.device, "finished": False, "steps": {},
                      "machine": {"system": platform.platform(),
                                  "libc": " ".join(platform.libc_ver()),
                                  "processors": os.cpu_count()}}
    report.write()
    obstacle = check(options, folder, report, end)
    if obstacle:
        report.content["obstacle"] = obstacle
        print(f"gpu_check: {obstacle}")
    report.content["finished"] = True
    report.write()
    bad = [one for one in report.content["steps"].values() if one["status"] in ("failed", "crashed")]
    return 1 if bad or obstacle else 0
