#!/usr/bin/env python3
"""Checks that the files of src/FOLDER are in the namespace fathom::FOLDER, and that each namespace sees
those of the folders that it may include.

Files of base are in fathom itself. A file declares types of another folder in that folder's namespace
and defines nothing there. src/base/namespaces.h opens the namespaces along the arrows of
tools/check_layers.py.

usage: tools/check_namespaces.py [ROOT]
"""

import re
import sys
from pathlib import Path

from check_layers import MAY_LINK, SOURCE_SUFFIXES
from namespaces import lines_in_namespaces

DECLARATION = re.compile(r"(?:class|struct|enum class) \w+(?: : [\w:]+)?;(?:\s*//.*)?$|\s*(?://.*)?$")
ROOM = re.compile(r"namespace (\w+) \{([^{}]*)\}")
DIRECTIVE = re.compile(r"using namespace (\w+);")


def below(table):
    """{folder: every folder that an arrow or several lead to}, base left out."""
    reached = {}
    for folder, links in table.items():  # a folder stands after those below it
        reached[folder] = set(links).union(*(reached.get(link, set()) for link in links)) - {"base"}
    return reached


def check_arrows(header):
    """Compares the directives of namespaces.h with the table of check_layers.py."""
    opened = {room: DIRECTIVE.findall(body) for room, body in ROOM.findall(header)}
    expected = below(MAY_LINK)
    found = below(opened)
    return [f"src/base/namespaces.h: {folder}: expected the namespaces {sorted(names)}, "
            f"found {sorted(found.get(folder, set()))}"
            for folder, names in expected.items()
            if folder != "base" and (folder not in found or found[folder] != names)]


def check_file(path, text):
    """path: relative to the root, below src."""
    folder = path.parts[1]
    room = "fathom" if folder == "base" else f"fathom::{folder}"
    for namespaces, line in lines_in_namespaces(text):
        name = namespaces[0] if namespaces else ""
        if (name.startswith("fathom") and not f"{name}::".startswith(f"{room}::")
                and not DECLARATION.match(line)):
            return [f"{path}: expected the namespace {room}, found {name}: {line.strip()}"]
    return []


def check_project(root):
    header = root / "src/base/namespaces.h"
    errors = check_arrows(header.read_text(encoding="utf-8"))
    for file in sorted((root / "src").rglob("*")):
        if file.suffix in SOURCE_SUFFIXES and file != header:
            errors += check_file(file.relative_to(root), file.read_text(encoding="utf-8"))
    return errors


def main():
    errors = check_project(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    for error in errors:
        print(error)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
