"""Follows the namespaces of formatted C++."""

import re

OPENING = re.compile(r"(?:inline )?namespace (?:([\w:]+) )?\{")
CLOSING = "}  // namespace"


def lines_in_namespaces(text):
    """Yields (namespaces, line) for each line that neither opens nor closes a namespace: the names of
    the namespaces around the line, outermost first, "" for an unnamed one."""
    around = ()
    for line in text.split("\n"):
        if opened := OPENING.match(line):
            around += (opened.group(1) or "",)
        elif line.startswith(CLOSING):
            around = around[:-1]
        else:
            yield around, line
