"""The inner loops of a kernel, from the instructions of any architecture.

A loop is the natural loop of its first instruction: all instructions from which a jump back to it
is reached without passing it. Compilers move parts of a loop to the kernel's end, so that a range
of addresses would miss them. Both sides of a branch count: threads of a wave that differ issue both.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Instruction:
    opcode: str  # with what follows after dots or underscores: LDG.E.U8, v_fmac_f32_e32
    operands: str
    target: int | None = None  # index of the instruction to which it jumps
    falls_through: bool = True  # the next instruction may follow


def find_loops(instructions):
    """{index of the first instruction: indices of the instructions} of a kernel's loops."""
    successors = [([instruction.target] if instruction.target is not None else [])
                  + ([i + 1] if instruction.falls_through and i + 1 < len(instructions) else [])
                  for i, instruction in enumerate(instructions)]
    reached, jumps_back = walk(successors)
    predecessors = [[] for _ in instructions]
    for i in reached:
        for successor in successors[i]:
            predecessors[successor].append(i)
    loops = {}
    for last, first in jumps_back:
        loop = loops.setdefault(first, {first})
        waiting = [last]
        while waiting:
            i = waiting.pop()
            if i not in loop:
                loop.add(i)
                waiting += predecessors[i]
    return loops


def walk(successors):
    """The instructions that are reached from the first one, and the jumps back, depth first."""
    reached = {0}
    on_path = {0}
    jumps_back = []
    path = [(0, iter(successors[0]))]
    while path:
        i, rest = path[-1]
        successor = next(rest, None)
        if successor is None:
            path.pop()
            on_path.discard(i)
        elif successor in on_path:
            jumps_back.append((i, successor))
        elif successor not in reached:
            reached.add(successor)
            on_path.add(successor)
            path.append((successor, iter(successors[successor])))
    return reached, jumps_back


def inner_loops(instructions):
    """The loops without another loop in them: [[Instruction]], in the order of the code."""
    loops = find_loops(instructions) if instructions else {}
    return [[instructions[i] for i in sorted(loop)] for first, loop in sorted(loops.items())
            if not any(other != first and other in loop for other in loops)]
