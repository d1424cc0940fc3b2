"""The steps, and how the minutes are divided among them."""

from typing import Callable, NamedTuple

from . import benches, bits, probes, vendor_tools


class Step(NamedTuple):
    run: Callable  # (context, result); failures are sentences in result["failures"]
    seconds: float  # it should have
    least: float  # without which it is not begun
    shows: str


# By worth: the first ones decide whether anything runs, the next ones what is built next.
STEPS = {
    "start": Step(probes.start, 15, 15, "the device, its driver and clocks"),
    "smoke": Step(bits.smoke, 25, 25, "six operations and a greedy text"),
    "benches": Step(benches.benches, 90, 90, "the rows of a slice"),
    "arithmetic": Step(probes.arithmetic, 30, 20, "the sums of matrix units"),
    "wrappers": Step(probes.probe("wrappers"), 10, 10, "the wrappers of tests/hopper"),
    "rates": Step(probes.probe("rates"), 10, 10, "rates of matrix units"),
    "launches": Step(probes.probe("launches"), 10, 10, "times of launches"),
    "ncu": Step(vendor_tools.ncu, 45, 45, "four kernels under ncu"),
    "goldens": Step(bits.goldens, 60, 40, "layers and logits"),
    "conformance": Step(bits.conformance, 60, 45, "the other operations"),
    "streaming": Step(probes.probe("streaming"), 15, 10, "reading of weights"),
    "clusters": Step(probes.probe("clusters"), 15, 10, "clusters of blocks"),
    "prefetch": Step(probes.probe("prefetch"), 15, 10, "prefetching into the cache"),
    "host": Step(probes.probe("host"), 15, 10, "the memory of the host"),
    "memcheck": Step(vendor_tools.sanitize("memcheck"), 30, 30, "memory, by compute-sanitizer"),
    "racecheck": Step(vendor_tools.sanitize("racecheck"), 30, 30, "races, by compute-sanitizer"),
    "schedules": Step(bits.schedules, 35, 10, "requests at once"),
    "experiment": Step(benches.experiment, 300, 30, "--experiment NAME"),
}
PLANS = {"first": [name for name in STEPS if name != "experiment"]}


def divide(steps, seconds):
    """Divides seconds among steps: {name: seconds}, and what no step needs.

    Each gets its least as long as there are seconds, in the order of the steps; what is left then
    makes them up to what they should have, in the same order.
    """
    shares = {}
    for name, step in steps.items():
        if step.least <= seconds:
            shares[name] = step.least
            seconds -= step.least
    for name in shares:
        more = min(steps[name].seconds - steps[name].least, seconds)
        shares[name] += more
        seconds -= more
    return shares, seconds
