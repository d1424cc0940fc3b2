#!/usr/bin/env python3
"""Compares what `fathom plan` expects of this machine with what is measured on it.

    tools/plan_accuracy.py [--fathom FILE] [--model DIR] [--threads N] [--rows ROW,...]
                           [--ranks | --processor-time] [--calibrate ROW,ROW]
                           [--hardware FILE]

Measures rows with `fathom bench`, which measures the machine's limits between them, writes these as
a hardware file (to --hardware, if given), and prints for each row the tokens per second that the
plan expects of it, those measured, and the error. --ranks does the same with `fathom launch -n 2
bench`, with tensor ranks and with stages, each device being half of what both ranks measure at the
same time. --calibrate names a decoding and a prefill row of one rank: the hardware's efficiencies
become what these two show, as one would do for a machine that is there, and all other rows say how
far that carries.

On a machine with other work --processor-time compares with the seconds that one thread has run
instead of those that went by, and with the best limits that were seen.
"""

import argparse
import json
import multiprocessing
import os
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROW = re.compile(r"(?P<kind>pp|tg)(?P<tokens>\d+)(@(?P<depth>\d+))?(x(?P<sequences>\d+))?$")
CHUNK = 512
CUTS = [["--tp", "2", "--ep", "2"], ["--tp", "2", "--ep", "1"], ["--pp", "2"]]


def run(arguments):
    """Standard output of a program; its error ends this one."""
    done = subprocess.run(arguments, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"plan_accuracy: {' '.join(map(str, arguments))} failed")
    return done.stdout


def hardware_of(report, n_ranks, link, efficiency, limits="roofline"):
    """The machine as a hardware file: limits that a report of `fathom bench` has, cut evenly."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = report[limits]
    return {
        "name": f"{report['threads']} threads, {report['isa']}",
        "source": "the roofline of fathom bench",
        "nodes": 1,
        "devices_per_node": n_ranks,
        "device": {"memory_bytes": memory / n_ranks,
                   "memory_gb_s": limits["read_gb_s"] / n_ranks,
                   "gflop_s": limits["fma_gflop_s"] / n_ranks},
        "efficiency": efficiency,
        "links": {"node": link},
    }


def receive(link, buffer):
    """Fills the buffer; false at the end of the connection."""
    view = memoryview(buffer)
    while view:
        n_bytes = link.recv_into(view)
        if n_bytes == 0:
            return False
        view = view[n_bytes:]
    return True


def echo(link, sizes):
    """The other end of measure_link: a byte back for each message."""
    for size in sizes:
        receive(link, bytearray(size))
        link.sendall(b"1")


def measure_link():
    """Latency and speed of a Unix socket between two processes."""
    large, few, many = 4 << 20, 30, 500
    sizes = [1] * many + [large] * few
    here, there = socket.socketpair()
    process = multiprocessing.Process(target=echo, args=(there, sizes))
    process.start()
    times = []
    for size in sizes:
        message = bytes(size)
        start = time.perf_counter()
        here.sendall(message)
        receive(here, bytearray(1))
        times.append(time.perf_counter() - start)
    process.join()
    here.close()
    there.close()
    round_trip = statistics.median(times[:many])
    sending = statistics.median(times[many:]) - round_trip / 2
    return {"gb_s": large / sending / 1e9, "latency_us": round_trip / 2 * 1e6}


def expect(options, hardware, arguments):
    """The rows of a plan."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(hardware, file)
        file.flush()
        plan = json.loads(run([options.fathom, "plan", *model_of(options), "--hardware", file.name,
                               "--format", "json", *map(str, arguments)]))
    return plan["rows"]


def model_of(options):
    return ["--model", options.model] if options.model else []


