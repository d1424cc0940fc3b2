"""The steps that compare bits: operations, layers, logits, texts, requests at once."""

from .bundle import greedy_command, hash_of, logits_command
from .context import Skip
from .programs import attempt, gtest, has_time, need_device

# One test of each family of operations; a text then runs the ones of a whole step.
SMOKE = ["ConformanceRows.RmsNorm", "ConformanceLinear.Fp8", "ConformanceCache.AppendWindow",
         "ConformanceCompress.AllKinds", "ConformanceIndex.SelectRows",
         "ConformanceAttention.AllLayerKinds"]
# The suites for which a device that a processor emulates has time.
QUICK = ["ConformanceRows.*", "ConformanceStep.*"]
SCHEDULES = 50
# How many of them one command runs at most: what is done counts if a later one hangs. From ten on,
# the test also expects that all that may happen has happened.
SCHEDULES_AT_ONCE = 9


def filter_of(names):
    return ":".join(f"*{name}/device" for name in names)


def conformance_tests(context, result, tests):
    ran = gtest(context, result, "kernels_test", tests)
    result["tests"] = {**ran, "passed": len(ran["passed"])}
    context.keep()
    return ran


def smoke(context, result):
    """Some operations and a text, which show within seconds whether anything is right."""
    need_device(context)
    ran = conformance_tests(context, result, filter_of(SMOKE))
    context.passed += [name for name in SMOKE
                       if any(f"{name}/device" in one for one in ran["passed"])]
    greedy(context, result)


def conformance(context, result):
    """Every operation against the reference, by bytes; without those that smoke has run."""
    need_device(context)
    if context.quick:
        result["quick"] = f"{' and '.join(QUICK)} alone; the emulator's own tests have all"
    tests = filter_of(QUICK if context.quick else ["Conformance*"])
    if context.passed:
        tests += f":-{filter_of(context.passed)}"
    conformance_tests(context, result, tests)


def compare_logits(context, result):
    """The logits of `fathom logits` here against those of the CPU of the build machine."""
    for name, expected in context.manifest["expected"].items():
        model = context.model(name)
        if not model or not has_time(context, result, f"logits of {name}", 5):
            continue
        out = context.work / f"{name}.logits"
        same = {}

        def judge(done, name=name, expected=expected, out=out, same=same):
            if done.code != 0:
                return f"{name}: fathom logits: {done.failure()}"
            same["same_as_cpu"] = hash_of(out) == expected["logits_sha256"]
            return "" if same["same_as_cpu"] else f"{name}: logits differ from the CPU's"

        command = logits_command(context.program("fathom"), model, out, context.quick)
        attempt(context, result, [*command, *context.on_device()], judge)
        result.setdefault("logits", {})[name] = same
        context.keep()


def greedy(context, result):
    """A greedy text of the embedded model against the CPU's."""
    expected = context.manifest["expected"].get("fairy", {}).get("greedy")
    if expected is None or not context.model("fairy"):
        result["greedy"] = "expected the embedded model in the bundle or the tree, found none"
        return
    if not has_time(context, result, "greedy text"):
        return

    def judge(done):
        if done.code != 0:
            return f"fathom generate: {done.failure()}"
        if done.out != expected:
            return f"the greedy text: expected {expected!r}, found {done.out!r}"
        return ""

    done = attempt(context, result,
                   [*greedy_command(context.program("fathom"), context.model("fairy"),
                                    context.quick), *context.on_device()], judge)
    if done.code == 0:
        result["greedy_same_as_cpu"] = context.has_text = done.out == expected
    context.keep()


def goldens(context, result):
    """Whole models: layers, texts, logits."""
    need_device(context)
    ran = gtest(context, result, "gpu_test", "OnDevice*:-*Schedules*")
    result["models"] = {**ran, "passed": len(ran["passed"])}
    context.keep()
    compare_logits(context, result)
    if not context.has_text:
        greedy(context, result)


def schedules(context, result):
    """Requests that come, go and are cancelled, each of which gets the answer it would get alone."""
    need_device(context)
    if context.quick:
        raise Skip("a schedule takes minutes on an emulated device; gpu.GpuSchedules has short ones")
    done, seconds_each = 0, 0.0
    while done < SCHEDULES:
        # The first one alone shows how many the time is enough for, if each took twice as long.
        if not has_time(context, result, f"schedules from {done}", max(1, 2 * seconds_each)):
            break
        n = 1
        if done > 0:
            n = min(SCHEDULES_AT_ONCE, SCHEDULES - done,
                    max(1, int(context.left() / (2 * seconds_each))))
        seeds = f"{done},{n}"
        tests = gtest(context, result, "gpu_test", "OnDevice*Schedules*",
                      environment={"FATHOM_SCHEDULES": seeds})
        if result.get("failures"):
            result["failures"][-1] = f"schedules {seeds}: {result['failures'][-1]}"
            break
        done += n
        seconds_each = max(tests["seconds"] / n, 0.001)
        result["schedules"] = done
        context.keep()
