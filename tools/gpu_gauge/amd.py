"""Kernels of AMD, as llvm-objdump shows them."""

import re
from collections import Counter

from code_objects import amd_metadata

from .control_flow import Instruction

KERNEL = re.compile(r"([0-9a-f]{16}) <(\w+)>:")
# Opcode, operands, address; kernel and offset to which it jumps.
INSTRUCTION = re.compile(r"\t(\w+)\s*(.*?)\s*// ([0-9A-F]{12}):"
                         r"[^<]*(?:<(\w+)(?:\+0x([0-9a-f]+))?>)?")
LOAD = re.compile(r"(?:global|flat|buffer)_load_(?:d16_|lds_)?(?:hi_)?([a-z]+\d*(?:x\d)?)")
LOAD_BYTES = {"ubyte": 1, "sbyte": 1, "u8": 1, "i8": 1, "ushort": 2, "sshort": 2, "short": 2,
              "u16": 2, "i16": 2, "b16": 2, "dword": 4, "b32": 4, "dwordx2": 8, "b64": 8,
              "dwordx3": 12, "b96": 12, "dwordx4": 16, "b128": 16}
OPERATIONS = [(r"v_(dual_)?(fma|fmac|fmaak|fmamk)_f32", "fma"),
              (r"v_(dual_)?mul_f32", "multiply"),
              (r"v_(dual_)?(add|sub|subrev)_f32", "add"),
              (r"v_(mad_[iu]32_[iu]24|mad_[iu]64_[iu]32|mul_lo_u32|mul_[iu]32_[iu]24|dot\w+)",
               "integer multiply"),
              (r"ds_(load|read)", "shared load"),
              (r"ds_(b?permute|swizzle)", "shuffle"),
              (r"v_cvt_f32_i32", "convert")]


def parse(text):
    """{kernel: [Instruction]}."""
    kernels = {}
    for section in re.split(r"\n(?=[0-9a-f]{16} <)", text)[1:]:
        start, name = KERNEL.match(section).groups()
        lines = [match.groups() for match in map(INSTRUCTION.match, section.splitlines()) if match]
        index = {int(address, 16) - int(start, 16): i
                 for i, (_, _, address, *_) in enumerate(lines)}
        kernels[name] = [make_instruction(opcode, operands, index.get(int(offset or "0", 16))
                                          if function == name else None)
                         for opcode, operands, _, function, offset in lines]
    return kernels


def make_instruction(opcode, operands, target):
    is_jump = opcode.startswith(("s_branch", "s_cbranch"))
    return Instruction(opcode, operands, target if is_jump else None,
                       opcode not in ("s_branch", "s_endpgm", "s_setpc_b64"))


def operation_names(instruction):
    """The operations of an instruction: two of one that is issued as a pair, or works on a pair."""
    opcodes = [instruction.opcode]
    if "::" in instruction.operands:
        opcodes.append(instruction.operands.split("::")[1].split()[0])
    if instruction.opcode.startswith("v_pk_"):
        opcodes = 2 * [instruction.opcode.replace("v_pk_", "v_")]
    return [name for opcode in opcodes for pattern, name in OPERATIONS if re.match(pattern, opcode)]


def load_bytes(opcode):
    match = LOAD.match(opcode)
    return LOAD_BYTES.get(match.group(1)) if match else None


def count(loop):
    """The measures of a loop, and how often it has each of the operations by which it is known."""
    loads = Counter(load_bytes(instruction.opcode) for instruction in loop)
    del loads[None]
    operations = Counter(name for instruction in loop for name in operation_names(instruction))
    operations["load"] = loads.total()
    return {"instructions": len(loop),
            "vector": sum(instruction.opcode.startswith("v_") for instruction in loop),
            "loads": loads.total(), "load bytes": loads}, operations


def resources(elf):
    """{kernel: {"registers": n, "shared bytes": n}}; without dynamic shared memory."""
    return {kernel[".name"]: {"registers": kernel[".vgpr_count"],
                              "shared bytes": kernel[".group_segment_fixed_size"]}
            for kernel in amd_metadata(elf)["amdhsa.kernels"]}


def compiler(elf):
    match = re.search(rb"clang version (\d+)", elf)
    return match.group(1).decode() if match else "unknown"
