"""The tokens of a step, and how many cached rows they see (docs/spec/model.md 5 and 6)."""

import re
from dataclasses import dataclass

SLOTS = 64  # slots of a step of attention: kAttentionBlock of device/attention.h
CHUNK = 512  # tokens of a prefill step of `fathom bench`


@dataclass(frozen=True)
class Batch:
    rows: int
    first: int  # position of the first token
    is_prompt: bool  # tokens of one sequence; else one token each of `rows` sequences

    @property
    def positions(self):
        return range(self.first, self.first + self.rows) if self.is_prompt else [self.first]

    def mean(self, function):
        """The mean of function(position) over the rows."""
        return sum(map(function, self.positions)) / len(self.positions)


def visible(position, ratio):
    """Compressed rows that a token sees, before any are chosen."""
    return (position + 1) // ratio if ratio else 0


def window_slots(shape, position):
    return min(shape.sliding_window, position + 1)


def chosen_slots(shape, position, ratio):
    rows = visible(position, ratio)
    return min(rows, shape.index_topk) if ratio == 4 else rows


def steps_of(slots):
    return -(-slots // SLOTS)


def needs_index(shape, batch):
    """Whether rows are chosen by score: some token sees more than may be chosen."""
    return visible(batch.positions[-1], 4) > shape.index_topk


@dataclass(frozen=True)
class Row:
    """A row of `fathom bench`, such as tg32@4096, tg16x4, pp4096."""

    name: str
    tokens: int  # of each sequence
    depth: int
    sequences: int
    is_prompt: bool

    def batches(self):
        """The steps, and whether they need logits. Decoding: a step in the middle."""
        if not self.is_prompt:
            return [(Batch(self.sequences, self.depth + self.tokens // 2, False), True)]
        starts = range(0, self.tokens, CHUNK)
        return [(Batch(min(CHUNK, self.tokens - start), self.depth + start, True),
                 start == starts[-1]) for start in starts]

    def tokens_of_batches(self):
        return self.tokens if self.is_prompt else self.sequences


def parse_row(name):
    match = re.fullmatch(r"(tg|pp)([1-9]\d*)(?:@(\d+))?(?:x([1-9]\d*))?", name)
    if not match or (match[1] == "pp" and match[4]):
        raise ValueError("row: expected one like tg64, tg32@4096, tg16x4, pp512 or pp4096@8192, "
                         f"found {name}")
    return Row(name, int(match[2]), int(match[3] or 0), int(match[4] or 1), match[1] == "pp")
