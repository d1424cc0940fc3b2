"""The time of a launch: the longest of what its instructions, its bytes and its longest thread
take, and the time to launch it.

A kernel is a list of phases with barriers between them. In a phase a block alone on its unit takes
the longer of the time of the pipes and the time of its longest thread; the phases of a block follow
each other, phases of several blocks overlap.
"""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Loop:
    """A loop of the gauge."""

    title: str
    numbers: float  # that the launch processes, as the gauge counts them
    longest: float  # numbers that one thread processes one after the other
    wait: dict  # for what an iteration waits: Device.cycles


@dataclass(frozen=True)
class Steps:
    """Dependent steps of one thread that no loop of the gauge has, each with the issue slots of its
    `wait`, counted in the code of November 2026. threads: of the launch, if their slots count; half
    of them are on the integer pipe."""

    count: float
    wait: dict
    threads: float = 0.0

    @property
    def slots(self):
        return self.threads * self.count * self.wait.get("slot", 0)


@dataclass(frozen=True)
class Launch:
    operation: str  # the line of the table to which it belongs
    kernel: str
    blocks: float = 0.0
    phases: tuple = ()
    registers: int | str = 32  # a number, or the title of a loop of the kernel
    shared_bytes: int = 0
    bytes: float = 0.0
    times: int = 1  # launches that are all alike
    threads: int = 256  # of a block
    beside: tuple = ()  # launches whose blocks run in this one; then only the first two and `times`

    def titles(self):
        loops = {phase.title for phase in self.phases if isinstance(phase, Loop)}
        if isinstance(self.registers, str):
            loops.add(self.registers)
        return loops.union(*(part.titles() for part in self.beside))


@dataclass(frozen=True)
class Estimate:
    us: float
    parts: dict = field(default_factory=dict)  # us by what bounds them

    @property
    def bound(self):
        return max(self.parts, key=self.parts.get)


def phase_pipes(phase, device, gauge):
    """Cycles of the pipes of one unit, if it did the launch's whole phase: {pipe: cycles}."""
    pipes = {}
    if isinstance(phase, Steps):
        slots, integer = phase.slots, phase.slots / 2
    else:
        loop = gauge.loop(phase.title)
        slots = phase.numbers * loop.slots
        integer = phase.numbers * loop.integer
        # A load instruction takes a cycle for 32 threads, wider ones as long as their bytes.
        pipes["loads"] = phase.numbers * sum(
            count * max(1 / 32, width / device.assumptions.load_bytes)
            for width, count in loop.loads)
    pipes["issue"] = slots / device.issue
    if device.integer:
        pipes["integer pipe"] = integer / device.integer
    if device.other:
        pipes["issue"] = max(pipes["issue"], (slots - integer) / device.other)
    return {name: cycles / device.assumptions.pipe_share for name, cycles in pipes.items()}


def phase_latency(phase, device, gauge):
    """Cycles of the longest thread."""
    if isinstance(phase, Steps):
        return phase.count * device.cycles(phase.wait)
    loop = gauge.loop(phase.title)
    slots = loop.slots * loop.numbers
    return phase.longest / loop.numbers * (device.cycles(phase.wait) + slots * device.slot_cycles)


def resident_of(launch, device, gauge):
    """Blocks of the launch that the device holds at a time."""
    registers = launch.registers
    if isinstance(registers, str):
        registers = gauge.loop(registers).registers
    return device.units * device.resident_blocks(launch.threads, registers, launch.shared_bytes)


def estimate_part(launch, device, gauge):
    """Cycles of the pipes, as if one unit did everything, and of the longest thread, by bound."""
    total, path = Counter(), Counter()
    for phase in launch.phases:
        pipes = phase_pipes(phase, device, gauge)
        total.update(pipes)
        name = max(pipes, key=pipes.get)
        of_block = pipes[name] / max(launch.blocks, 1.0)
        latency = phase_latency(phase, device, gauge)
        path["latency" if latency >= of_block else name] += max(latency, of_block)
    return total, path


def estimate(launch, device, gauge):
    """The time of all launches of a kind."""
    parts = launch.beside or (launch,)
    blocks = sum(part.blocks for part in parts)
    of_unit = max(1.0, -(-blocks // device.units))  # blocks of the busiest unit
    total, longest, queued = Counter(), Counter(), Counter()
    for part in parts:
        pipes, path = estimate_part(part, device, gauge)
        for name, cycles in pipes.items():
            total[name] += cycles / max(blocks, 1.0) * of_unit
        waves = part.blocks / resident_of(part, device, gauge)
        queued.update({name: cycles * waves for name, cycles in path.items()})
        longest = max(longest, path, key=Counter.total)
    longest = max(longest, queued, key=Counter.total)
    candidates = {name: cycles / device.ghz * 1e-3 for name, cycles in total.items()}
    if longest:
        name = max(longest, key=longest.get)
        candidates[name] = max(candidates.get(name, 0.0), longest.total() / device.ghz * 1e-3)
    bytes_ = sum(part.bytes for part in parts)
    candidates["memory"] = bytes_ / (device.memory_tb_s * device.assumptions.memory_share) * 1e-6
    bound = max(candidates, key=candidates.get)
    us = {"launch": device.launch_us * launch.times, bound: candidates[bound] * launch.times}
    return Estimate(sum(us.values()), us)


def add(estimates):
    parts = Counter()
    for each in estimates:
        parts.update(each.parts)
    return Estimate(parts.total(), dict(parts))
