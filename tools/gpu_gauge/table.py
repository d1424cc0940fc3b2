"""The table of the budgets in docs/gpu_kernels.md."""

from .disassemblers import ROOT
from .loops import LOOPS

DOCUMENT = ROOT / "docs" / "gpu_kernels.md"
BEGIN = "<!-- tools/check_gpu_objects.py --gauge --update writes this table -->\n"
END = "<!-- end of the table -->\n"

# (heading, architecture, measure); a measure of the loop is divided by its numbers.
COLUMNS = [("sm_90a: slots", "sm_90a", "slots"), ("integer", "sm_90a", "integer"),
           ("loads", "sm_90a", "load bytes"), ("registers", "sm_90a", "registers"),
           ("sm_80: slots", "sm_80", "slots"), ("registers", "sm_80", "registers"),
           ("gfx942: vector", "gfx942", "vector"), ("registers", "gfx942", "registers"),
           ("gfx1100: vector", "gfx1100", "vector"), ("registers", "gfx1100", "registers")]


def cell(found, measure):
    if found is None:
        return ""
    if measure == "load bytes":
        return ", ".join(f"{count} x {width}" for width, count in found[measure].items())
    if measure == "registers":
        return str(found[measure])
    return f"{found[measure] / found['numbers']:.1f}"


def render(budgets):
    rows = [["loop", "per", *(heading for heading, *_ in COLUMNS)], ["---"] * (2 + len(COLUMNS))]
    for loop in LOOPS:
        cells = [cell(budgets["loops"].get(architecture, {}).get(loop.title), measure)
                 for _, architecture, measure in COLUMNS]
        rows.append([f"`{loop.kernel}`, {loop.name}", loop.number, *cells])
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def replace(document, budgets):
    """The text of the document with the table of the budgets."""
    before, rest = document.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + render(budgets) + END + after
