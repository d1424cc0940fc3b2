"""tools/gpu_check with the programs that were built: without a device, and on an emulated one.

    check_test.py BUILD_DIR EMULATED_DRIVER
"""

import json
import os
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


def main(build, driver):
    if not (build / "fathom_cuda.so").exists():
        print("this build has no fathom_cuda.so")
        return NOT_RUN
    with tempfile.TemporaryDirectory(dir=build) as work:
        work = Path(work)
        bundle, out, drivers = work / "bundle", work / "out.json", work / "drivers"
        drivers.mkdir()
        (drivers / "libcuda.so.1").symlink_to(driver)
        environment = {"LD_LIBRARY_PATH": str(drivers), "FAKE_GPU_DRIVER": "no device"}
        expect("a bundle", run([ROOT / "tools" / "gpu_check", "--bundle", bundle, "--build", build,
                                "--shared", work / "none"], environment) == 0)

        expect("success without a device", run([bundle / "gpu_check", "--out", out],
                                               environment) == 0)
        for name, step in json.loads(out.read_text())["steps"].items():
            expect(f"{name}: {step}", step["status"] == "skipped")
            expect(f"{name}: {step}", step["reason"].endswith(
                "not used: CUDA: expected a device, found none")
                or step["reason"] == "the bundle has no arithmetic_probe")

        environment["FAKE_GPU_DRIVER"] = ""
        expect("success on the emulated device", run(
            [bundle / "gpu_check", "--out", out, "--step", "probe", "--bandwidth-mib", "8"],
            environment) == 0)
        probe = json.loads(out.read_text())["steps"]["probe"]
        expect(f"probe: {probe}", probe["status"] == "passed" and probe["name"].startswith("Fake"))
        for limit in ("read_gb_s", "copy_gb_s", "fma_gflop_s", "launch_us"):
            expect(f"{limit}: {probe}", probe["ceilings"][limit] > 0)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
