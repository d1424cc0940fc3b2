"""The command line of check_gpu_objects.py --gauge."""

import argparse
import os
from pathlib import Path

from code_objects import EM_CUDA, images_of

from . import budgets, disassemblers, table
from .measure import measure

SKIPPED = 77  # exit code that ctest takes for a test that was skipped


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="check_gpu_objects.py --gauge",
        description="Counts the instructions of named inner loops (tools/gpu_gauge/loops.py) in "
                    "the code objects of the device sources and compares them with the budgets of "
                    "tools/gpu_gauge/budgets.json. Exits with 1 if a number grew, with 77 if a "
                    "disassembler is missing and the environment has no CI=true.")
    parser.add_argument("objects", metavar="OBJECT", nargs="*", type=Path,
                        help="code objects (default: those of build/release)")
    parser.add_argument("--budgets", metavar="FILE", type=Path, default=budgets.FILE,
                        help="other budgets than tools/gpu_gauge/budgets.json")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--update", action="store_true",
                        help="make what was measured the budgets, and write the table of "
                             "docs/gpu_kernels.md")
    action.add_argument("--print", action="store_true", help="print all measures, compare nothing")
    options = parser.parse_args(arguments)
    if not options.objects:
        folder = disassemblers.ROOT / "build" / "release" / "src" / "kernels" / "vendor"
        options.objects = sorted(folder.glob("*/*/*.bin"))
        if not options.objects:
            parser.error(f"there are no code objects in {folder}: build fathom_code_objects")
    return options


def find_disassemblers(paths):
    """nvdisasm and llvm-objdump, and sentences about those that are needed and missing."""
    machines = {machine for path in paths for machine, _ in images_of(path.read_bytes())[:1]}
    nvdisasm, llvm_objdump = disassemblers.find_nvdisasm(), disassemblers.find_llvm_objdump()
    lacks = []
    if EM_CUDA in machines and nvdisasm is None:
        lacks.append(disassemblers.NO_NVDISASM)
    if machines - {EM_CUDA} and llvm_objdump is None:
        lacks.append(disassemblers.NO_LLVM_OBJDUMP)
    return nvdisasm, llvm_objdump, lacks


def write_budgets(path, result):
    new = budgets.update(budgets.load(path), result)
    budgets.save(new, path)
    if path == budgets.FILE:
        table.DOCUMENT.write_text(table.replace(table.DOCUMENT.read_text(), new))


def main(arguments):
    options = parse(arguments)
    nvdisasm, llvm_objdump, lacks = find_disassemblers(options.objects)
    result = measure(options.objects, nvdisasm, llvm_objdump)
    failures, notes = [], []
    if not result.loops and not lacks:
        failures = ["expected objects of an architecture of tools/gpu_gauge/loops.py, found none"]
    elif options.print:
        for architecture, measured in result.loops.items():
            notes += budgets.lines_of(architecture, measured)
    elif options.update:
        failures = [error for errors in result.errors.values() for error in errors]
        if not failures:
            write_budgets(options.budgets, result)
    else:
        failures, notes = budgets.compare(budgets.load(options.budgets), result)
    counts = ", ".join(f"{architecture} {len(measured)}"
                       for architecture, measured in result.loops.items())
    for line in [*failures, *notes, f"loops: {counts or 'none'}", *lacks]:
        print(line)
    if failures or lacks and os.environ.get("CI") == "true":
        return 1
    return SKIPPED if lacks else 0
