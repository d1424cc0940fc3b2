"""Measures the loops of loops.py in code objects."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

from code_objects import EM_CUDA, amd_architecture, cuda_architecture, images_of

from . import amd, cuda
from .control_flow import inner_loops
from .loops import ARCHITECTURES, LOOPS

# An ELF file of NVIDIA knows its architecture without the letter.
CUDA_ARCHITECTURES = {re.sub(r"[a-z]$", "", name) for name in ARCHITECTURES}


class Measures:
    """Collects what is found in objects.

    loops: {architecture: {title of a loop: {measure: number}}}, compilers: {"nvcc" or "clang":
    version}, errors: {architecture: [what is wrong whatever the budgets say]}.
    """

    def __init__(self, wanted):
        self.wanted = wanted  # [Loop]
        self.loops = {}
        self.compilers = {}
        self.errors = {}

    def loops_of(self, architecture):
        self.errors.setdefault(architecture, [])
        return self.loops.setdefault(architecture, {})


def run_disassembler(command, image):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "code"
        path.write_bytes(image)
        result = subprocess.run([*command, str(path)], capture_output=True, text=True)
    if result.returncode:
        raise ValueError(f"{os.path.basename(command[0])}: {result.stderr.strip()}")
    return result.stdout


def describe(operations):
    return ", ".join(f"{count} {name}" for name, count in sorted(operations.items()) if count)


def measure_loop(loop, counted, resources):
    """The measures of a loop, or None.

    counted: the measures and operations of the kernel's loops; resources: of the kernel.
    """
    copies = [(loop.numbers(operations), measures) for measures, operations in counted
              if loop.where(operations)]
    if not copies:
        return None
    numbers = max(numbers for numbers, _ in copies)
    copies = [measures for of_copy, measures in copies if of_copy == numbers]
    longest = max(copies, key=lambda measures: next(iter(measures.values())))  # the length is first
    found = {"numbers": numbers}
    for name, value in longest.items():
        if name.endswith("load bytes"):
            found[name] = {str(width): value[width] for width in sorted(value)}
        else:
            found[name] = max(measures[name] for measures in copies)
    return found | resources


def measure_kernels(result, architecture, kernels, resources, count):
    """Adds the loops of the kernels of an object."""
    measured = result.loops_of(architecture)
    for loop in result.wanted:
        if loop.kernel in kernels:
            counted = [count(inner) for inner in inner_loops(kernels[loop.kernel])]
            measured[loop.title] = measure_loop(loop, counted, resources[loop.kernel])
            if measured[loop.title] is None:
                result.errors[architecture].append(
                    f"{loop.title}, {architecture}: no inner loop is as tools/gpu_gauge/loops.py "
                    "describes it. The kernel has loops with " + "; ".join(
                        describe(operations) for _, operations in counted if operations.total()))


def measure_cuda(result, cubin, nvdisasm):
    architecture, kernels = cuda.parse(run_disassembler([nvdisasm, "--print-code"], cubin))
    result.compilers["nvcc"] = cuda.compiler(cubin)
    measure_kernels(result, architecture, kernels, cuda.resources(cubin), cuda.count)
    result.errors[architecture] += [
        f"{kernel}, {architecture}: {instruction} flushes subnormal numbers"
        for kernel, instructions in kernels.items() for instruction in cuda.flushed(instructions)]


def measure_amd(result, elf, llvm_objdump):
    architecture = amd_architecture(elf)
    resources = amd.resources(elf)
    result.compilers["clang"] = amd.compiler(elf)
    if any(loop.kernel in resources for loop in result.wanted):
        text = run_disassembler([llvm_objdump, "-d", "--no-show-raw-insn"], elf)
        measure_kernels(result, architecture, amd.parse(text), resources, amd.count)


def measure(paths, nvdisasm, llvm_objdump, loops=LOOPS):
    """The measures of loops in objects. A disassembler that is None leaves its vendor out."""
    result = Measures(loops)
    for path in paths:
        for machine, image in images_of(path.read_bytes()):
            if machine == EM_CUDA:
                if nvdisasm and cuda_architecture(image) in CUDA_ARCHITECTURES:
                    measure_cuda(result, image, nvdisasm)
            elif llvm_objdump and amd_architecture(image) in ARCHITECTURES:
                measure_amd(result, image, llvm_objdump)
    for architecture, measured in result.loops.items():
        result.errors[architecture] += [
            f"{loop.title}, {architecture}: the objects have no kernel {loop.kernel}"
            for loop in loops if loop.title not in measured]
        result.loops[architecture] = {loop.title: measured[loop.title] for loop in loops
                                      if measured.get(loop.title)}
    return result
