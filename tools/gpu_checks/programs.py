"""Runs the programs of the bundle, reads what they print, and repeats the first one that fails."""

import json
import re
from pathlib import Path

from .context import Skip

# For the command that a step repeats, even if the step's own seconds are over.
SYNC_SECONDS = 20
# An error of a program that waits after each launch.
NAMED_KERNEL = re.compile(r"^.*, kernel \w+, grid .*$", re.M)


def has_time(context, result, part, least=1):
    """Whether seconds are left for a part of a step; notes the part if not."""
    if context.left() >= least:
        return True
    result.setdefault("not_run", []).append(part)
    return False


def attempt(context, result, arguments, judge, *, limit=None, environment=None, again=None):
    """Runs a command and returns how it ended.

    judge(command) says in a sentence what is wrong, or nothing. The sentence joins the failures of
    the step. The first command of a step that failed runs once more with FATHOM_GPU_SYNC=1, so that
    an error names the kernel; `again(command)` returns the arguments then, if they are others.
    """
    done = context.command(arguments, limit, environment)
    sentence = judge(done)
    if not sentence:
        return done
    result.setdefault("failures", []).append(sentence)
    if done.code is None or "with_sync" in result:
        return done
    repeated = [str(one) for one in (again(done) if again else arguments)]
    result["with_sync"] = {"command": " ".join([Path(repeated[0]).name, *repeated[1:]])}
    context.keep()
    context.begin(max(context.left(), SYNC_SECONDS))
    synced = context.command(repeated, SYNC_SECONDS,
                             {**(environment or {}), "FATHOM_GPU_SYNC": "1"})
    named = NAMED_KERNEL.search(synced.error + "\n" + synced.out)
    result["with_sync"]["said"] = (named.group(0).strip() if named else
                                   judge(synced) or "no failure with FATHOM_GPU_SYNC=1")
    context.keep()
    return done


def read_tests(done):
    """Reads the output of a test program: names by verdict, each once, in the order of the tests:
    after a fault of the device the later ones fail as well."""
    ended = {verdict: re.findall(rf"^\[ *{verdict} *\] (\S+?)(?:,| \(|$)", done.out, re.M)
             for verdict in ("OK", "FAILED", "SKIPPED")}
    return {verdict: list(dict.fromkeys(names)) for verdict, names in ended.items()}


def judge_tests(program):
    def judge(done):
        ended = read_tests(done)
        failed = ended["FAILED"]
        if failed:
            # Shows what the first one expected and found.
            text = done.out.split(f"[  FAILED  ] {failed[0]}")[0]
            text = text.split(f"[ RUN      ] {failed[0]}")[-1].strip()[:1500]
            return f"{len(failed)} tests, first {failed[0]}: {text}"
        if done.code != 0:
            began = re.findall(r"^\[ RUN      \] (\S+)", done.out, re.M)
            return f"{program}{f' in {began[-1]}' if began else ''}: {done.failure()}"
        return "" if ended["OK"] or ended["SKIPPED"] else f"{program}: expected tests, found none"
    return judge


def gtest(context, result, program, tests, *, environment=None):
    """Runs tests of a program by their filter, adds what failed to the result and returns
    {passed, failed, skipped, seconds}; passed and failed are names."""
    path = context.program(program)

    def first_that_failed(done):
        """The test that failed, or that ran when the program ended."""
        names = (read_tests(done)["FAILED"] or
                 re.findall(r"^\[ RUN      \] (\S+)", done.out, re.M)[-1:])
        return [path, f"--gtest_filter={names[0] if names else tests}", "--gtest_color=no"]

    done = attempt(context, result, [path, f"--gtest_filter={tests}", "--gtest_color=no"],
                   judge_tests(program), environment=environment, again=first_that_failed)
    ended = read_tests(done)
    if ended["SKIPPED"] and not ended["OK"] and not ended["FAILED"] and done.code == 0:
        reason = re.search(r"Skipped\n(.*)", done.out)
        raise Skip(reason.group(1).strip() if reason else "all tests were skipped")
    return {"passed": ended["OK"], "failed": ended["FAILED"], "skipped": len(ended["SKIPPED"]),
            "seconds": round(done.seconds, 3)}


def bench(context, result, model, rows, *more, limit=None, environment=None):
    """Returns the report of `fathom bench` on the device; None if it failed."""
    done = attempt(
        context, result,
        [context.program("fathom"), "bench", "--model", model, "--rows", rows, "--json",
         "--bandwidth-mib", context.options.bandwidth_mib, *context.on_device(), *more],
        lambda done: f"fathom bench --rows {rows}: {done.failure()}" if done.failure() else "",
        limit=limit, environment=environment)
    return json.loads(done.out) if done.code == 0 else None


def need_device(context):
    """Ends the step with the driver's sentence where the device cannot be used."""
    if context.device:
        return context.device
    listed = context.command([context.program("fathom"), "devices"])
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
    context.device = line
    return line
