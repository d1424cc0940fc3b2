"""Ranks on several hosts with Open MPI: network namespaces, each with a link of its own.

mpirun starts its daemon on a host by a command like ssh; here that enters a namespace.
"""

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from server_process import BUILD

FATHOM = BUILD / "fathom"
NETWORK = "10.77.0"
STORY = ["generate", "--threads", "1", "--seed", "7", "-n", "20", "The old witch"]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]}: {done.stderr.strip()}")
    return done


class Hosts:
    """Namespaces on one bridge, until they are closed."""

    serial = itertools.count()

    def __init__(self, n_hosts):
        # Never the same names twice: the system takes its time to forget a namespace.
        prefix = f"fm{os.getpid() % 10000}x{next(Hosts.serial)}"
        self.bridge = f"{prefix}br"
        self.names = [f"{prefix}n{i}" for i in range(1, n_hosts + 1)]
        self.folder = tempfile.TemporaryDirectory()
        self.agent = Path(self.folder.name, "agent")
        # Daemons of hosts that share /tmp get into each other's way.
        self.agent.write_text('#!/bin/sh\nhost=$1\nshift\nexport TMPDIR="$(dirname "$0")/$host"\n'
                              'mkdir -p "$TMPDIR"\nexec ip netns exec "$host" sh -c "$*"\n')
        self.agent.chmod(0o755)
        try:
            run("ip", "link", "add", self.bridge, "type", "bridge")
            run("ip", "address", "add", f"{NETWORK}.1/24", "dev", self.bridge)
            run("ip", "link", "set", self.bridge, "up")
            for i, name in enumerate(self.names):
                run("ip", "netns", "add", name)
                run("ip", "link", "add", f"{name}b", "type", "veth", "peer", "name", "eth0",
                    "netns", name)
                run("ip", "link", "set", f"{name}b", "master", self.bridge, "up")
                run("ip", "-n", name, "address", "add", f"{NETWORK}.{10 + i}/24", "dev", "eth0")
                run("ip", "-n", name, "link", "set", "eth0", "up")
                run("ip", "-n", name, "link", "set", "lo", "up")
        except BaseException:
            self.close()
            raise

    def close(self):
        for name in self.names:
            for process in subprocess.run(["ip", "netns", "pids", name], capture_output=True,
                                          text=True).stdout.split():
                os.kill(int(process), signal.SIGKILL)
            subprocess.run(["ip", "link", "del", f"{name}b"], capture_output=True)
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        subprocess.run(["ip", "link", "del", self.bridge], capture_output=True)
        self.folder.cleanup()

    def shape(self, rate):
        for name in self.names:
            run("tc", "-n", name, "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", rate,
                "burst", "64kb", "latency", "50ms")

    def mpirun(self, *words):
        hosts = ",".join(f"{name}:1" for name in self.names)
        return ["mpirun", "--allow-run-as-root", "--mca", "plm_rsh_agent", str(self.agent),
                "--mca", "rtc", "^hwloc",
                "--mca", "oob_tcp_if_include", f"{NETWORK}.0/24",
                "--mca", "btl_tcp_if_include", f"{NETWORK}.0/24", "--mca", "btl", "tcp,self",
                "--host", hosts, FATHOM, *words]


def reason_to_skip():
    if not (BUILD / "fathom_mpi.so").exists() or not shutil.which("mpirun"):
        return "this build has no MPI"
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        return "network namespaces need root and iproute2"
    try:
        Hosts(1).close()
    except RuntimeError as error:
        return f"no network namespaces here: {error}"
    return None


class HostsTest(unittest.TestCase):
    def setUp(self):
        reason = reason_to_skip()
        if reason:
            self.skipTest(reason)

    def test_any_hosts_say_the_same(self):
        alone = run(FATHOM, *STORY).stdout
        for n_hosts, options in ((2, ()), (4, ("--tp", "2", "--pp", "2"))):
            with self.subTest(n_hosts=n_hosts):
                hosts = Hosts(n_hosts)
                try:
                    self.assertEqual(run(*hosts.mpirun(*STORY, *options)).stdout, alone)
                    hosts.shape("100mbit")
                    self.assertEqual(run(*hosts.mpirun(*STORY, *options)).stdout, alone)
                finally:
                    hosts.close()


if __name__ == "__main__":
    unittest.main()
