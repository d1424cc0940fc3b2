"""The command line of tools/gpu_model."""

import argparse
import sys
from pathlib import Path

from . import document, new_kernels, old_kernels, report
from .batch import parse_row
from .devices import DEVICES, find_device
from .gauge import Gauge
from .step import make_models, titles_of

FOLDER = Path(__file__).resolve().parent
ROWS = ",".join(document.ROWS)


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="tools/gpu_model",
        description="Computes how long steps of DeepSeek-V4-Flash take on a GPU, with the kernels "
                    "of November 2026 and with the new ones, from the measures of the gauge."
                    " Nothing is measured (docs/gpu_model.md).")
    parser.add_argument("--before", metavar="FILE", type=Path, default=FOLDER / "before.json",
                        help="the gauge's measures of the old kernels (default: of November 2026)")
    parser.add_argument("--after", metavar="FILE", type=Path, default=FOLDER / "planned.json",
                        help="measures of the new kernels, such as tools/gpu_gauge/budgets.json "
                             "(default: what is planned)")
    parser.add_argument("--device", default="h200",
                        help=f"one or several of {', '.join(DEVICES)} (default: h200)")
    parser.add_argument("--rows", default=ROWS, help=f"rows of `fathom bench` (default: {ROWS})")
    parser.add_argument("--layers", metavar="ROW", default="tg32@4096",
                        help="show the layers in the last step of this row (default: tg32@4096)")
    parser.add_argument("--kernels", action="store_true",
                        help="show every launch of these layers, too")
    parser.add_argument("--vary", action="store_true",
                        help="show how the ratios change with each assumption")
    parser.add_argument("--check", action="store_true",
                        help="exit with 1 if a demand on the ratios is not met")
    parser.add_argument("--document", action="store_true",
                        help="write the tables of docs/gpu_model.md instead, for the first device")
    return parser.parse_args(arguments)


def make_builds(options, device, rows):
    """[(description, Gauge)] of before and after. Error: a loop is missing."""
    flash = make_models()["flash"]
    demanded = [parse_row(row) for _, _, names, _ in report.DEMANDS for row in names]
    builds = []
    for build, path in ((old_kernels, options.before), (new_kernels, options.after)):
        gauge = Gauge(path, device.architecture)
        gauge.check(titles_of(build, flash, [*rows, *demanded]))
        builds.append((build, gauge))
    return builds


def print_device(options, device, rows, layer_row):
    """Returns whether the demands are met."""
    models = make_models()
    builds = make_builds(options, device, [*rows, layer_row])
    print(f"## {device.title}, computed, with measures of {device.architecture}\n")
    print(report.speeds(builds, device, models.values(), rows), end="\n\n")
    print(f"Layers of Flash in the last step of {layer_row.name}:\n")
    print(report.layers(builds, device, models["flash"], layer_row), end="\n\n")
    if options.kernels:
        for build, gauge in builds:
            print(report.kernels(build, gauge, device, models["flash"], layer_row), end="\n\n")
    text, met = report.demands(builds, device, models)
    print(text)
    if options.vary:
        print("\n" + report.variations(builds, device, models))
    return met


def write_document(options, device):
    builds = make_builds(options, device, map(parse_row, document.ROWS))
    text = document.DOCUMENT.read_text()
    tables = document.render(builds, device, make_models())
    document.DOCUMENT.write_text(document.replace(text, tables))


def main(arguments):
    options = parse(arguments)
    try:
        devices = [find_device(name) for name in options.device.split(",")]
        rows = [parse_row(name) for name in options.rows.split(",")]
        layer_row = parse_row(options.layers)
        if options.document:
            write_document(options, devices[0])
            return 0
        print(f"before: {options.before}\nafter: {options.after}\n")
        met = [print_device(options, device, rows, layer_row) for device in devices]
    except (OSError, ValueError) as error:
        print(f"gpu_model: {error}", file=sys.stderr)
        return 2
    return 1 if options.check and not all(met) else 0
