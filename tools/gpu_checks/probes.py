"""The steps that ask the device: what it is, and what its instructions do."""

import json
import shutil

from .context import Skip
from .programs import need_device

SMI_FIELDS = ["name", "driver_version", "clocks.sm", "clocks.max.sm", "clocks.mem",
              "clocks.max.mem", "power.limit", "temperature.gpu", "pcie.link.gen.current",
              "pcie.link.width.current"]


def ask_nvidia_smi(context):
    smi = shutil.which("nvidia-smi")
    if not smi:
        return "nvidia-smi is not on this machine"
    asked = context.command([smi, f"--query-gpu={','.join(SMI_FIELDS)}", "--format=csv,noheader",
                             "-i", context.number])
    if asked.code != 0:
        return f"nvidia-smi: {asked.failure()}"
    return dict(zip(SMI_FIELDS, (one.strip() for one in asked.out.split(","))))


def start(context, result):
    """The device, its driver and its clocks."""
    if context.backend == "cuda":
        result["nvidia_smi"] = ask_nvidia_smi(context)
        context.keep()
    result["fathom_device"] = need_device(context)


def read_lines(context, result, arguments):
    """Runs a probe: the objects that it prints, one on each line, and what is wrong."""
    done = context.command(arguments)
    for line in done.out.splitlines():
        try:
            one = json.loads(line)
        except ValueError:  # the end of a probe that was ended
            result.setdefault("not_read", []).append(line[:200])
            continue
        result.setdefault("results", []).append(one)
        if "mismatch" in one:
            result.setdefault("failures", []).append(f"{one['name']}: {one['mismatch']}")
    if done.code != 0:
        name = arguments[0].rsplit("/", 1)[-1]
        result.setdefault("failures", []).append(f"{name}: {done.failure()}")
    context.keep()


def arithmetic(context, result):
    """Compares the sums of the matrix units with the model of the design."""
    program = context.program("arithmetic_probe")
    need_device(context)
    cases = ["--cases", "16"] if context.quick else []
    read_lines(context, result, [program, "--device", context.number, *cases])
    if not result.get("results") and not result.get("failures"):
        raise Skip("the device has no matrix units that arithmetic_probe knows")


def probe(name):
    """Returns the step of one probe of gpu_probe."""
    def run(context, result):
        if context.backend != "cuda":
            raise Skip(f"gpu_probe is for CUDA, and the device is {context.options.device}")
        program = context.program("gpu_probe")
        need_device(context)
        quick = ["--quick"] if context.quick else []
        read_lines(context, result, [program, name, "--device", context.number, *quick])
        if not result.get("results") and not result.get("failures"):
            raise Skip(f"gpu_probe {name} has nothing for this device")
    return run
