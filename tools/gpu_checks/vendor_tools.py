"""The steps that need programs of NVIDIA: ncu and compute-sanitizer."""

import csv
import io
import os
import re
import shutil

from .benches import make_slice
from .bits import SMOKE, filter_of
from .context import Skip
from .programs import has_time, need_device

MIB = 1 << 20
MOST_OF_REPORT = 16 * MIB
SECTIONS = ["SpeedOfLight", "MemoryWorkloadAnalysis", "WarpStateStats", "Occupancy"]
# Kernels, and how many of their launches come before: the second LinearFp8Row of a layer is wq_b's.
KERNELS = {"LinearFp8Row": 1, "ExpertHidden": 0, "AttentionScores": 0, "AttentionValues": 0,
           "HcPre": 0}
NCU_ROW = "tg2@4096"
LEAST_OF_KERNEL = 5  # seconds
SANITIZED_LAYERS = "OnDevice/GpuLayers*flash_mini*"


def find_tool(context, name):
    """The path of a program of the vendor, beside which the machine's own libraries are used."""
    if context.backend != "cuda":
        raise Skip(f"{name} is for CUDA, and the device is {context.options.device}")
    found = shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")
    if not found:
        raise Skip(f"{name} is not on this machine")
    return found


def under(context, tool, program):
    """The command and the environment: the tool has the machine's libraries, the program the
    bundle's."""
    libraries = f"LD_LIBRARY_PATH={context.environment['LD_LIBRARY_PATH']}"
    return ([*tool, "/usr/bin/env", libraries, *program],
            {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")})


def refusal(done):
    """Why a tool could not work on this machine: its sentence, or nothing."""
    found = re.search(r"^.*(ERR_NVGPUCTRPERM|not supported|Failed to initialize|"
                      r"No kernels were profiled|permission).*$",
                      done.out + "\n" + done.error, re.M)
    return found.group(0).strip(" =") if found else ""


def figures_of(text):
    """The figures of one launch by section, from ncu's table: {section: {name: "value unit"}}."""
    begin = text.find('"ID"')
    figures = {}
    for row in csv.DictReader(io.StringIO(text[begin:] if begin >= 0 else "")):
        if row.get("Metric Name"):
            value = f"{row['Metric Value']} {row['Metric Unit']}".strip()
            figures.setdefault(row["Section Name"], {})[row["Metric Name"]] = value
            figures["grid"] = row.get("Grid Size", "")
    return figures


def profile_kernel(context, ncu, kernel, skipped):
    """Profiles one launch: its figures, and the report beside the results."""
    report = context.work / f"{kernel}.ncu-rep"  # ncu adds the ending
    arguments, environment = under(
        context,
        [ncu, "-k", f"regex:^{kernel}$", "--launch-skip", skipped, "--launch-count", "1",
         "--kill", "yes", "--clock-control", "none", "--target-processes", "all", "--export",
         report.with_suffix(""), *[word for section in SECTIONS for word in ("--section", section)]],
        [context.program("fathom"), "bench", "--model", make_slice(context), "--rows", NCU_ROW,
         "--reps", "1", "--bandwidth-mib", "16", *context.on_device()])
    # Kernels of a graph are not single launches.
    done = context.command(arguments, environment={**environment, "FATHOM_GPU_GRAPHS": "0"})
    if not report.exists():
        return {"not_run": refusal(done) or done.failure() or "ncu wrote no report"}
    result = {"seconds": round(done.seconds, 3)}
    read = context.command([ncu, "--import", report, "--page", "details", "--csv"],
                           environment=environment)
    result["figures"] = figures_of(read.out)
    size = report.stat().st_size
    if size > MOST_OF_REPORT:
        result["report"] = f"left out: {size / MIB:.1f} MiB, more than {MOST_OF_REPORT / MIB:.0f}"
    else:
        result["report"] = report.name
        shutil.move(str(report), str(context.options.out.parent / report.name))
    return result


def ncu(context, result):
    """One launch of each of the kernels in which decoding spends its time."""
    tool = find_tool(context, "ncu")
    need_device(context)
    make_slice(context)
    for kernel, skipped in KERNELS.items():
        if not has_time(context, result, kernel, LEAST_OF_KERNEL):
            continue
        entry = profile_kernel(context, tool, kernel, skipped)
        result.setdefault("kernels", {})[kernel] = entry
        context.keep()
        if "not_run" in entry and len(result["kernels"]) == 1:
            raise Skip(f"ncu: {entry['not_run']}")


def sanitize(tool):
    """Returns the step of one tool of compute-sanitizer, on layers of a model."""
    def run(context, result):
        sanitizer = find_tool(context, "compute-sanitizer")
        need_device(context)
        program, tests = "gpu_test", SANITIZED_LAYERS
        extra = {}
        if not context.model("flash-mini"):
            # Arrays that lie apart, or a kernel's step beyond one's end is not seen.
            program, tests, extra = "kernels_test", filter_of(SMOKE), {"FATHOM_TEST_SEPARATE": "1"}
            result["tests_of"] = "operations, since the bundle has no flash-mini"
        arguments, environment = under(
            context,
            [sanitizer, "--tool", tool, "--target-processes", "all", "--error-exitcode", "9"],
            [context.program(program), f"--gtest_filter={tests}", "--gtest_color=no"])
        done = context.command(arguments, environment={**environment, **extra})
        result["passed"] = len(re.findall(r"^\[       OK \]", done.out, re.M))
        summary = re.findall(r"^=+ (ERROR SUMMARY.*|RACECHECK SUMMARY.*)$", done.out, re.M)
        if summary:
            result["summary"] = summary[-1]
        if done.code is None:
            result["not_run"] = [f"{tool} beyond its {done.seconds:.0f} seconds"]
        elif done.code != 0:
            refused = refusal(done)
            if refused and not summary:
                raise Skip(f"compute-sanitizer: {refused}")
            result["failures"] = [f"compute-sanitizer {tool}: {done.failure()[-1500:]}"]
    return run
