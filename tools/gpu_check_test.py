"""Tests of gpu_check with programs that only pretend: every way in which a step can end."""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from gpu_checks.bundle import BundleError, fill
from gpu_checks.main import parse

TOOL = Path(__file__).resolve().parent / "gpu_check"

DEVICES = """cpu       avx2, 2 cores; used
cuda 0    Pretended GPU, sm_90a, 132 multiprocessors, 80.0 GiB; used with --backend cuda --device 0
hip       not used: HIP: expected a driver of ROCm 6.0 or later, found none (libamdhip64.so)
"""
BENCH = {"device": "Pretended GPU", "roofline": {"read_gb_s": 4000, "copy_gb_s": 4200},
         "roofline_best": {"read_gb_s": 4100, "copy_gb_s": 4300},
         "rows": [{"name": "ROW", "percent_copy": 50.0,
                   "profile": {"seconds": 1, "kernels": []}}]}

# Each program is this script, and finds what to do in answers.json beside it.
PROGRAM = f"""#!{sys.executable}
import json, os, signal, sys, time
from pathlib import Path
answers = json.loads((Path(os.environ["PRETEND"]) / "answers.json").read_text())
name = Path(sys.argv[0]).name
command = sys.argv[1] if name == "fathom" else ""
answer = answers.get(f"{{name}} {{command}}".strip(), {{}})
if "--gtest_filter=OnDevice*Schedules*" in sys.argv:
    answer = answers.get("schedules", answer)
if command == "logits":
    Path(sys.argv[sys.argv.index("--out") + 1]).write_text(answer.get("logits", "bits"))
if command == "make-slice":
    Path(sys.argv[sys.argv.index("--out") + 1]).mkdir()
out = answer.get("out", "")
if "--rows" in sys.argv:
    out = out.replace("ROW", sys.argv[sys.argv.index("--rows") + 1])
sys.stdout.write(out)
sys.stdout.flush()
sys.stderr.write(answer.get("error", ""))
if answer.get("hangs"):
    time.sleep(600)
if answer.get("crashes"):
    os.kill(os.getpid(), signal.SIGSEGV)
sys.exit(answer.get("code", 0))
"""


VERDICTS = {"OK": "[       OK ]", "FAILED": "[  FAILED  ]", "SKIPPED": "[  SKIPPED ]"}


def gtest_output(*verdicts):
    lines = []
    for i, (verdict, text) in enumerate(verdicts):
        name = f"Suite.Test{i}/device"
        lines += [f"[ RUN      ] {name}", text, f"{VERDICTS[verdict]} {name} (1 ms)"]
    return "\n".join(lines) + "\n"


ONE_PASSED = gtest_output(("OK", ""))


def answers(**changed):
    all_is_well = {
        "fathom --version": {"out": "fathom 0.1.0\n"}, "fathom devices": {"out": DEVICES},
        "fathom bench": {"out": json.dumps(BENCH)}, "fathom generate": {"out": "a text\n"},
        "fathom logits": {}, "fathom make-slice": {},
        "kernels_test": {"out": ONE_PASSED}, "gpu_test": {"out": ONE_PASSED}}
    return {**all_is_well, **{key.replace("_of_", " "): value for key, value in changed.items()}}


