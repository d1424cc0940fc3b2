#!/usr/bin/env python3
"""Checks the code objects of the device sources: each kernel is in each, and none spills.

    tools/check_gpu_objects.py KERNEL_LIST OBJECT...

KERNEL_LIST is src/kernels/gpu/kernel_list.h. An object is a fatbin of nvcc (not compressed) or a
code object of clang for AMD. A kernel that keeps registers or arrays in memory of the thread (a
spill) is several times slower than its source says. AMD kernels must also begin with subnormal
numbers and rounding to nearest: the bits of all sums depend on it. Prints one line per violation
and exits with 1 if there are any.
"""

import re
import struct
import sys
from pathlib import Path

FATBIN_MAGIC = 0xBA55ED50
FATBIN_ELF = 2  # an entry with a cubin; 1: PTX, which the driver compiles
EM_CUDA = 190
EM_AMDGPU = 224
CUDA_ENTRY = 0x10  # of a symbol's "other": a kernel, not a function that kernels call
FRAME_SIZE = 0x11  # attribute in .nv.info: number of a symbol, bytes of memory of a thread
AMDGPU_METADATA = 32  # type of a note
# compute_pgm_rsrc1 of a kernel descriptor: rounding (2 x 2 bits, 0: to nearest) below subnormal
# numbers (2 x 2 bits, 3: kept).
FLOAT_MODE_SHIFT = 12
FLOAT_MODE = 0xF0


def sections_of(elf):
    """[(name, type, address, offset, bytes)] of an ELF file of 64 bits."""
    (table,) = struct.unpack_from("<Q", elf, 40)
    size, count, names_index = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    names = headers[names_index][4]

    def name_at(offset):
        return elf[names + offset:elf.index(b"\0", names + offset)].decode()

    nobits = 8
    return [(name_at(name), kind, address, offset,
             b"" if kind == nobits else elf[offset:offset + length])
            for name, kind, _, address, offset, length in headers]


def symbols_of(elf):
    """[(name, address, other)] of an ELF file, by number."""
    sections = {name: content for name, _, _, _, content in sections_of(elf)}
    table, names = sections[".symtab"], sections[".strtab"]
    symbols = []
    for at in range(0, len(table), 24):
        name, _, other, _, address, _ = struct.unpack_from("<IBBHQQ", table, at)
        symbols.append((names[name:names.index(b"\0", name)].decode(), address, other))
    return symbols


def cubins_of(fatbin):
    """The cubins in a fatbin."""
    cubins = []
    at = 0
    while at < len(fatbin):
        magic, _, header, length = struct.unpack_from("<IHHQ", fatbin, at)
        if magic != FATBIN_MAGIC:
            raise ValueError(f"expected a fatbin at byte {at}, found {magic:#x}")
        at += header
        end = at + length
        while at < end:
            kind, _, header, length = struct.unpack_from("<HHIQ", fatbin, at)
            if kind == FATBIN_ELF:
                cubins.append(fatbin[at + header:at + header + length])
            at += header + length
        at = (end + 7) // 8 * 8
    return cubins


def cuda_kernels(cubin):
    """{kernel: [what is wrong]} of a cubin."""
    symbols = symbols_of(cubin)
    kernels = {name: [] for name, _, other in symbols if other & CUDA_ENTRY}
    info = next((content for name, *_, content in sections_of(cubin) if name == ".nv.info"), b"")
    at = 0
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        if form == 4 and attribute == FRAME_SIZE:
            symbol, frame = struct.unpack_from("<II", info, at + 4)
            if frame:
                name = symbols[symbol][0]
                kernels.setdefault(name, []).append(f"{frame} bytes of memory per thread")
        at += 4 + (size if form == 4 else 0)  # other forms keep their value in the size
    return kernels


def unpack_message(data, at=0):
    """A value of MessagePack, as far as the metadata of AMD uses it, and where it ends."""
    def items(count, at):
        values = []
        for _ in range(count):
            value, at = unpack_message(data, at)
            values.append(value)
        return values, at

    def pairs(count, at):
        values, at = items(2 * count, at)
        return dict(zip(values[::2], values[1::2])), at

    def text(length, at):
        return data[at:at + length].decode(), at + length

    code = data[at]
    at += 1
    if code < 0x80:
        return code, at
    if code < 0x90:
        return pairs(code & 15, at)
    if code < 0xA0:
        return items(code & 15, at)
    if code < 0xC0:
        return text(code & 31, at)
    if code in (0xC2, 0xC3):
        return code == 0xC3, at
    unsigned = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q"}
    if code in unsigned:
        return struct.unpack_from(unsigned[code], data, at)[0], at + struct.calcsize(unsigned[code])
    sized = {0xD9: (">B", text), 0xDA: (">H", text), 0xDC: (">H", items), 0xDE: (">H", pairs)}
    if code in sized:
        form, read = sized[code]
        return read(struct.unpack_from(form, data, at)[0], at + struct.calcsize(form))
    raise ValueError(f"MessagePack: the code {code:#x} is not known here")


def amd_metadata(elf):
    for _, kind, _, _, content in sections_of(elf):
        if kind == 7:  # notes
            name_length, length, note = struct.unpack_from("<III", content)
            if note == AMDGPU_METADATA:
                return unpack_message(content, 12 + (name_length + 3) // 4 * 4)[0]
    raise ValueError("expected a note with the metadata of the kernels, found none")


def bytes_at(elf, address, length):
    for _, _, start, _, content in sections_of(elf):
        if start and start <= address < start + len(content):
            return content[address - start:address - start + length]
    raise ValueError(f"expected a section at {address:#x}, found none")


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
    if data[:4] != b"\x7fELF":
        return [(architecture, kernels) for cubin in cubins_of(data)
                for architecture, kernels in kernels_of(cubin)]
    machine, = struct.unpack_from("<H", data, 18)
    if machine == EM_CUDA:
        flags, = struct.unpack_from("<I", data, 48)
        return [(f"sm_{flags >> 8 & 0xFF}", cuda_kernels(data))]
    if machine == EM_AMDGPU:
        target = amd_metadata(data)["amdhsa.target"]
        return [(target.split("--")[-1], amd_kernels(data))]
    raise ValueError(f"expected a machine of {EM_CUDA} or {EM_AMDGPU}, found {machine}")


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
