#!/usr/bin/env python3
"""Checks the code objects of the device sources: each kernel is in each, and none spills.

    tools/check_gpu_objects.py KERNEL_LIST OBJECT...
    tools/check_gpu_objects.py --gauge [--update | --print] [--budgets FILE] [OBJECT...]

KERNEL_LIST is src/kernels/gpu/kernel_list.h. An object is a fatbin of nvcc (not compressed) or a
code object of clang for AMD. A kernel that keeps registers or arrays in memory of the thread (a
spill) is several times slower than its source says. AMD kernels must also begin with subnormal
numbers and rounding to nearest: the bits of all sums depend on it. Prints one line per violation
and exits with 1 if there are any.

With --gauge it counts the instructions of inner loops instead and compares them with budgets
(docs/gpu_kernels.md, The gauge); --help after it lists the options.
"""

import re
import struct
import sys
from pathlib import Path

import gpu_gauge.main
from code_objects import (CUDA_ENTRY, EM_CUDA, amd_architecture, amd_metadata, bytes_at,
                          cuda_architecture, cuda_attributes, images_of, symbols_of)

FRAME_SIZE = 0x11  # attribute of a function of a cubin: bytes of memory of a thread
# compute_pgm_rsrc1 of a kernel descriptor: rounding (2 x 2 bits, 0: to nearest) below subnormal
# numbers (2 x 2 bits, 3: kept).
FLOAT_MODE_SHIFT = 12
FLOAT_MODE = 0xF0


def cuda_kernels(cubin):
    """{kernel: [what is wrong]} of a cubin."""
    symbols = symbols_of(cubin)
    kernels = {name: [] for name, _, other in symbols if other & CUDA_ENTRY}
    for attribute, symbol, frame in cuda_attributes(cubin):
        if attribute == FRAME_SIZE and frame:
            kernels.setdefault(symbols[symbol][0], []).append(f"{frame} bytes of memory per thread")
    return kernels


def amd_kernels(elf):
    """{kernel: [what is wrong]} of a code object of AMD."""
    addresses = {name: address for name, address, _ in symbols_of(elf)}
    kernels = {}
    for kernel in amd_metadata(elf)["amdhsa.kernels"]:
        wrong = kernels[kernel[".name"]] = []
        if kernel[".vgpr_spill_count"]:
            wrong.append(f"{kernel['.vgpr_spill_count']} spilled registers")
        if kernel[".private_segment_fixed_size"]:
            wrong.append(f"{kernel['.private_segment_fixed_size']} bytes of memory per thread")
        descriptor = bytes_at(elf, addresses[kernel[".symbol"]], 64)
        mode = struct.unpack_from("<I", descriptor, 48)[0] >> FLOAT_MODE_SHIFT & 0xFF
        if mode != FLOAT_MODE:
            wrong.append(f"expected the mode {FLOAT_MODE:#x} of floats, found {mode:#x}")
    return kernels


def kernels_of(data):
    """[(architecture, {kernel: [what is wrong]})] of a fatbin or an ELF file."""
    return [(cuda_architecture(elf), cuda_kernels(elf)) if machine == EM_CUDA
            else (amd_architecture(elf), amd_kernels(elf)) for machine, elf in images_of(data)]


def listed_kernels(kernel_list):
    """The names in the macro FATHOM_GPU_KERNELS of kernel_list.h."""
    macro = re.search(r"#define FATHOM_GPU_KERNELS\(X\)((?:.*\\\n)*.*)", kernel_list).group(1)
    return re.findall(r"\bX\((\w+)\)", macro)


def check_objects(paths, listed):
    """All violations, one line of text each, and the number of kernels by architecture."""
    errors = []
    found = {}
    for path in paths:
        for architecture, kernels in kernels_of(path.read_bytes()):
            found.setdefault(architecture, set()).update(kernels)
            errors += [f"{path.name}, {architecture}, {kernel}: {what}"
                       for kernel, wrong in kernels.items() for what in wrong]
    for architecture, kernels in found.items():
        errors += [f"{architecture}: no kernel {name}" for name in sorted(set(listed) - kernels)]
        errors += [f"{architecture}: {name} is not in the list of kernels"
                   for name in sorted(kernels - set(listed))]
    return errors, {architecture: len(kernels) for architecture, kernels in found.items()}


def main():
    if sys.argv[1:2] == ["--gauge"]:
        return gpu_gauge.main.main(sys.argv[2:])
    if len(sys.argv) < 3:
        print(__doc__.split("\n\n")[1].strip(), file=sys.stderr)
        return 2
    listed = listed_kernels(Path(sys.argv[1]).read_text())
    errors, counts = check_objects([Path(name) for name in sys.argv[2:]], listed)
    for error in errors:
        print(error)
    print("kernels: " + ", ".join(f"{name} {n}" for name, n in counts.items()))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
