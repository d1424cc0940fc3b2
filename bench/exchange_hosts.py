#!/usr/bin/env python3
"""Runs expert_exchange_bench with a process per host: network namespaces with shaped links.

    bench/exchange_hosts.py BENCH --ranks 4 --rate 20,75 [options of the bench]

Every host's link has the rate (MB/s) in both directions. Needs root and iproute2.
"""

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "server"))
from hosts_test import NETWORK, Hosts, run  # noqa: E402


def shape(hosts, rate):
    """Out of a host at its end of the link, into it at the bridge's."""
    tbf = ["root", "tbf", "rate", f"{round(rate * 8e6)}bit", "burst", "40kb", "latency", "50ms"]
    for name in hosts.names:
        # Less than a burst: the bucket would cut larger packets into many small ones.
        run("ip", "-n", name, "link", "set", "eth0", "gso_max_size", "30000")
        run("tc", "-n", name, "qdisc", "replace", "dev", "eth0", *tbf)
        run("tc", "qdisc", "replace", "dev", f"{name}b", *tbf)


def measure(hosts, command):
    addresses = ",".join(f"{NETWORK}.{10 + i}" for i in range(len(hosts.names)))
    ranks = [
        subprocess.Popen(["ip", "netns", "exec", name, *command, "--hosts", addresses, "--rank",
                          str(rank)], stdout=subprocess.PIPE if rank == 0 else None, text=True)
        for rank, name in enumerate(hosts.names)
    ]
    report = ranks[0].communicate()[0]
    if any([rank.wait() for rank in ranks]):
        raise RuntimeError("a rank has failed")
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bench")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rate", default="75")
    options, rest = parser.parse_known_args()
    hosts = Hosts(options.ranks)
    try:
        for rate in options.rate.split(","):
            shape(hosts, float(rate))
            print(measure(hosts, [options.bench, "--rate", rate, *rest]), end="", flush=True)
    finally:
        hosts.close()


if __name__ == "__main__":
    main()
