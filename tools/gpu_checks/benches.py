"""The steps that measure: a slice of Flash, by rows."""

from .context import Skip
from .programs import bench, has_time, need_device

ROWS = ["tg64", "tg32@4096", "tg16x4", "tg16x16", "pp512", "pp4096"]
# The rows for which a device that a processor emulates has time.
QUICK_ROWS = ["tg1@64", "tg1x2", "pp1"]
# Seconds in which a process loads the weights and measures a row.
LEAST_OF_ROW = 10
# Seconds for single rows, if the process with all rows fails or does not end.
FOR_SINGLE_ROWS = 30

# Runs of `fathom bench`: rows and options.
EXPERIMENTS = {
    "chunks": [("pp4096", "--reps", "2", "--chunk", str(n)) for n in (64, 128, 256, 512, 1024, 4096)],
    "depths": [(f"tg16@{n}", "--reps", "2") for n in (1024, 4096, 16384, 65536)],
    "batches": [(f"tg16x{n}", "--reps", "2") for n in (1, 2, 3, 4, 8, 16, 32, 64)],
}


def make_slice(context):
    """Layers of Flash with random weights, made here: two, or the smallest one that there is."""
    folder = context.work / "slice"
    if (folder / "config.json").exists():
        return folder
    layers, experts = ("4", "6") if context.quick else ("4,128", "64")
    done = context.command([context.program("fathom"), "make-slice", "--shape", "flash", "--layers",
                            layers, "--experts", experts, "--out", folder])
    if done.code != 0:
        raise Skip(f"fathom make-slice: {done.failure()}")
    return folder


def bench_rows(context, result, rows, *more, limit=None, environment=None):
    """Adds the rows of `fathom bench` on the slice to result["rows"]."""
    report = bench(context, result, make_slice(context), ",".join(rows), *more, limit=limit,
                   environment=environment)
    if report is not None:
        result["name"] = report["device"]
        result["ceilings"] = report["roofline"]
        result["best_ceilings"] = report["roofline_best"]
        for row in report["rows"]:
            result.setdefault("rows", {})[row["name"]] = row
    context.keep()
    return report is not None


def benches(context, result):
    """Rows of a slice, and each kernel's share of the bandwidth that was measured beside them."""
    need_device(context)
    make_slice(context)
    rows, repetitions = (QUICK_ROWS, "1") if context.quick else (ROWS, "3")
    if context.quick:
        result["quick"] = "one layer with 6 experts, few tokens"
    limit = max(context.left() - FOR_SINGLE_ROWS, context.left() / 2)
    if not bench_rows(context, result, rows, "--profile", "--reps", repetitions, limit=limit):
        # Without the profile, which may be what fails: the speeds count most.
        for row in rows:
            if has_time(context, result, row, LEAST_OF_ROW):
                bench_rows(context, result, [row], "--reps", repetitions)
    if has_time(context, result, f"{rows[0]} without graphs", LEAST_OF_ROW):
        bench_rows(context, result.setdefault("without_graphs", {}), [rows[0]], "--profile",
                   "--reps", repetitions, environment={"FATHOM_GPU_GRAPHS": "0"})
        result.setdefault("failures", []).extend(result["without_graphs"].pop("failures", []))


def experiment(context, result):
    """The one that the command line names."""
    need_device(context)
    make_slice(context)
    result["experiment"] = context.options.experiment
    for row, *arguments in EXPERIMENTS[context.options.experiment]:
        name = " ".join([row, *arguments])
        if has_time(context, result, name, LEAST_OF_ROW):
            part = result.setdefault("runs", {}).setdefault(name, {})
            bench_rows(context, part, [row], "--profile", *arguments)
            result.setdefault("failures", []).extend(part.get("failures", []))
