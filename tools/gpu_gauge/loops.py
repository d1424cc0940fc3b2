"""Names the loops that are measured: where the time of a step goes.

A loop is known by its operations (cuda.OPERATIONS, amd.OPERATIONS), whose counts `where` reads, and
so is the count of numbers that one iteration processes, whatever the compiler has unrolled. If
several inner loops of the kernel fit, those that process most are meant (not the rest of an
unrolled loop), and the largest measure of these copies counts.
"""

from collections.abc import Callable
from dataclasses import dataclass

ARCHITECTURES = ["sm_80", "sm_90a", "gfx942", "gfx1100"]


@dataclass(frozen=True)
class Loop:
    kernel: str
    name: str
    number: str  # measures are given for one of these
    numbers: Callable  # of the counts of operations: how many numbers an iteration processes
    where: Callable  # of the counts of operations: whether this is the loop

    @property
    def title(self):
        return f"{self.kernel}, {self.name}"


def fp8(kernel, name, rows=1):
    """Eight weights of a lane, with each row: seven fma of the chain, one for the block."""
    return Loop(kernel, name, "weight and row", lambda n: n["fma"],
                lambda n: n["fma"] == 8 * rows and n["shuffle"] > 0)


def fp4(kernel, name, rows=1):
    """Eight weights of a lane, with each row: their sum of integers is converted once."""
    return Loop(kernel, name, "weight and row", lambda n: 8 * n["convert"],
                lambda n: n["convert"] == rows and n["fma"] == rows)


def few_rows(kernel, name):
    """The lanes of a block of columns, then their sums: an fma for eight weights.

    The sums of eight rows are not always a loop: they have four blocks at a time.
    """
    format = "convert" if "Fp4" in kernel else "fma"
    each = 8 if format == "convert" else 1
    lanes = Loop(kernel, f"{name}, lanes", "weight and row", lambda n: each * n[format],
                 lambda n: n[format] >= 32 // each and n["load"] > 0 and n["shared load"] == 0)
    sums = Loop(kernel, f"{name}, sums", "weight and row", lambda n: 8 * n["fma"],
                lambda n: n["fma"] > 0 and n["shared load"] > 0 and n["shuffle"] == 0)
    return [lanes] if name == "8 rows" else [lanes, sums]


def attention(kernel, name, products):
    """A step of the tile of a thread: its share of the keys is widened, too.

    Keys that are read by words: number by number they have a loop of their own, or more loads.
    """
    return Loop(kernel, name, "head and dimension of a key", lambda n: n["fma"],
                lambda n: n["fma"] == products and n["shared load"] > 0 and n["load"] < 40)


LOOPS = [
    *few_rows("LinearFp8Row", "1 row"),
    *few_rows("LinearFp8Rows2", "2 rows"),
    *few_rows("LinearFp8Rows4", "4 rows"),
    *few_rows("LinearFp8Rows8", "8 rows"),
    *few_rows("LinearFp4Row", "1 row"),
    *few_rows("LinearFp4Rows2", "2 rows"),
    *few_rows("LinearFp4Rows4", "4 rows"),
    *few_rows("LinearFp4Rows8", "8 rows"),
    fp8("LinearFp8", "more", rows=4),
    fp4("LinearFp4", "more", rows=4),
    # A weight is loaded as F32 or as BF16.
    Loop("LinearPlain", "1 row", "weight and row", lambda n: n["fma"],
         lambda n: n["load"] == 3 * n["fma"] > 0),
    Loop("LinearPlain", "4 rows", "weight and row", lambda n: n["fma"],
         lambda n: 2 * n["load"] == 3 * n["fma"] > 0),
    # Eight weights of a lane, FP8 or BF16.
    Loop("LinearByBlocks", "1 row", "weight and row", lambda n: 8, lambda n: n["fma"] == 8),
    Loop("LinearByBlocks", "4 rows", "weight and row", lambda n: 32, lambda n: n["fma"] >= 32),
    fp4("ExpertHidden", "FP4"),
    fp8("ExpertHidden", "FP8"),
    fp4("ExpertOutput", "FP4"),
    fp8("ExpertOutput", "FP8"),
    attention("AttentionScores", "scores", 128),
    attention("WideAttentionScores", "scores", 256),
    attention("BlockAttentionScores", "scores", 128),
    attention("AttentionValues", "values", 256),
    attention("WideAttentionValues", "values", 512),
    Loop("IndexScores", "scores", "dimension of a key", lambda n: n["integer multiply"],
         lambda n: n["integer multiply"] > 0 and n["load"] > 0),
    # Four weights are a vector of shared memory, and so are four numbers of a row.
    Loop("HcChains", "1 row", "weight and row", lambda n: n["fma"],
         lambda n: n["fma"] == 2 * n["shared load"] > 0),
    Loop("HcChains", "4 rows", "weight and row", lambda n: n["fma"],
         lambda n: 5 * n["fma"] == 16 * n["shared load"] > 0),
    # AMD loads two numbers of shared memory at once.
    Loop("HcPre", "sums of chains", "chain", lambda n: n["add"],
         lambda n: n["add"] in (n["shared load"], 2 * n["shared load"]) and n["add"] > 0),
    # The sums of a row and of a column, each of four numbers and eps.
    Loop("HcPre", "Sinkhorn", "iteration", lambda n: n["add"] // 8,
         lambda n: n["shuffle"] > 0 and n["add"] > 0 and n["add"] % 8 == 0),
    Loop("RmsNorm", "sum", "number", lambda n: n["fma"],
         lambda n: n["fma"] in (n["shared load"], 2 * n["shared load"]) and n["fma"] > 0),
]
