#!/usr/bin/env python3
"""Checks that names in unnamed namespaces differ within a folder.

Presets compile the files of a folder together (CMAKE_UNITY_BUILD), so that the unnamed namespaces of
these files are one. A name that two files define is an error of the compiler at best; two functions
with other parameters would become overloads, and a call could choose the wrong one.

usage: tools/check_unnamed_names.py [ROOT]
"""

import collections
import pathlib
import re
import sys

from namespaces import lines_in_namespaces

FOLDERS = ("src/*", "tests/*")
# Compiled once per instruction set, one by one (src/kernels/CMakeLists.txt), or a program of its own.
ALONE = re.compile(r"kernels/cpu/(vector|tiles)/|/scripted_server\.cc$")
DEFINITIONS = (
    re.compile(r"(?:struct|class|union|enum class|enum)\s+([A-Za-z_]\w*)"),
    re.compile(r"(?:static |inline )*(?:constexpr|const|thread_local)\s.*?\b([A-Za-z_]\w*)"
               r"(?:\[[^\]]*\])*\s*(?:=|\{)"),
    re.compile(r"[\w:<>,*&\[\]() ]+?[ *&]([A-Za-z_]\w*)\("),
    re.compile(r"([A-Za-z_]\w*)\("),
)
NOT_DEFINITIONS = ("TEST", "INSTANTIATE", "MATCHER", "RC_", "using ", "namespace ", "template")


def unnamed_names(text):
    """Returns the names that a file defines in unnamed namespaces, with their namespace."""
    names = set()
    for namespaces, line in lines_in_namespaces(text):
        if "" not in namespaces or not line[:1].isalpha() or line.startswith(NOT_DEFINITIONS):
            continue
        matches = (pattern.match(line) for pattern in DEFINITIONS)
        found = next((match.group(1) for match in matches if match), None)
        if found:
            names.add("::".join([*filter(None, namespaces), found]))
    return names


def repeated_names(files):
    """files: (name, text) of one folder. Returns {name: files that define it}, if several do."""
    places = collections.defaultdict(list)
    for name, text in files:
        for defined in unnamed_names(text):
            places[defined].append(name)
    return {name: files for name, files in places.items() if len(files) > 1}


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    has_failed = False
    for folder in sorted(folder for pattern in FOLDERS for folder in root.glob(pattern)):
        files = [(path.relative_to(root).as_posix(), path.read_text())
                 for path in sorted(folder.rglob("*.cc")) if not ALONE.search(path.as_posix())]
        for name, places in sorted(repeated_names(files).items()):
            print(f"{name} is defined in the unnamed namespaces of {', '.join(places)}: "
                  "rename one, or share it")
            has_failed = True
    return 1 if has_failed else 0


if __name__ == "__main__":
    sys.exit(main())
