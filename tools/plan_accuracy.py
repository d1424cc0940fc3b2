#!/usr/bin/env python3
"""Compares the speed that `fathom plan` expects of this machine with the measured speed.

    tools/plan_accuracy.py [--fathom FILE] [--model DIR] [--threads N] [--rows ROW,...]
                           [--ranks | --hosts N,... | --processor-time] [--calibrate ROW,ROW]
                           [--hardware FILE]

Measures rows with `fathom bench`, which also measures the machine's limits between them, writes the
limits as a hardware file (to --hardware, if given), and prints for each row the expected and the
measured tokens per second and the error. --ranks runs `fathom launch -n 2 bench` instead, with
tensor ranks and with stages; each device has half of the limits that both ranks measure at the same
time. --hosts runs `mpirun` with N hosts of one rank: network namespaces (root and iproute2), whose
links are shaped to each of --rates; each device has an N-th of the limits of one rank with all
threads, since more ranks than cores cannot measure at the same time. --calibrate names a decoding
and a prefill row of one rank, from which the hardware's efficiencies are computed, as for a machine
at hand; all other rows show how well these efficiencies apply.

On a machine with other work, --processor-time compares with the seconds for which one thread has run
instead of the elapsed seconds, and with the best measured limits.
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
for folder in ("bench", "tests/server"):
    sys.path.insert(0, str(ROOT / folder))
from exchange_hosts import shape  # noqa: E402
from hosts_test import NETWORK, Hosts  # noqa: E402

ROW = re.compile(r"(?P<kind>pp|tg)(?P<tokens>\d+)(@(?P<depth>\d+))?(x(?P<sequences>\d+))?$")
CHUNK = 512
CUTS = [["--tp", "2", "--ep", "2"], ["--tp", "2", "--ep", "1"], ["--pp", "2"]]
LINK_PORT = 20_408


def run(arguments):
    """Standard output of a program; its error ends this one."""
    done = subprocess.run(arguments, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"plan_accuracy: {' '.join(map(str, arguments))} failed")
    return done.stdout


def hardware_of(report, n_ranks, links, efficiency, limits="roofline"):
    """The machine as a hardware file: limits that a report of `fathom bench` has, cut evenly.

    links: between ranks of one node, or, if they are of the network, of nodes of one rank.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = report[limits]
    return {
        "name": f"{report['threads']} threads, {report['isa']}",
        "source": "the roofline of fathom bench",
        "nodes": n_ranks if "network" in links else 1,
        "devices_per_node": 1 if "network" in links else n_ranks,
        "device": {"memory_bytes": memory / n_ranks,
                   "memory_gb_s": limits["read_gb_s"] / n_ranks,
                   "gflop_s": limits["fma_gflop_s"] / n_ranks},
        "efficiency": efficiency,
        "links": links,
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


MESSAGES = [1] * 500 + [4 << 20] * 10


def time_messages(link):
    """Latency and speed of a connection whose other end echoes."""
    times = {size: [] for size in MESSAGES}
    for size in MESSAGES:
        message = bytes(size)
        start = time.perf_counter()
        link.sendall(message)
        receive(link, bytearray(1))
        times[size].append(time.perf_counter() - start)
    small, large = min(times), max(times)
    round_trip = statistics.median(times[small])
    sending = statistics.median(times[large]) - round_trip / 2
    return {"gb_s": large / sending / 1e9, "latency_us": round_trip / 2 * 1e6}


def measure_link():
    """Measures a Unix socket between two processes."""
    here, there = socket.socketpair()
    process = multiprocessing.Process(target=echo, args=(there, MESSAGES))
    process.start()
    with here, there:
        link = time_messages(here)
    process.join()
    return link


def answer_link(address):
    """The other end of measure_host_link, in a process on that host."""
    with socket.create_server((address, LINK_PORT)) as server:
        print("listening", flush=True)
        link = server.accept()[0]
        with link:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            echo(link, MESSAGES)


def ask_link(address):
    with socket.create_connection((address, LINK_PORT)) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print(json.dumps(time_messages(link)))


def measure_host_link(hosts):
    """Measures TCP between the first two hosts."""
    def on(host, what):
        return ["ip", "netns", "exec", hosts.names[host], sys.executable, __file__, what,
                f"{NETWORK}.10"]

    with subprocess.Popen(on(0, "--answer-link"), stdout=subprocess.PIPE) as server:
        server.stdout.readline()
        return json.loads(run(on(1, "--ask-link")))


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


def bench(options, start, n_ranks, cut, rows):
    """The report of these rows, by `start`, the words that start fathom on so many ranks."""
    threads = max(options.threads // n_ranks, 1)
    return json.loads(run([*start, "bench", *cut, *model_of(options), "--rows", ",".join(rows),
                           "--threads", str(threads), "--reps", str(options.reps), "--chunk",
                           str(CHUNK), "--bandwidth-mib", str(options.bandwidth_mib), "--json"]))


def processor_seconds(options, model, row):
    """Returns the processor time of a repetition of a row, the limits measured before it."""
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


def planned_cut(cut):
    """Returns what a row of a plan says of these options."""
    if "--dp-attention" in cut:
        n_data = int(cut[cut.index("--ep") + 1])
        return {"tp": 1, "pp": 1, "ep": n_data, "dp_attention": n_data, "replicas": 1}
    flags = dict(zip(cut[::2], map(int, cut[1::2])))
    tensor = flags.get("--tp", 1)
    return {"tp": tensor, "pp": flags.get("--pp", 1), "ep": flags.get("--ep", tensor),
            "dp_attention": 1, "replicas": 1}


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
    planned = next(each for each in expect(options, hardware, arguments)
                   if each.items() >= planned_cut(cut).items())
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


def host_cuts(n_hosts):
    cuts = [["--tp", str(n_hosts)], ["--ep", str(n_hosts), "--dp-attention"]]
    if n_hosts > 2:
        cuts.append(["--tp", str(n_hosts // 2), "--pp", "2"])
    return cuts


def busy_rows(cut, rows):
    """Returns the rows of prefill, and the rows that give each data rank and stage a sequence: on
    cores that the ranks share, a rank without one leaves them to the others, which no devices do."""
    planned = planned_cut(cut)
    least = planned["dp_attention"] * planned["pp"]

    def is_busy(row):
        match = ROW.match(row)
        return match["kind"] == "pp" or int(match["sequences"] or 1) >= least

    return [row for row in rows if is_busy(row)]


def compare_hosts(options, report, efficiency, n_hosts):
    """report: of one rank with all threads."""
    hosts = Hosts(n_hosts)
    try:
        for rate in options.rates.split(","):
            shape(hosts, float(rate))
            link = measure_host_link(hosts)
            print(f"{n_hosts} hosts, links of {rate} MB/s: {1e3 * link['gb_s']:.1f} MB/s and "
                  f"{link['latency_us']:.0f} us")
            start = [*hosts.mpirun()[:-1], options.fathom]
            for cut in host_cuts(n_hosts):
                rows = busy_rows(cut, options.rank_rows.split(","))
                compare(options, " ".join(cut),
                        rates_of(options, bench(options, start, n_hosts, cut, rows)),
                        hardware_of(report, n_hosts, {"network": link}, efficiency), cut)
    finally:
        hosts.close()


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
    parser.add_argument("--hosts", metavar="N,...")
    parser.add_argument("--rates", default="25,100", help="MB/s of a host's link (default: 25,100)")
    parser.add_argument("--rank-rows", default="pp2048,tg128,tg128x4")
    for end in ("--answer-link", "--ask-link"):
        parser.add_argument(end, metavar="ADDRESS", help=argparse.SUPPRESS)
    parser.add_argument("--calibrate", metavar="ROW,ROW")
    parser.add_argument("--hardware", metavar="FILE", help="where the hardware file is written")
    options = parser.parse_args()
    if options.answer_link:
        return answer_link(options.answer_link)
    if options.ask_link:
        return ask_link(options.ask_link)

    if options.processor_time:
        options.threads = 1
    report = bench(options, [options.fathom], 1, [], options.rows.split(","))
    rates = rates_of(options, report)
    link = measure_link()
    limits = "roofline_best" if options.processor_time else "roofline"
    hardware = hardware_of(report, 1, {"node": link}, {}, limits)
    if options.calibrate:
        hardware["efficiency"] = calibrate(options, hardware, rates)
    if options.hardware:
        Path(options.hardware).write_text(json.dumps(hardware, indent=2) + "\n")
    print(f"link {link['gb_s']:.1f} GB/s and {link['latency_us']:.0f} us; efficiency "
          f"{hardware['efficiency']}")
    print(f"{'tokens a second':<16} {'expected':>10} {'measured':>10} {'error':>10}")
    compare(options, "one rank", rates, hardware, [])
    for cut in CUTS if options.ranks else []:
        on_two = bench(options, [options.fathom, "launch", "-n", "2"], 2, cut,
                       options.rank_rows.split(","))
        compare(options, " ".join(cut), rates_of(options, on_two),
                hardware_of(on_two, 2, {"node": link}, hardware["efficiency"], limits), cut)
    for n_hosts in map(int, options.hosts.split(",") if options.hosts else []):
        compare_hosts(options, report, hardware["efficiency"], n_hosts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