class GpuCheckTest(unittest.TestCase):
    """A build, and a project around it, of pretended programs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.bundle = self.folder / "bundle"
        build = self.folder / "build"
        build.mkdir()
        for name in ("fathom", "kernels_test", "gpu_test"):
            (build / name).write_text(PROGRAM)
            (build / name).chmod(0o755)
        model = self.folder / "shared" / "oracle" / "flash-mini"
        model.mkdir(parents=True)
        (model / "config.json").write_text("{}")
        embedded = self.folder / "project" / "models" / "fairy"
        embedded.mkdir(parents=True)
        (embedded / "config.json").write_text("{}")
        (embedded / "weights").write_bytes(os.urandom(1 << 20))
        self.environment = {**os.environ, "PRETEND": str(self.folder)}
        os.environ["PRETEND"] = str(self.folder)
        self.set_answers()

    def set_answers(self, **changed):
        (self.folder / "answers.json").write_text(json.dumps(answers(**changed)))

    def options(self, *more):
        return parse(["--bundle", str(self.bundle), "--source", str(self.folder / "project"),
                      "--build", str(self.folder / "build"),
                      "--shared", str(self.folder / "shared"), *more])

    def run_steps(self, *arguments, tool=None):
        """Runs the bundle's tool: its exit code, and the results."""
        if not self.bundle.exists():
            fill(self.options())
        out = self.folder / "results" / "out.json"
        done = subprocess.run(
            [sys.executable, str(tool or self.bundle / "gpu_check"), "--out", str(out), *arguments],
            capture_output=True, text=True, env=self.environment, check=False, timeout=120)
        self.assertEqual(done.stderr, "")
        return done.returncode, json.loads(out.read_text())

    def test_bundle_says_what_is_in_it(self):
        manifest = fill(self.options())
        self.assertIn("flash-mini", manifest["expected"])
        self.assertEqual(manifest["expected"]["fairy"]["greedy"], "a text\n")
        self.assertEqual(manifest["left_out"],
                         ["base-mini (not there)", "pro-mini (not there)"])
        self.assertEqual(set(manifest["bytes"]), {"programs", "fairy", "flash-mini"})
        self.assertTrue((self.bundle / "fairy.tar.xz").exists())

    def test_bundle_keeps_to_its_size(self):
        manifest = fill(self.options("--limit-mib", "2"))
        self.assertIn("fairy (", manifest["left_out"][0])
        self.assertNotIn("fairy", manifest["expected"])
        with self.assertRaisesRegex(BundleError, "expected at most 0.5 MiB, found "):
            fill(self.options("--limit-mib", "0.5"))

    def test_bundle_needs_the_programs(self):
        (self.folder / "build" / "gpu_test").unlink()
        with self.assertRaisesRegex(BundleError, "expected fathom, .* found no gpu_test"):
            fill(self.options())

    def test_all_is_well(self):
        code, results = self.run_steps()
        self.assertEqual(code, 0)
        steps = results["steps"]
        self.assertEqual({name: step["status"] for name, step in steps.items()},
                         {"probe": "passed", "arithmetic": "skipped", "conformance": "passed",
                          "goldens": "passed", "benches": "passed"})
        self.assertEqual(steps["arithmetic"]["reason"], "the bundle has no arithmetic_probe")
        self.assertEqual(steps["probe"]["ceilings"]["copy_gb_s"], 4200)
        self.assertEqual(steps["conformance"]["tests"]["passed"], 1)
        self.assertEqual(steps["goldens"]["schedules"], 50)
        self.assertTrue(steps["goldens"]["logits"]["flash-mini"]["same_as_cpu"])
        self.assertTrue(steps["goldens"]["greedy_same_as_cpu"])
        self.assertEqual(set(steps["benches"]["rows"]),
                         {"tg64", "tg32@4096", "tg32x4", "tg32x16", "pp512", "pp4096"})
        self.assertEqual(steps["benches"]["rows"]["tg64"]["percent_copy"], 50.0)

    def test_without_a_device_every_step_is_skipped_with_its_sentence(self):
        line = "cuda      not used: CUDA: expected a device, found none"
        self.set_answers(fathom_of_devices={"out": DEVICES.replace(DEVICES.split("\n")[1], line)})
        code, results = self.run_steps()
        self.assertEqual(code, 0)
        for name, step in results["steps"].items():
            self.assertEqual(step["status"], "skipped")
            if name != "arithmetic":
                self.assertEqual(step["reason"], line)

    def test_a_number_that_no_device_has(self):
        _, results = self.run_steps("--device", "cuda:3", "--step", "probe")
        self.assertEqual(results["steps"]["probe"]["status"], "skipped")

    def test_programs_that_do_not_start(self):
        fill(self.options())
        self.set_answers(**{"fathom --version": {"code": 1, "error": "GLIBC_2.36 not found"}})
        _, results = self.run_steps()
        self.assertEqual(results["steps"]["probe"]["reason"],
                         "the programs do not start: GLIBC_2.36 not found")

    def test_one_step_hangs_one_crashes_and_the_others_go_on(self):
        fill(self.options())
        self.set_answers(kernels_test={"out": "[ RUN      ] Suite.Test/device\n", "crashes": True},
                         fathom_of_bench={"hangs": True})
        start = time.monotonic()
        code, results = self.run_steps("--minutes", "0.15", "--step", "conformance", "--step",
                                       "goldens", "--step", "probe", "--step", "benches")
        self.assertLess(time.monotonic() - start, 30)
        self.assertEqual(code, 1)
        steps = results["steps"]
        self.assertEqual(steps["conformance"]["failures"],
                         ["kernels_test in Suite.Test/device: ended by signal 11 (SIGSEGV)"])
        self.assertEqual(steps["goldens"]["status"], "passed")
        self.assertEqual(steps["probe"]["status"], "failed")
        self.assertRegex(steps["probe"]["failures"][0],
                         "fathom bench --rows tg1: ran past its limit of [0-9]+ seconds")
        self.assertNotIn("ceilings", steps["probe"])
        self.assertEqual(steps["benches"]["status"], "skipped")
        self.assertEqual(steps["benches"]["reason"], "0.15 minutes were over")

    def test_bytes_that_differ(self):
        fill(self.options())
        self.set_answers(
            kernels_test={"code": 1, "out": gtest_output(("OK", ""), ("FAILED", "RmsNorm: byte 3"))},
            schedules={"code": 1, "out": gtest_output(("FAILED", "seed 4"))},
            fathom_of_logits={"logits": "other bits"}, fathom_of_generate={"out": "other\n"})
        code, results = self.run_steps("--step", "conformance", "--step", "goldens")
        self.assertEqual(code, 1)
        conformance = results["steps"]["conformance"]
        self.assertEqual(conformance["tests"]["failed"], ["Suite.Test1/device"])
        self.assertEqual(conformance["failures"],
                         ["1 tests, first Suite.Test1/device: RmsNorm: byte 3"])
        goldens = results["steps"]["goldens"]
        self.assertEqual(len(goldens["failures"]), 4)
        self.assertFalse(goldens["logits"]["flash-mini"]["same_as_cpu"])
        self.assertFalse(goldens["greedy_same_as_cpu"])
        self.assertNotIn("schedules", goldens)

    def test_tests_that_are_all_skipped_are_no_success(self):
        fill(self.options())
        skipped = gtest_output(("SKIPPED", "a_test.cc:1: Skipped\nno such device\n"))
        self.set_answers(kernels_test={"out": skipped}, gpu_test={"out": "no tests\n"})
        _, results = self.run_steps("--step", "conformance", "--step", "goldens")
        self.assertEqual(results["steps"]["conformance"]["status"], "skipped")
        self.assertEqual(results["steps"]["conformance"]["reason"], "no such device")
        self.assertIn("expected tests, found none", results["steps"]["goldens"]["failures"][0])

    def test_an_experiment(self):
        code, results = self.run_steps("--step", "experiment", "--experiment", "batches")
        self.assertEqual(code, 0)
        runs = results["steps"]["experiment"]["runs"]
        self.assertEqual(runs["tg16x64 --reps 2"]["rows"]["tg16x64"]["percent_copy"], 50.0)

    def test_without_a_bundle(self):
        out = self.folder / "out.json"
        done = subprocess.run([sys.executable, str(TOOL), "--out", str(out)], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("expected a bundle", done.stdout)


if __name__ == "__main__":
    unittest.main()
