"""Kernels of NVIDIA, as nvdisasm shows them."""

import re
from collections import Counter

from code_objects import CUDA_ENTRY, cuda_attributes, symbols_of

from .control_flow import Instruction

REGISTERS = 0x2F  # attribute of a function of a cubin

TARGET = re.compile(r"\t\.target\t(\w+)")
SECTION = re.compile(r"\t\.section\t\.text\.(\w+)")
LABEL = re.compile(r"(\.L_x_\d+):")
FUNCTION = re.compile(r"(\$?[\w$]+):")  # a kernel, or a function that the compiler adds
INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+\{?\s*(@!?U?P\w+)?\s*([A-Z][\w.]*)\s*(.*?)\s*;")
JUMP = re.compile(r"(.*?)`\((\.L_x_\d+)\)")

# Instructions of the pipe for integers, comparisons and selections, which takes a warp in two
# cycles where an instruction is issued in one. IMAD in all its forms (also moves and shifts) is on
# the pipe for products, and what begins with U on that of the warp.
INTEGER = {"BMSK", "F2FP", "FMNMX", "FSEL", "FSETP", "I2FP", "IABS", "IADD3", "IMNMX", "ISETP",
           "LEA", "LOP3", "MOV", "P2R", "PLOP3", "PRMT", "R2P", "SEL", "SGXT", "SHF", "SHL", "SHR",
           "VABSDIFF", "VIADD", "VIADDMNMX", "VIMNMX"}
GLOBAL_LOADS = {"LD", "LDG"}
OPERATIONS = {"FFMA": "fma", "FMUL": "multiply", "FADD": "add", "LDS": "shared load",
              "SHFL": "shuffle", "I2F": "convert", "I2FP": "convert"}
ROOT_LENGTH = 40  # instructions of a root from MUFU.RSQ on, with what is scheduled between them
LOAD_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


def parse(text):
    """The architecture, and {kernel: [Instruction]} without the functions that kernels call."""
    kernels = {}
    lines = []  # (opcode, operands, is predicated) of the current kernel
    labels = {}
    kernel = function = None

    def finish():
        if kernel is not None:
            kernels[kernel] = [make_instruction(*line, labels) for line in lines]

    for line in text.splitlines():
        if match := SECTION.match(line):
            finish()
            kernel = function = match.group(1)
            lines, labels = [], {}
        elif match := LABEL.match(line):
            labels[match.group(1)] = len(lines)
        elif match := FUNCTION.match(line):
            function = match.group(1)
        elif match := INSTRUCTION.match(line):
            if function == kernel:
                lines.append((match.group(2), match.group(3), match.group(1) is not None))
    finish()
    return TARGET.search(text).group(1), kernels


def make_instruction(opcode, operands, is_predicated, labels):
    name = opcode.split(".")[0]
    jump = JUMP.match(operands)
    if name == "BRA" and jump:
        # BRA with operands before the label jumps on a condition.
        return Instruction(opcode, operands, labels.get(jump.group(2)),
                           is_predicated or bool(jump.group(1).strip()))
    ends = name in ("BRX", "EXIT", "JMX", "RET")
    return Instruction(opcode, operands, None, is_predicated or not ends)


def load_bytes(opcode):
    return next((LOAD_BYTES[part] for part in opcode.split(".") if part in LOAD_BYTES), 4)


def count(loop):
    """The measures of a loop, and how often it has each of the operations by which it is known."""
    names = [instruction.opcode.split(".")[0] for instruction in loop]
    loads, shared = (Counter(load_bytes(instruction.opcode)
                             for instruction, name in zip(loop, names) if name in kind)
                     for kind in (GLOBAL_LOADS, {"LDS"}))
    operations = Counter(OPERATIONS[name] for name in names if name in OPERATIONS)
    operations["integer multiply"] = sum(instruction.opcode == "IMAD" for instruction in loop)
    operations["load"] = loads.total()
    return {"slots": len(loop), "integer": sum(name in INTEGER for name in names),
            "loads": loads.total(), "load bytes": loads, "shared load bytes": shared}, operations


def resources(cubin):
    """{kernel: {"registers": n}} of a cubin."""
    symbols = symbols_of(cubin)
    return {symbols[symbol][0]: {"registers": registers}
            for attribute, symbol, registers in cuda_attributes(cubin)
            if attribute == REGISTERS and symbols[symbol][2] & CUDA_ENTRY}


def compiler(cubin):
    match = re.search(rb"Cuda compilation tools, release (\d+\.\d+)", cubin)
    return match.group(1).decode() if match else "unknown"


def flushed(instructions):
    """Instructions that flush subnormal numbers where the source does not ask for it.

    The compiler itself uses such instructions in divisions of integers (F2I), to negate in
    reciprocals (FADD with -RZ), and soon after MUFU.RSQ in roots, where no number is subnormal.
    """
    root_at = {}  # {register: place of the last MUFU.RSQ that sets it}
    wrong = []
    for i, instruction in enumerate(instructions):
        result, *sources = [operand.removesuffix(".reuse")
                            for operand in instruction.operands.split(", ")]
        name = instruction.opcode.split(".")[0]
        if instruction.opcode == "MUFU.RSQ":
            root_at[result] = i
        elif ".FTZ" in instruction.opcode and not (
                instruction.opcode == "F2I.FTZ.U32.TRUNC.NTZ"
                or name == "FADD" and "-RZ" in sources
                or name == "FMUL" and any(i - root_at.get(source, -ROOT_LENGTH) < ROOT_LENGTH
                                          for source in sources)):
            wrong.append(f"{instruction.opcode} {instruction.operands}")
    return wrong
