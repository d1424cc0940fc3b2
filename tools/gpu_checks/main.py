"""The command line of gpu_check."""

import argparse
from pathlib import Path

from . import bundle, run
from .benches import EXPERIMENTS
from .plan import PLANS, STEPS

ROOT = Path(__file__).resolve().parent.parent


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="gpu_check", description="Checks and measures Fathom on a machine with a GPU.")
    parser.add_argument("--bundle", metavar="DIR", type=Path,
                        help="make a bundle for the machine with the GPU, and run nothing")
    parser.add_argument("--source", metavar="DIR", type=Path, default=ROOT.parent,
                        help="bundle: the project (default: the one of this tool)")
    parser.add_argument("--build", metavar="DIR", type=Path,
                        default=ROOT.parent / "build" / "release",
                        help="bundle: where Fathom was built (default: build/release)")
    parser.add_argument("--shared", metavar="DIR", type=Path, default=ROOT.parent.parent / "shared",
                        help="bundle: golden data (default: ../shared)")
    parser.add_argument("--limit-mib", metavar="N", type=float, default=64,
                        help="bundle: most MiB of what travels (default: 64)")
    parser.add_argument("--quick", action="store_true",
                        help="bundle: for an emulated device, whose checks are the smallest ones")
    parser.add_argument("--out", metavar="FILE", type=Path, help="where the results are written")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--plan", metavar="NAME", choices=list(PLANS),
                      help="run the steps of a plan that fit into the minutes: first (the default), "
                           "for the first run on a device")
    what.add_argument("--step", metavar="NAME", action="append", choices=list(STEPS),
                      help="run this step only; may be repeated: " +
                           ", ".join(f"{name} ({step.shows})" for name, step in STEPS.items()))
    parser.add_argument("--minutes", metavar="N", type=float, default=8.5,
                        help="begin nothing later, and end everything by then (default: 8.5)")
    parser.add_argument("--device", metavar="NAME:N", default="cuda:0",
                        help="the GPU, as `fathom devices` lists it (default: cuda:0); bundle: for "
                             "devices of this vendor")
    parser.add_argument("--bandwidth-mib", metavar="N", type=int, default=1024,
                        help="memory that bandwidths are measured with (default: 1024)")
    parser.add_argument("--experiment", metavar="NAME", choices=list(EXPERIMENTS),
                        help=f"of the step experiment: {', '.join(EXPERIMENTS)}")
    options = parser.parse_args(arguments)
    if (options.bundle is None) == (options.out is None):
        parser.error("expected one of --bundle and --out")
    name, _, number = options.device.partition(":")
    if name not in ("cuda", "hip") or not number.isdigit():
        parser.error(f"--device: expected cuda:N or hip:N, found {options.device!r}")
    if options.step is None:
        options.plan = options.plan or "first"
        options.step = list(PLANS[options.plan])
        if options.experiment:
            options.step.append("experiment")
    if "experiment" in options.step and not options.experiment:
        parser.error(f"the step experiment: expected --experiment {'|'.join(EXPERIMENTS)}")
    return options


def main(arguments):
    options = parse(arguments)
    if options.bundle is not None:
        return bundle.make(options)
    return run.run(options, ROOT)
