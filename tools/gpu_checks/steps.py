"""The steps. Each is a generator that fills its result and yields when a part of it is there;
`failures` lists what is wrong, a sentence each."""

import json
import os
import re
import shutil
from typing import Callable, NamedTuple

from .bundle import greedy_command, hash_of, logits_command

SANITIZERS = ["memcheck", "racecheck"]
SCHEDULES = 50
# How many of the schedules one command runs: what is done counts if a later one hangs.
SCHEDULES_AT_ONCE = 10
ROWS = ["tg64", "tg32@4096", "tg32x4", "tg32x16", "pp512", "pp4096"]
LEAST_OF_ROW = 10  # seconds: the weights are loaded for each


class Skip(Exception):
    """A step that cannot run, and why."""


class Step(NamedTuple):
    run: Callable
    limit: float  # seconds


def has_time(context, result, part, least=1):
    """Whether seconds are left for a part of a step; notes the part if not."""
    if context.left() >= least:
        return True
    result.setdefault("not_run", []).append(part)
    return False


def need_device(context):
    """Ends the step with the driver's sentence where the device cannot be used."""
    listed = context.command([context.program("fathom"), "devices"], limit=60)
    if listed.code != 0:
        raise Skip(f"fathom devices: {listed.failure()}")
    lines = listed.out.splitlines()
    name = f"{context.backend} {context.number} "
    line = next((one for one in lines if one.startswith(name)), None)
    if line is None:
        line = next((one for one in lines if one.startswith(context.backend + " ")),
                    f"fathom devices lists no {context.backend}")
        raise Skip(line)
    if "not used:" in line:
        raise Skip(line)
    return line


def gtest(context, arguments, environment=(), limit=None):
    """Runs a test program: {passed, failed, skipped, ...}, and its failures as sentences."""
    done = context.command([*arguments, "--gtest_color=no"], limit, environment)
    ended = {verdict: re.findall(rf"^\[ *{verdict} *\] (\S+?)(?:,| \(|$)", done.out, re.M)
             for verdict in ("OK", "FAILED", "SKIPPED")}
    failed = sorted(set(ended["FAILED"]))
    result = {"passed": len(set(ended["OK"])), "failed": failed,
              "skipped": len(set(ended["SKIPPED"])), "seconds": round(done.seconds, 3)}
    failures = []
    if failed:
        # Shows what the first one expected and found.
        text = done.out.split(f"[  FAILED  ] {failed[0]}")[0].split(f"[ RUN      ] {failed[0]}")[-1]
        failures.append(f"{len(failed)} tests, first {failed[0]}: {text.strip()[:1500]}")
    elif done.code != 0:
        began = re.findall(r"^\[ RUN      \] (\S+)", done.out, re.M)
        where = f" in {began[-1]}" if began else ""
        failures.append(f"{arguments[0].rsplit('/', 1)[-1]}{where}: {done.failure()}")
    if not failed and not result["passed"] and result["skipped"]:
        reason = re.search(r"Skipped\n(.*)", done.out)
        raise Skip(reason.group(1).strip() if reason else "all tests were skipped")
    if not failures and not result["passed"]:
        failures.append("expected tests, found none")
    return result, failures


def bench(context, model, rows, *more, limit=None):
    """Returns the report of `fathom bench` on the device, or the sentence of its error."""
    done = context.command(
        [context.program("fathom"), "bench", "--model", model, "--rows", rows, "--json",
         "--bandwidth-mib", str(context.options.bandwidth_mib), *context.on_device(), *more], limit)
    if done.code != 0:
        return None, f"fathom bench --rows {rows}: {done.failure()}"
    return json.loads(done.out), ""


def any_model(context):
    for name in ("flash-mini", "fairy", "base-mini", "pro-mini"):
        if context.model(name):
            return context.model(name)
    raise Skip("expected a checkpoint in the bundle or in the tree, found none")


