#!/usr/bin/env python3
"""Checks that no type is defined by two headers in one namespace.

Two types of one name are two meanings for a reader. A program that includes both headers does not
compile; one that links both may call the functions of the wrong one without a message.

usage: tools/check_type_names.py [ROOT]
"""

import collections
import pathlib
import re
import sys

from namespaces import lines_in_namespaces

# Each stands for another header in programs of its own, of other instructions.
ALTERNATIVES = re.compile(r"kernels/cpu/vector/simd_\w+\.h$")
TYPE = re.compile(
    r"(?:struct|class|union|enum class|enum)\s+(?:alignas\([^)]*\)\s+|\[\[[^\]]*\]\]\s+)*"
    r"([A-Za-z_]\w*)(?![\w:<])[^;]*(?:\{|$)")
ALIAS = re.compile(r"using\s+([A-Za-z_]\w*)\s*=")


def defined_types(text):
    """Returns the types at the beginning of lines, with their namespaces: not declarations."""
    types = set()
    for namespaces, line in lines_in_namespaces(text):
        line = re.sub(r"^template <.*> (?=struct|class|union|using)", "", line)
        found = ALIAS.match(line) or TYPE.match(line)
        if found:
            types.add("::".join([*namespaces, found.group(1)]))
    return types


def repeated_types(files):
    """files: (name, text) of headers. Returns {type: headers that define it}, if several do."""
    places = collections.defaultdict(list)
    for name, text in files:
        for defined in defined_types(text):
            places[defined].append(name)
    return {name: headers for name, headers in places.items() if len(headers) > 1}


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    headers = [header for header in sorted((root / "src").rglob("*.h"))
               if not ALTERNATIVES.search(header.as_posix())]
    repeated = repeated_types(
        (str(header.relative_to(root)), header.read_text(encoding="utf-8")) for header in headers)
    for name, places in sorted(repeated.items()):
        print(f"{name}: expected one definition, found {', '.join(places)}")
    return 1 if repeated or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
