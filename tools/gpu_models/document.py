"""The tables of docs/gpu_model.md."""

from . import report
from .batch import parse_row
from .shapes import ROOT

DOCUMENT = ROOT / "docs" / "gpu_model.md"
BEGIN = "<!-- tools/gpu_model --document writes these tables -->\n"
END = "<!-- end of the tables -->\n"
ROWS = ["tg64", "tg32@4096", "tg16x4", "tg16x16", "pp512", "pp4096"]
LAYERS = "tg32@4096"


def render(builds, device, models):
    parts = [f"Computed for one {device.title}, not measured:",
             report.speeds(builds, device, models.values(), map(parse_row, ROWS)),
             report.demands(builds, device, models)[0],
             f"The layers of Flash in `{LAYERS}`:",
             report.layers(builds, device, models["flash"], parse_row(LAYERS)),
             "The ratios with one assumption at a time at each end of its range:",
             report.variations(builds, device, models)]
    return "\n" + "\n\n".join(parts) + "\n\n"


def replace(document, tables):
    before, rest = document.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + tables + END + after