def probe(context, result):
    """Reports the device and its limits."""
    result["fathom_device"] = need_device(context)
    yield
    smi = shutil.which("nvidia-smi")
    if smi and context.backend == "cuda":
        fields = ["name", "driver_version", "clocks.sm", "clocks.max.sm", "clocks.mem",
                  "clocks.max.mem", "power.limit", "temperature.gpu", "pcie.link.gen.current",
                  "pcie.link.width.current"]
        asked = context.command([smi, f"--query-gpu={','.join(fields)}", "--format=csv,noheader",
                                 "-i", context.number], limit=30)
        if asked.code == 0:
            result["nvidia_smi"] = dict(zip(fields, (one.strip() for one in asked.out.split(","))))
        yield
    report, failure = bench(context, any_model(context), "tg1", "--reps", "3")
    if failure:
        result["failures"] = [failure]
    else:
        result["name"] = report["device"]
        result["ceilings"] = report["roofline"]
        result["best_ceilings"] = report["roofline_best"]
    yield


def arithmetic(context, result):
    """Compares the sums of the matrix units with the model of the design."""
    program = context.program("arithmetic_probe")
    need_device(context)
    done = context.command([program, "--device", context.number])
    for line in done.out.splitlines():
        one = json.loads(line)
        result.setdefault("instructions", []).append(one)
        if "mismatch" in one:
            result.setdefault("failures", []).append(f"{one['name']}: {one['mismatch']}")
    if done.code != 0:
        result.setdefault("failures", []).append(f"arithmetic_probe: {done.failure()}")
    elif not result.get("instructions"):
        raise Skip("the device has no matrix units that arithmetic_probe knows")
    yield


def conformance(context, result):
    """Every operation against the reference, by bytes."""
    program = context.program("kernels_test")
    need_device(context)
    result["failures"] = []
    arguments = [program, "--gtest_filter=*Conformance*/device"]
    result["tests"], failures = gtest(context, arguments, limit=200)
    result["failures"] += failures
    yield
    sanitizer = shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path="/usr/local/cuda/bin")
    if context.backend != "cuda" or not sanitizer:
        result["sanitizers"] = "compute-sanitizer is not on this machine"
        return
    result["sanitizers"] = {}
    for tool in SANITIZERS:
        part = context.left() / (len(SANITIZERS) - len(result["sanitizers"]))
        # The tool runs with the machine's libraries, the program with the bundle's.
        libraries = f"LD_LIBRARY_PATH={context.environment['LD_LIBRARY_PATH']}"
        done = context.command(
            [sanitizer, "--tool", tool, "--target-processes", "all", "--error-exitcode", "9",
             "/usr/bin/env", libraries, *arguments],
            part, {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}.items())
        tests = len(re.findall(r"^\[       OK \]", done.out, re.M))
        refused = re.search(r"(Device not supported.*|Failed to initialize.*)",
                            done.out + done.error)
        entry = {"tests": tests, "seconds": round(done.seconds, 3)}
        summary = re.findall(r"^=+ (ERROR SUMMARY.*|RACECHECK SUMMARY.*)$", done.out, re.M)
        if summary:
            entry["summary"] = summary[-1]
        if refused:
            entry["not_run"] = refused.group(1)
        elif done.code is None:
            entry["ended_at_its_limit"] = True
        elif done.code != 0:
            result["failures"].append(f"compute-sanitizer {tool}: {done.failure()[-1500:]}")
        result["sanitizers"][tool] = entry
        yield


def compare_logits(context, result):
    """The logits of `fathom logits` here against those of the CPU of the build machine."""
    for name, expected in context.manifest["expected"].items():
        model = context.model(name)
        if not model or not has_time(context, result, f"logits of {name}"):
            continue
        entry = result.setdefault("logits", {}).setdefault(name, {})
        out = context.work / f"{name}.logits"
        done = context.command(
            [*logits_command(context.program("fathom"), model, out), *context.on_device()])
        if done.code != 0:
            result["failures"].append(f"{name}: fathom logits: {done.failure()}")
        else:
            entry["same_as_cpu"] = hash_of(out) == expected["logits_sha256"]
            if not entry["same_as_cpu"]:
                result["failures"].append(f"{name}: logits differ from the CPU's")
        yield


