"""The measures of loops that tools/check_gpu_objects.py --gauge has written."""

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class LoopMeasures:
    numbers: int  # numbers that an iteration processes
    slots: float  # per number
    integer: float  # per number; 0 where the architecture has no such pipe
    loads: tuple  # (bytes, how many per number)
    registers: int


class Gauge:
    """A file like tools/gpu_gauge/budgets.json, for one architecture."""

    def __init__(self, path, architecture):
        self.path = path
        self.architecture = architecture
        loops = json.loads(path.read_text())["loops"]
        if architecture not in loops:
            raise ValueError(f"{path}: expected loops of {architecture}, found "
                             f"{', '.join(loops) or 'none'}")
        self.found = loops[architecture]

    def loop(self, title):
        if title not in self.found:
            raise ValueError(f'{self.path}, {self.architecture}: expected a loop "{title}", found '
                             f"none")
        found = self.found[title]
        slots = found["vector" if "vector" in found else "slots"]
        numbers = found["numbers"]
        loads = [(int(width), count / numbers)
                 for kind in ("load bytes", "shared load bytes")
                 for width, count in found.get(kind, {}).items()]
        return LoopMeasures(numbers, slots / numbers, found.get("integer", 0) / numbers,
                            tuple(loads), found["registers"])

    def check(self, titles):
        """Names all loops that are missing, not only the first."""
        missing = sorted(title for title in titles if title not in self.found)
        if missing:
            raise ValueError(f"{self.path}, {self.architecture}: expected loops that it does not "
                             "have: " + ", ".join(f'"{title}"' for title in missing)
                             + ". It has: " + ", ".join(f'"{title}"' for title in self.found))