def bench(options, cut, rows):
    """The report of these rows, on one rank or on two."""
    n_ranks = 2 if cut else 1
    launch = ["launch", "-n", str(n_ranks)] if cut else []
    return json.loads(run([options.fathom, *launch, "bench", *cut, *model_of(options), "--rows",
                           ",".join(rows), "--threads", str(options.threads // n_ranks), "--reps",
                           str(options.reps), "--chunk", str(CHUNK), "--bandwidth-mib",
                           str(options.bandwidth_mib), "--json"]))


def processor_seconds(options, model, row):
    """Of a repetition of a row, with the measurement of the limits before it."""
    def of_run(n_repetitions):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run([options.fathom, "bench", *model, "--rows", row, "--threads", "1", "--reps",
             str(n_repetitions), "--chunk", str(CHUNK), "--bandwidth-mib", "1"])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return (of_run(options.reps + 1) - of_run(1)) / options.reps


def rates_of(options, report):
    """Tokens per second of the rows of a report."""
    rates = {row["name"]: row["tok_s"]["median"] for row in report["rows"]}
    if options.processor_time:
        limits_alone = processor_seconds(options, [], "tg1")  # the embedded model takes no time
        for row in report["rows"]:
            seconds = processor_seconds(options, model_of(options), row["name"]) - limits_alone
            rates[row["name"]] = row["n_tokens"] * row["n_sequences"] / seconds
    return rates


def expected_rate(options, hardware, cut, row):
    """Tokens per second that the plan expects of a row of `fathom bench`."""
    match = ROW.match(row)
    n_tokens, depth = int(match["tokens"]), int(match["depth"] or 0)
    n_sequences = int(match["sequences"] or 1)
    if match["kind"] == "pp" and (depth or n_sequences > 1):
        sys.exit(f"plan_accuracy: row {row}: a plan knows prompts of one sequence at depth 0 only")
    if match["kind"] == "tg":
        middle = depth + n_tokens // 2
        arguments = ["--context", middle + 1, "--prompt", 1, "--concurrency", n_sequences]
    else:
        arguments = ["--context", n_tokens, "--prompt", n_tokens, "--chunk", CHUNK]
    flags = dict(zip(cut[::2], map(int, cut[1::2])))
    wanted = {"tp": flags.get("--tp", 1), "pp": flags.get("--pp", 1), "ep": flags.get("--ep", 1),
              "dp_attention": 1, "replicas": 1}
    planned = next(each for each in expect(options, hardware, arguments)
                   if each.items() >= wanted.items())
    return planned["tokens_per_s"] if match["kind"] == "tg" else n_tokens / planned["ttft_s"]


def print_row(name, expected, measured):
    error = 100 * (expected / measured - 1)
    print(f"{name:<16} {expected:>10.1f} {measured:>10.1f} {error:>+8.0f} %")


def calibrate(options, hardware, rates):
    """Efficiencies with which a decoding and a prefill row are as measured."""
    decoding, prefill = options.calibrate.split(",")
    efficiency = {"memory": 1.0, "compute": 1.0}
    for _ in range(20):  # each row depends on both a little
        for key, row in (("memory", decoding), ("compute", prefill)):
            rate = expected_rate(options, hardware | {"efficiency": efficiency}, [], row)
            efficiency[key] = min(max(efficiency[key] * rates[row] / rate, 0.001), 10.0)
    return efficiency


def compare(options, name, rates, hardware, cut):
    """Prints what was expected and measured of every row."""
    device = hardware["device"]
    print(f"{name}: a device reads {device['memory_gb_s']:.1f} GB/s, "
          f"{device['gflop_s']:.0f} GFLOP/s", flush=True)
    for row, measured in rates.items():
        print_row(row, expected_rate(options, hardware, cut, row), measured)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fathom", default=ROOT / "build/release/fathom")
    parser.add_argument("--model", help="default: the embedded one")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", default="pp512,pp2048,tg128,tg128@4096,tg128@16384,tg128x2,"
                                          "tg128x4,tg128x8")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--bandwidth-mib", type=int, default=1024)
    parser.add_argument("--ranks", action="store_true")
    parser.add_argument("--rank-rows", default="pp2048,tg128,tg128x4")
    parser.add_argument("--calibrate", metavar="ROW,ROW")
    parser.add_argument("--hardware", metavar="FILE", help="where the hardware file is written")
    options = parser.parse_args()

    if options.processor_time:
        options.threads = 1
    report = bench(options, [], options.rows.split(","))
    rates = rates_of(options, report)
    link = measure_link()
    limits = "roofline_best" if options.processor_time else "roofline"
    hardware = hardware_of(report, 1, link, {}, limits)
    if options.calibrate:
        hardware["efficiency"] = calibrate(options, hardware, rates)
    if options.hardware:
        Path(options.hardware).write_text(json.dumps(hardware, indent=2) + "\n")
    print(f"link {link['gb_s']:.1f} GB/s and {link['latency_us']:.0f} us; efficiency "
          f"{hardware['efficiency']}")
    print(f"{'tokens a second':<16} {'expected':>10} {'measured':>10} {'error':>10}")
    compare(options, "one rank", rates, hardware, [])
    for cut in CUTS if options.ranks else []:
        on_two = bench(options, cut, options.rank_rows.split(","))
        compare(options, " ".join(cut), rates_of(options, on_two),
                hardware_of(on_two, 2, link, hardware["efficiency"], limits), cut)
    return 0


if __name__ == "__main__":
    sys.exit(main())
