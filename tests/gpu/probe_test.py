"""gpu_probe on the emulated device: every probe, a result that is wrong, a kernel that fails, and one
that the device lacks.

    probe_test.py GPU_PROBE EMULATED_DRIVER
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

# The figures that lines of a probe have, by a name with which one of its lines begins.
FIGURES = {
    "wrappers": {"TiledProductF16": ["bytes"], "SharedProduct256": [], "ClusterSum": [],
                 "TileCopy, swizzled, column -3": [], "WarpProductBf16": [], "MoveRegisters": [],
                 "EarlyStep, a chain that starts": ["bytes"], "EarlyStep, a chain that waits": []},
    "rates": {"mma.sync bf16, N = 64": ["tflop_s"], "wgmma SS f16, N = 8": ["tflop_s"],
              "wgmma RS f16, N = 256": ["tflop_s", "threads_per_multiprocessor"]},
    "launches": {"stream": ["us", "stamped_us", "gap_us", "blocks"], "graph": ["us"],
                 "graph, programmatic dependent launches": ["us", "stamped_us"],
                 "isolated, stream": ["host_us", "kernel_us"], "timer of the device": ["step_ns"]},
    "streaming": {"16-byte loads to registers": ["tb_s", "chain_tb_s", "us", "mib", "blocks"],
                  "bulk copies to shared memory": ["tb_s"]},
    "clusters": {"active clusters of 16": ["clusters"], "cluster barrier": ["us", "size"],
                 "reads of other blocks' shared memory": ["tb_s"]},
    "prefetch": {"prefetch": ["mib", "cold_tb_s", "prefetched_tb_s", "read_before_tb_s"]},
    "host": {"pinned memory": ["s_per_gib"],
             "reads of pinned memory by a kernel": ["gb_s", "bytes_per_load"],
             "copies to the device": ["gb_s"], "copies to the host": ["gb_s"],
             "flag to the device and back": ["us"], "result to the host": ["us", "call_us"]},
}


def expect(what, found):
    if not found:
        sys.exit(f"probe_test: {what}")


class Probes:
    def __init__(self, program, drivers):
        self.program = program
        self.drivers = drivers

    def run(self, *arguments, state=""):
        """Runs the program with the driver in a state: its exit code, output and errors."""
        done = subprocess.run(
            [self.program, *arguments], capture_output=True, text=True, check=False, timeout=60,
            env={**os.environ, "LD_LIBRARY_PATH": self.drivers, "FAKE_GPU_DRIVER": state})
        return done.returncode, done.stdout, done.stderr

    def lines(self, *arguments, state=""):
        """The objects that a run without an error prints."""
        code, out, error = self.run(*arguments, "--device", "0", "--quick", state=state)
        expect(f"{arguments}: {code}, {error}", code == 0 and not error)
        return [json.loads(line) for line in out.splitlines()]


def check_figures(probes):
    code, out, _ = probes.run("--list")
    expect(f"all probes in the list: {out}", code == 0 and out.split() == list(FIGURES))
    lines = probes.lines(*FIGURES)
    expect("no mismatch, nothing skipped: " + ", ".join(
        str(line) for line in lines if "mismatch" in line or "skipped" in line),
        not any("mismatch" in line or "skipped" in line for line in lines))
    for probe, names in FIGURES.items():
        for name, figures in names.items():
            found = [line for line in lines
                     if line["probe"] == probe and line["name"].startswith(name)]
            expect(f"{probe}: a line that begins with {name}", found)
            for figure in figures:
                expect(f"{probe}, {name}: {figure} above 0: {found}",
                       all(line[figure] > 0 for line in found
                           if line["name"] == name or probe == "wrappers"))
    results = {(line["name"], line.get("widening")) for line in lines if line["probe"] == "rates"}
    expect(f"each rate with and without widening: {len(results)}", len(results) == 24)


def check_mismatches(probes):
    lines = probes.lines("wrappers", state="corrupts ClusterSum")
    wrong = {line["name"]: line["mismatch"] for line in lines if "mismatch" in line}
    expect(f"one mismatch: {wrong}", list(wrong) == ["ClusterSum"])
    expect(f"the number: {wrong}", wrong["ClusterSum"] ==
           "number 0: expected 47008000, found 47008001; 1 of 12 differ")
    lines = probes.lines("wrappers", state="corrupts EarlyStep")
    expect("a mismatch of each chain",
           [line["name"][:16] for line in lines if "mismatch" in line] == 2 * ["EarlyStep, a cha"])
    expect("it is not equal", all(line["equal"] == ("mismatch" not in line) for line in lines))


def check_errors(probes):
    code, out, error = probes.run("wrappers", "--quick", state="fails TileCopy")
    expect(f"the probe and the kernel that fails: {error}", code == 1 and error ==
           "gpu_probe: wrappers: CUDA, TileCopy: unspecified launch failure (error 719)\n")
    expect("lines before the failure", '"name":"TiledProductF16"' in out)
    for kernel, probe, name in (("StreamBulk", "streaming", "bulk copies to shared memory"),
                                ("PrefetchWeights", "prefetch", "prefetch"),
                                ("ClusterBarrier16", "clusters", "clusters of 16")):
        skipped = [line for line in probes.lines(probe, state=f"lacks {kernel}")
                   if "skipped" in line]
        expect(f"{probe} without {kernel}: {skipped}", [line["name"] for line in skipped] == [name]
               and kernel in skipped[0]["skipped"])
    for arguments, state, said in (
            (["host"], "no device", "CUDA, starting the driver: "),
            (["no such probe"], "", "a name of --list, found 'no such probe'"),
            ([], "", "expected a name of --list, found none"),
            (["host", "--device", "x"], "", "--device: expected a number, found 'x'")):
        code, _, error = probes.run(*arguments, state=state)
        expect(f"{arguments}: {error}", code == 1 and said in error and error.count("\n") == 1)


def main(program, driver):
    with tempfile.TemporaryDirectory() as drivers:
        (Path(drivers) / "libcuda.so.1").symlink_to(driver)
        probes = Probes(program, drivers)
        check_figures(probes)
        check_mismatches(probes)
        check_errors(probes)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
