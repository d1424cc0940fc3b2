"""The devices, and the assumptions that all devices and both builds share.

Nothing here is fitted to a single kernel: one set of numbers serves every row of every table.
docs/gpu_model.md says where each number is from.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Assumptions:
    """Numbers that are in no data sheet, and that no device has confirmed."""

    pipe_share: float = 0.85  # of its rate that a busy pipe reaches: stalls, uneven schedulers
    memory_share: float = 0.85  # of the data sheet's bandwidth; copies reach 0.90 to 0.93
    loaded_memory: float = 1.25  # latency of memory in a running kernel, by that of a lone load
    load_bytes: float = 128  # per cycle, that loads hand to the threads of a unit
    start_us: float = 1.5  # of a launch: arguments and code from memory, first blocks, last writes
    gap: float = 1.0  # factor of Device.gap_us
    interval: float = 1.0  # factor of Device.interval
    host_us: float = 25.0  # per step: the host learns that it has ended and enqueues the next one
    copy_us: float = 2.5  # a small copy between host and device, in the stream
    copy_gb_s: float = 25.0  # of a large one


# How far off each may be: `tools/gpu_model --vary`.
RANGES = {"pipe_share": (0.70, 0.95), "memory_share": (0.70, 0.93), "loaded_memory": (1.0, 1.6),
          "load_bytes": (64, 256), "start_us": (0.5, 3.0), "gap": (0.6, 2.0), "interval": (0.75, 1.5),
          "host_us": (10.0, 100.0)}

MOST_BLOCKS = 32  # of a unit
BARRIER = 30  # cycles until all warps of a block have met
ROOT_UNIT = 23  # cycles of the unit for reciprocals and roots
DIVISION_SLOTS = 16  # issue slots of a division: 1,047 for 64 in the Sinkhorn loop of HcPre


@dataclass(frozen=True)
class Device:
    """Rates are per cycle and unit (multiprocessor, compute unit of AMD), latencies in cycles."""

    name: str
    title: str
    architecture: str  # of the gauge, whose measures are used
    units: int
    ghz: float
    issue: int  # threads whose instructions are issued
    integer: int | None  # threads on the integer pipe; None: no pipe of its own
    other: int | None  # threads on the pipes for everything else; None: as many as are issued
    interval: float  # cycles between two instructions of a warp that runs alone
    memory_tb_s: float
    memory: float  # latency
    l2: float
    l1: float
    shared: float
    threads: int = 2048  # resident in a unit
    registers: int = 65536
    shared_bytes: int = 228 << 10
    gap_us: float = 1.0  # from the end of a kernel to the start of the next
    assumptions: Assumptions = Assumptions()

    @property
    def slot_cycles(self):
        return self.interval * self.assumptions.interval

    @property
    def launch_us(self):
        return self.gap_us * self.assumptions.gap + self.assumptions.start_us

    def cycles(self, wait):
        """Cycles of a dependent step: {"memory", "l2", "l1", "shared", "shuffle", "barrier",
        "division", "slot": how many one after the other}."""
        each = {"memory": self.memory * self.assumptions.loaded_memory, "l2": self.l2,
                "l1": self.l1, "shared": self.shared, "shuffle": self.shared, "barrier": BARRIER,
                "division": DIVISION_SLOTS * self.slot_cycles + ROOT_UNIT,
                "slot": self.slot_cycles}
        return sum(each[name] * count for name, count in wait.items())

    def resident_blocks(self, threads, registers, shared_bytes):
        """Blocks that a unit holds at a time."""
        per_thread = -(-max(registers, 16) // 8) * 8
        most = [MOST_BLOCKS, self.threads // threads, self.registers // (per_thread * threads)]
        if shared_bytes:
            most.append(self.shared_bytes // (shared_bytes + 1024))
        return max(1, min(most))


_HOPPER = dict(architecture="sm_90a", units=132, ghz=1.98, issue=128, integer=64, other=128,
               interval=2.0, memory=479, l2=263, l1=41, shared=29)

DEVICES = {device.name: device for device in [
    Device("h200", "H200 SXM", memory_tb_s=4.8, **_HOPPER),
    Device("h100", "H100 SXM", memory_tb_s=3.35, **_HOPPER),
    # Products and sums take a warp in two cycles, too.
    Device("a100", "A100 SXM 80 GB", architecture="sm_80", units=108, ghz=1.41, issue=128,
           integer=64, other=64, interval=2.0, memory_tb_s=2.039, memory=466, l2=262, l1=38,
           shared=29, shared_bytes=164 << 10),
    Device("rtx4090", "RTX 4090", architecture="sm_80", units=128, ghz=2.52, issue=128, integer=64,
           other=128, interval=2.0, memory_tb_s=1.008, memory=542, l2=273, l1=43, shared=30,
           threads=1536, shared_bytes=100 << 10),
    # Integers run at the full rate; latencies are taken from the RTX 4090.
    Device("pro6000", "RTX PRO 6000", architecture="sm_80", units=188, ghz=2.6, issue=128,
           integer=128, other=128, interval=2.0, memory_tb_s=1.792, memory=542, l2=273, l1=43,
           shared=30, threads=1536, shared_bytes=100 << 10),
    # Waves of 64 on 16 lanes: an instruction takes four cycles. Launches go one by one: HIP makes
    # no graphs (docs/gpu_kernels.md).
    Device("mi300x", "MI300X", architecture="gfx942", units=304, ghz=2.1, issue=64, integer=None,
           other=None, interval=4.5, memory_tb_s=5.3, memory=800, l2=250, l1=120, shared=65,
           registers=131072, shared_bytes=64 << 10, gap_us=4.0),
]}


def find_device(name):
    if name not in DEVICES:
        raise ValueError(f"device: expected one of {', '.join(DEVICES)}, found {name}")
    return DEVICES[name]
