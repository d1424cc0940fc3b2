"""tools/gpu_check with the programs that were built: without a device, and on an emulated one.

    check_test.py BUILD_DIR EMULATED_DRIVER
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
NOT_RUN = 77


def expect(what, found):
    if not found:
        sys.exit(f"check_test: {what}")


def run(command, environment):
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True,
                          check=False, env={**os.environ, **environment})
    print(done.stdout, done.stderr, sep="")
    return done.returncode


MUST_PASS = {"start", "smoke", "benches", "goldens", "conformance"}
# The steps of gpu_probe, which a build with nvcc has.
PROBES = {"wrappers", "rates", "launches", "streaming", "clusters", "prefetch", "host"}
# The sentences of the other steps, which need a real device or a program that is not here.
SENTENCES = ("the bundle has no ", "gpu_probe ", "the device has no matrix units", "ncu",
             "compute-sanitizer", "a schedule takes minutes")


def check_without_device(steps):
    for name, step in steps.items():
        expect(f"{name}: {step}", step["status"] == "skipped")
        expect(f"{name}: {step}", step["reason"].startswith(SENTENCES) or step["reason"].endswith(
            "not used: CUDA: expected a device, found none"))


def check_whole_plan(results, must_pass):
    expect(f"plan: {results['plan']}", results["finished"] and not results["plan"]["left_out"])
    for name, step in results["steps"].items():
        if step["status"] == "skipped":
            expect(f"{name}: {step}", step["reason"].startswith(SENTENCES))
            expect(f"{name}: {step}", name not in must_pass)
        else:
            expect(f"{name}: {step}", step["status"] == "passed")
    steps = results["steps"]
    benches = steps["benches"]
    for ceiling in ("read_gb_s", "copy_gb_s", "fma_gflop_s"):
        expect(f"{ceiling}: {benches}", benches["ceilings"][ceiling] > 0)
    for row in benches["rows"].values():
        expect(f"{row['name']}: {row}", len(row["profile"]["kernels"]) > 10)
    expect(f"without graphs: {benches}", benches["without_graphs"]["rows"])
    expect(f"smoke: {steps['smoke']}", steps["smoke"]["greedy_same_as_cpu"])
    expect(f"goldens: {steps['goldens']}", steps["goldens"]["logits"]["fairy"]["same_as_cpu"])


def main(build, driver):
    if not (build / "fathom_cuda.so").exists():
        print("this build has no fathom_cuda.so")
        return NOT_RUN
    with tempfile.TemporaryDirectory(dir=build) as work:
        work = Path(work)
        bundle, out, drivers = work / "bundle", work / "out.json", work / "drivers"
        drivers.mkdir()
        (drivers / "libcuda.so.1").symlink_to(driver)
        environment = {"LD_LIBRARY_PATH": str(drivers), "FAKE_GPU_DRIVER": "no device",
                       "TMPDIR": str(work)}
        expect("a bundle", run([ROOT / "tools" / "gpu_check", "--bundle", bundle, "--build", build,
                                "--shared", work / "none", "--quick"], environment) == 0)

        expect("success without a device", run([bundle / "gpu_check", "--out", out],
                                               environment) == 0)
        check_without_device(json.loads(out.read_text())["steps"])

        environment["FAKE_GPU_DRIVER"] = ""
        expect("success on the emulated device", run(
            [bundle / "gpu_check", "--out", out, "--bandwidth-mib", "8", "--minutes", "20"],
            environment) == 0)
        check_whole_plan(json.loads(out.read_text()), MUST_PASS | (
            PROBES if (build / "gpu_probe").exists() else set()))

        environment["FAKE_GPU_DRIVER"] = "fails HcPre"
        expect("a failure where a kernel fails", run(
            [bundle / "gpu_check", "--out", out, "--step", "smoke"], environment) == 1)
        smoke = json.loads(out.read_text())["steps"]["smoke"]
        expect(f"the kernel and its grid: {smoke}", re.search(
            r", kernel HcPre, grid \d+ x 1 of 256 threads: ", smoke["with_sync"]["said"]))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