def greedy(context, result):
    """A greedy text of the embedded model against the CPU's."""
    expected = context.manifest["expected"].get("fairy", {}).get("greedy")
    if expected is None or not context.model("fairy"):
        return
    if not has_time(context, result, "greedy text"):
        return
    done = context.command([*greedy_command(context.program("fathom"), context.model("fairy")),
                            *context.on_device()])
    if done.code != 0:
        result["failures"].append(f"fathom generate: {done.failure()}")
    else:
        result["greedy_same_as_cpu"] = done.out == expected
        if done.out != expected:
            result["failures"].append(f"the greedy text: expected {expected!r}, found {done.out!r}")
    yield


def goldens(context, result):
    """Whole models: layers, logits, texts, and requests at once."""
    program = context.program("gpu_test")
    need_device(context)
    result["failures"] = []
    result["models"], failures = gtest(
        context, [program, "--gtest_filter=OnDevice*:-*Schedules*"], limit=120)
    result["failures"] += failures
    yield
    yield from compare_logits(context, result)
    yield from greedy(context, result)
    done = 0
    while done < SCHEDULES and has_time(context, result, f"schedules from {done}"):
        seeds = f"{done},{SCHEDULES_AT_ONCE}"
        tests, failures = gtest(context, [program, "--gtest_filter=OnDevice*Schedules*"],
                                {"FATHOM_SCHEDULES": seeds}.items())
        if failures:
            result["failures"] += [f"schedules {seeds}: {one}" for one in failures]
            break
        done += SCHEDULES_AT_ONCE if tests["passed"] else 0
        result["schedules"] = done
        yield


def make_slice(context):
    """Two layers of Flash with random weights, made here."""
    folder = context.work / "slice"
    if folder.exists():
        return folder
    done = context.command([context.program("fathom"), "make-slice", "--shape", "flash", "--layers",
                            "4,128", "--experts", "64", "--out", folder])
    if done.code != 0:
        raise Skip(f"fathom make-slice: {done.failure()}")
    return folder


def bench_rows(context, result, rows, *more):
    """Adds the rows of `fathom bench --profile` on the slice to result["rows"]."""
    report, failure = bench(context, make_slice(context), rows, "--profile", *more)
    if failure:
        result.setdefault("failures", []).append(failure)
        return
    result["name"] = report["device"]
    result["ceilings"] = report["roofline"]
    for row in report["rows"]:
        row["roofline"] = report["roofline"]
        result.setdefault("rows", {})[row["name"]] = row


def benches(context, result):
    """Rows of a slice, and each kernel's share of the bandwidth that was measured beside them."""
    need_device(context)
    make_slice(context)
    for row in ROWS:
        if has_time(context, result, row, LEAST_OF_ROW):
            bench_rows(context, result, row, "--reps", "3")
            yield


def experiment(context, result):
    """The one that the command line names."""
    need_device(context)
    make_slice(context)
    result["experiment"] = context.options.experiment
    for arguments in EXPERIMENTS[context.options.experiment]:
        if not has_time(context, result, " ".join(arguments), LEAST_OF_ROW):
            continue
        part = result.setdefault("runs", {}).setdefault(" ".join(arguments), {})
        bench_rows(context, part, *arguments)
        result.setdefault("failures", []).extend(part.get("failures", []))
        yield


# Runs of `fathom bench`: rows and options.
EXPERIMENTS = {
    "chunks": [("pp4096", "--reps", "2", "--chunk", str(n)) for n in (64, 128, 256, 512, 1024, 4096)],
    "depths": [(f"tg16@{n}", "--reps", "2") for n in (1024, 4096, 16384, 65536)],
    "batches": [(f"tg16x{n}", "--reps", "2") for n in (1, 2, 3, 4, 8, 16, 32, 64)],
}

STEPS = {
    "probe": Step(probe, 60),
    "arithmetic": Step(arithmetic, 120),
    "conformance": Step(conformance, 300),
    "goldens": Step(goldens, 240),
    "benches": Step(benches, 420),
    "experiment": Step(experiment, 300),
}
