#!/usr/bin/env python3
"""Checks that the kernel objects built for one instruction set define no weak symbol.

    tools/check_weak_symbols.py BUILD_DIR

A weak symbol (an inline function, a template of the standard library) may be defined in many
objects, and the linker keeps any one of them for everybody. If it keeps the copy that was compiled
for AVX-512, the program dies on a machine without it, far from any kernel. The objects are those of
the CMake targets kernels_<isa> below src/.
"""

import subprocess
import sys
from pathlib import Path

# nm's letters for defined symbols that the linker may replace: weak, weak object, unique.
REPLACEABLE = {"W", "w", "V", "v", "u"}


def weak_symbols(nm_output):
    """Names of the replaceable symbols in the output of `nm --defined-only -C`."""
    names = []
    for line in nm_output.splitlines():
        fields = line.split(maxsplit=2)
        if len(fields) == 3 and fields[1] in REPLACEABLE:
            names.append(fields[2])
    return names


def kernel_objects(build_dir):
    return sorted(path for path in (build_dir / "src").rglob("*.o")
                  if any(part.startswith("kernels_") and part.endswith(".dir")
                         for part in path.parts))


def main():
    if len(sys.argv) != 2:
        print("usage: tools/check_weak_symbols.py BUILD_DIR", file=sys.stderr)
        return 2
    build_dir = Path(sys.argv[1])
    objects = kernel_objects(build_dir)
    if not objects:
        print(f"no objects of targets kernels_<isa> below {build_dir}/src: nothing was checked")
        return 1
    n_weak = 0
    for path in objects:
        listing = subprocess.run(["nm", "--defined-only", "-C", str(path)], check=True,
                                 capture_output=True, text=True).stdout
        for name in weak_symbols(listing):
            print(f"{path.relative_to(build_dir)}: weak symbol {name}")
            n_weak += 1
    print(f"{len(objects)} kernel objects, {n_weak} weak symbols")
    return 1 if n_weak else 0


if __name__ == "__main__":
    sys.exit(main())
