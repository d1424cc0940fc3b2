"""Tests of gpu_check with programs that only pretend: every way in which a step can end."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent.parent / "tools"
TOOL = TOOLS / "gpu_check"
sys.path.insert(0, str(TOOLS))

from gpu_checks.bundle import BundleError, fill  # noqa: E402
from gpu_checks.main import parse  # noqa: E402
from gpu_checks.plan import PLANS, STEPS, divide  # noqa: E402

DEVICES = """cpu       avx2, 2 cores; used
cuda 0    Pretended GPU, sm_90a, 132 multiprocessors, 80.0 GiB; used with --backend cuda --device 0
hip       not used: HIP: expected a driver of ROCm 6.0 or later, found none (libamdhip64.so)
"""
NO_DEVICE = "cuda      not used: CUDA: expected a device, found none"
ROOFLINE = {"read_gb_s": 4000, "copy_gb_s": 4200}
BENCH = {"device": "Pretended GPU", "roofline": ROOFLINE, "roofline_best": ROOFLINE}
FAULT = ("CUDA device 0 (Pretended GPU), kernel LinearFp8, grid 96 x 1 of 256 threads: an illegal "
         "memory access was encountered (error 700)")
PROBES = ["wrappers", "rates", "launches", "streaming", "clusters", "prefetch", "host"]

# Each program is this script, and finds what to do in answers.json beside it; `sync` has what is
# otherwise with FATHOM_GPU_SYNC=1.
PROGRAM = f"""#!{sys.executable}
import json, os, signal, sys, time
from pathlib import Path
folder = Path(os.environ["PRETEND"])
answers = json.loads((folder / "answers.json").read_text())
name = Path(sys.argv[0]).name
command = sys.argv[1] if name in ("fathom", "gpu_probe") else ""
answer = answers.get(f"{{name}} {{command}}".strip(), {{}})
if "--gtest_filter=OnDevice*Schedules*" in sys.argv:
    answer = answers.get("schedules", answer)
if "FATHOM_GPU_SYNC" in os.environ:
    answer = answer.get("sync", answer)
with open(folder / "calls.jsonl", "a") as calls:
    print(json.dumps({{"program": f"{{name}} {{command}}".strip(), "arguments": sys.argv[1:],
                       "environment": {{name: value for name, value in os.environ.items()
                                        if name.startswith("FATHOM")}}}}), file=calls)
if command == "logits":
    Path(sys.argv[sys.argv.index("--out") + 1]).write_text(answer.get("logits", "bits"))
if command == "make-slice":
    made = Path(sys.argv[sys.argv.index("--out") + 1])
    made.mkdir()
    (made / "config.json").write_text("{{}}")
out = answer.get("out", "")
rows = sys.argv[sys.argv.index("--rows") + 1].split(",") if "--rows" in sys.argv else []
if rows:
    measured = [{{"name": row, "percent_copy": 50.0}} for row in rows]
    out = json.dumps({{**json.loads(out), "rows": measured}})
time.sleep(answers.get("seconds", 0))
sys.stdout.write(out)
sys.stdout.flush()
sys.stderr.write(answer.get("error", ""))
if answer.get("hangs"):
    time.sleep(600)
if answer.get("crashes") or answer.get("crashes_in") in rows:
    os.kill(os.getpid(), signal.SIGSEGV)
sys.exit(answer.get("code", 0))
"""

# Pretends to be ncu, which runs its last arguments and writes a report, or prints one as a table.
NCU = f"""#!{sys.executable}
import os, sys
from pathlib import Path
arguments = sys.argv[1:]
if "--import" in arguments:
    print("==PROF== read")
    print('"ID","Kernel Name","Grid Size","Section Name","Metric Name","Metric Unit","Metric Value"')
    print('"0","LinearFp8Row","(128, 1, 1)","GPU Speed Of Light","Duration","us","12.5"')
    sys.exit(0)
if os.environ.get("NCU_REFUSES"):
    print("==ERROR== ERR_NVGPUCTRPERM - no permission to read the counters of the GPU")
    sys.exit(1)
assert "--clock-control none" in " ".join(arguments), arguments
assert os.environ["FATHOM_GPU_GRAPHS"] == "0"
size = 17 << 20 if "regex:^HcPre$" in arguments else 10
Path(arguments[arguments.index("--export") + 1] + ".ncu-rep").write_bytes(bytes(size))
"""

SANITIZER = f"""#!{sys.executable}
import os, sys
tool = sys.argv[sys.argv.index("--tool") + 1]
if os.environ.get("SANITIZER_REFUSES"):
    print("========= Error: Device not supported. Please refer to the requirements")
    sys.exit(1)
print("[       OK ] OnDevice/GpuLayers.GiveTheBitsOfTheCpu/flashminiDevice (1 ms)")
print("========= ERROR SUMMARY: " + ("2 errors" if tool == "memcheck" else "0 errors"))
sys.exit(9 if tool == "memcheck" else 0)
"""

SMI = """#!/bin/sh
echo "Pretended GPU, 580.65.06, 1980 MHz, 1980 MHz, 2619 MHz, 2619 MHz, 700.00 W, 31, 5, 16"
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
    for name in PROBES:
        line = {"probe": name, "name": f"{name} 1", "gb_s": 3.5}
        all_is_well[f"gpu_probe {name}"] = {"out": json.dumps(line) + "\n"}
    return {**all_is_well, **{key.replace("_of_", " "): value for key, value in changed.items()}}


def make_program(path, text):
    path.write_text(text)
    path.chmod(0o755)


class GpuCheckTest(unittest.TestCase):
    """A build, and a project around it, of pretended programs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.bundle = self.folder / "bundle"
        self.out = self.folder / "results" / "out.json"
        build = self.folder / "build"
        build.mkdir()
        for name in ("fathom", "kernels_test", "gpu_test"):
            make_program(build / name, PROGRAM)
        (build / "fathom_cuda.so").write_text("")
        (build / "fathom_hip.so").write_text("")
        model = self.folder / "shared" / "oracle" / "flash-mini"
        model.mkdir(parents=True)
        (model / "config.json").write_text("{}")
        embedded = self.folder / "project" / "models" / "fairy"
        embedded.mkdir(parents=True)
        (embedded / "config.json").write_text("{}")
        (embedded / "weights").write_bytes(os.urandom(1 << 20))
        self.tools = self.folder / "tools"  # where the vendor's programs would be
        self.tools.mkdir()
        self.environment = {**os.environ, "PRETEND": str(self.folder), "TMPDIR": str(self.folder),
                            "PATH": f"{self.tools}:{os.environ['PATH']}"}
        os.environ["PRETEND"] = str(self.folder)
        self.set_answers()

    def set_answers(self, **changed):
        (self.folder / "answers.json").write_text(json.dumps(answers(**changed)))

    def add_probe(self):
        make_program(self.folder / "build" / "gpu_probe", PROGRAM)

    def options(self, *more):
        return parse(["--bundle", str(self.bundle), "--source", str(self.folder / "project"),
                      "--build", str(self.folder / "build"),
                      "--shared", str(self.folder / "shared"), *more])

    def begin(self, *arguments):
        """Begins the bundle's tool."""
        if not self.bundle.exists():
            fill(self.options("--quick"))
        (self.folder / "calls.jsonl").write_text("")
        return subprocess.Popen(
            [sys.executable, str(self.bundle / "gpu_check"), "--out", str(self.out), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment)

    def run_steps(self, *arguments):
        """Runs the bundle's tool: its exit code, and the results."""
        process = self.begin(*arguments)
        _, error = process.communicate(timeout=120)
        self.assertEqual(error, "")
        results = json.loads(self.out.read_text())
        self.assertTrue(results["finished"])
        return process.returncode, results

    def calls(self, program):
        lines = (self.folder / "calls.jsonl").read_text().splitlines()
        return [one for one in map(json.loads, lines) if one["program"] == program]


class BundleTest(GpuCheckTest):
    def test_it_says_what_is_in_it(self):
        manifest = fill(self.options())
        self.assertIn("flash-mini", manifest["expected"])
        self.assertEqual(manifest["expected"]["fairy"]["greedy"], "a text\n")
        self.assertEqual(manifest["left_out"], ["dspark-mini (not there)", "base-mini (not there)",
                                                "pro-mini (not there)"])
        self.assertEqual(set(manifest["bytes"]), {"tree", "programs", "fairy", "flash-mini"})
        self.assertTrue((self.bundle / "fairy.tar.xz").exists())
        self.assertFalse(manifest["quick"])

    def test_it_has_the_module_of_one_vendor(self):
        self.add_probe()
        cuda = fill(self.options("--quick"))
        self.assertEqual(cuda["programs"],
                         ["fathom", "kernels_test", "gpu_test", "fathom_cuda.so", "gpu_probe"])
        hip = fill(self.options("--quick", "--device", "hip:0"))
        self.assertEqual(hip["programs"], ["fathom", "kernels_test", "gpu_test", "fathom_hip.so"])
        code, results = self.run_steps("--device", "cuda:0")
        self.assertEqual(code, 1)
        self.assertEqual(results["obstacle"],
                         "expected a device of hip, which the bundle is for, found cuda:0")

    def test_it_keeps_to_its_size(self):
        manifest = fill(self.options("--limit-mib", "2"))
        self.assertIn("fairy (", manifest["left_out"][0])
        self.assertNotIn("fairy", manifest["expected"])
        with self.assertRaisesRegex(BundleError, "expected at most 0.5 MiB, found "):
            fill(self.options("--limit-mib", "0.5"))

    def test_it_needs_the_programs(self):
        (self.folder / "build" / "gpu_test").unlink()
        with self.assertRaisesRegex(BundleError, "expected fathom, .* found no gpu_test"):
            fill(self.options())

    def test_without_one(self):
        done = subprocess.run([sys.executable, str(TOOL), "--out", str(self.out)],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("expected a bundle", done.stdout)
        self.assertIn("expected a bundle", json.loads(self.out.read_text())["obstacle"])


class MinutesTest(unittest.TestCase):
    """How the minutes of the plan are divided."""

    def shares(self, seconds):
        return divide({name: STEPS[name] for name in PLANS["first"]}, seconds)

    def test_eight_and_a_half_are_enough_for_everything(self):
        shares, spare = self.shares(510)
        self.assertEqual(list(shares), PLANS["first"])
        self.assertEqual(shares, {name: STEPS[name].seconds for name in shares})
        self.assertEqual(spare, 0)

    def test_six_leave_out_the_sanitizers_and_the_schedules(self):
        shares, _ = self.shares(359)
        left_out = [name for name in PLANS["first"] if name not in shares]
        self.assertEqual(left_out, ["memcheck", "racecheck", "schedules"])
        self.assertEqual(shares["benches"], 90)
        self.assertEqual(sum(shares.values()), 359)

    def test_one_begins_with_what_shows_whether_anything_runs(self):
        shares, _ = self.shares(60)
        self.assertEqual(list(shares)[:3], ["start", "smoke", "arithmetic"])
        self.assertTrue(all(share >= STEPS[name].least for name, share in shares.items()))


class PlanTest(GpuCheckTest):
    def test_all_is_well(self):
        self.add_probe()
        code, results = self.run_steps()
        self.assertEqual(code, 0)
        steps = results["steps"]
        self.assertEqual(list(steps), PLANS["first"])
        skipped = {name: step["reason"] for name, step in steps.items()
                   if step["status"] == "skipped"}
        self.assertIn("takes minutes on an emulated device", skipped.pop("schedules"))
        self.assertEqual(skipped, {"arithmetic": "the bundle has no arithmetic_probe",
                                   "ncu": "ncu is not on this machine",
                                   "memcheck": "compute-sanitizer is not on this machine",
                                   "racecheck": "compute-sanitizer is not on this machine"})
        self.assertEqual({step["status"] for step in steps.values()}, {"passed", "skipped"})
        self.assertIn("Pretended GPU", steps["start"]["fathom_device"])
        self.assertEqual(steps["smoke"]["tests"]["passed"], 1)
        self.assertTrue(steps["smoke"]["greedy_same_as_cpu"])
        self.assertEqual(steps["benches"]["ceilings"]["copy_gb_s"], 4200)
        for name in PROBES:
            self.assertEqual(steps[name]["results"],
                             [{"probe": name, "name": f"{name} 1", "gb_s": 3.5}])
        self.assertTrue(steps["goldens"]["logits"]["flash-mini"]["same_as_cpu"])
        self.assertEqual(results["plan"]["left_out"], [])

    def test_a_bundle_that_is_not_quick(self):
        fill(self.options())
        code, results = self.run_steps("--step", "smoke", "--step", "benches", "--step", "schedules")
        self.assertEqual(code, 0)
        self.assertEqual(set(results["steps"]["benches"]["rows"]),
                         {"tg64", "tg32@4096", "tg16x4", "tg16x16", "pp512", "pp4096"})
        self.assertEqual(results["steps"]["schedules"]["schedules"], 50)
        self.assertIn("*ConformanceAttention.AllLayerKinds/device",
                      self.calls("kernels_test")[0]["arguments"][0])
        every_row, without_graphs = self.calls("fathom bench")
        self.assertIn("--profile", every_row["arguments"])
        self.assertNotIn("FATHOM_GPU_GRAPHS", every_row["environment"])
        self.assertIn("tg64", without_graphs["arguments"])
        self.assertEqual(without_graphs["environment"]["FATHOM_GPU_GRAPHS"], "0")
        self.assertEqual(set(results["steps"]["benches"]["without_graphs"]["rows"]), {"tg64"})

    def test_what_smoke_has_passed_is_not_repeated(self):
        fill(self.options())
        passed = ONE_PASSED.replace("Suite.Test0", "Backends/ConformanceRows.RmsNorm")
        self.set_answers(kernels_test={"out": passed})
        self.run_steps("--step", "smoke", "--step", "conformance", "--step", "goldens")
        self.assertEqual(self.calls("kernels_test")[1]["arguments"][0],
                         "--gtest_filter=*Conformance*/device:-*ConformanceRows.RmsNorm/device")
        self.assertEqual(len(self.calls("fathom generate")), 1)
        self.run_steps("--step", "conformance", "--step", "goldens")
        self.assertEqual(self.calls("kernels_test")[0]["arguments"][0],
                         "--gtest_filter=*Conformance*/device")
        self.assertEqual(len(self.calls("fathom generate")), 1)

    def test_without_a_device_every_step_is_skipped_with_its_sentence(self):
        self.set_answers(fathom_of_devices={"out": DEVICES.replace(DEVICES.split("\n")[1],
                                                                   NO_DEVICE)})
        code, results = self.run_steps()
        self.assertEqual(code, 0)
        for name, step in results["steps"].items():
            self.assertEqual(step["status"], "skipped")
            if name in ("start", "smoke", "benches", "goldens", "conformance", "schedules"):
                self.assertEqual(step["reason"], NO_DEVICE)

    def test_the_driver(self):
        make_program(self.tools / "nvidia-smi", SMI)
        _, results = self.run_steps("--step", "start")
        self.assertEqual(results["steps"]["start"]["nvidia_smi"]["driver_version"], "580.65.06")

    def test_a_number_that_no_device_has(self):
        _, results = self.run_steps("--device", "cuda:3", "--step", "start")
        self.assertEqual(results["steps"]["start"]["status"], "skipped")

    def test_programs_that_do_not_start(self):
        fill(self.options("--quick"))
        self.set_answers(**{"fathom --version": {"code": 1, "error": "GLIBC_2.36 not found"}})
        code, results = self.run_steps()
        self.assertEqual(code, 1)
        self.assertEqual(results["obstacle"], "the programs do not start: GLIBC_2.36 not found")

    def test_minutes_that_are_too_few(self):
        code, results = self.run_steps("--minutes", "1.2")
        self.assertEqual(code, 0)
        self.assertEqual(results["steps"]["smoke"]["status"], "passed")
        self.assertRegex(results["steps"]["benches"]["reason"],
                         "left out: of 1.2 minutes [0-9]+ seconds were left, and it needs 90")

    def test_an_experiment(self):
        code, results = self.run_steps("--step", "experiment", "--experiment", "batches")
        self.assertEqual(code, 0)
        runs = results["steps"]["experiment"]["runs"]
        self.assertEqual(runs["tg16x64 --reps 2"]["rows"]["tg16x64"]["percent_copy"], 50.0)


class FailureTest(GpuCheckTest):
    def test_one_step_hangs_one_crashes_and_the_others_go_on(self):
        fill(self.options("--quick"))
        self.set_answers(kernels_test={"out": "[ RUN      ] Suite.Test/device\n", "crashes": True},
                         fathom_of_bench={"hangs": True, "out": "{}"})
        start = time.monotonic()
        code, results = self.run_steps("--minutes", "0.15", "--step", "conformance", "--step",
                                       "start", "--step", "benches", "--step", "goldens")
        self.assertLess(time.monotonic() - start, 30)
        self.assertEqual(code, 1)
        steps = results["steps"]
        self.assertEqual(steps["conformance"]["failures"],
                         ["kernels_test in Suite.Test/device: ended by signal 11 (SIGSEGV)"])
        self.assertEqual(steps["start"]["status"], "passed")
        self.assertEqual(steps["benches"]["status"], "failed")
        self.assertRegex(steps["benches"]["failures"][0],
                         "fathom bench --rows .*: ran past its limit of [0-9]+ seconds")
        self.assertNotIn("rows", steps["benches"])
        self.assertNotIn("with_sync", steps["benches"])
        self.assertEqual(steps["goldens"]["status"], "passed")

    def test_a_fault_names_its_kernel(self):
        fill(self.options("--quick"))
        # The later one fails because the device is lost.
        tests = "".join(f"[ RUN      ] {name}\nan illegal address\n[  FAILED  ] {name} (1 ms)\n"
                        for name in ("Suite.Zeta/device", "Suite.Alpha/device"))
        self.set_answers(kernels_test={
            "out": tests, "code": 1,
            "sync": {"out": f"[ RUN      ] Suite.Zeta/device\na.cc:1: Failure\n{FAULT}\n",
                     "code": 1}})
        _, results = self.run_steps("--step", "smoke")
        smoke = results["steps"]["smoke"]
        self.assertEqual(smoke["failures"], ["2 tests, first Suite.Zeta/device: an illegal address"])
        self.assertEqual(smoke["with_sync"], {
            "command": "kernels_test --gtest_filter=Suite.Zeta/device --gtest_color=no",
            "said": FAULT})
        repeated = self.calls("kernels_test")[1]
        self.assertEqual(repeated["environment"]["FATHOM_GPU_SYNC"], "1")

    def test_a_fault_that_waiting_hides(self):
        fill(self.options("--quick"))
        self.set_answers(fathom_of_generate={"out": "", "code": 1, "error": "error 700",
                                             "sync": {"out": "a text\n"}})
        _, results = self.run_steps("--step", "smoke")
        self.assertEqual(results["steps"]["smoke"]["failures"], ["fathom generate: error 700"])
        self.assertEqual(results["steps"]["smoke"]["with_sync"]["said"],
                         "no failure with FATHOM_GPU_SYNC=1")

    def test_a_row_that_crashes_does_not_cost_the_others(self):
        fill(self.options())
        self.set_answers(fathom_of_bench={"out": json.dumps(BENCH), "crashes_in": "pp4096",
                                          "sync": {"out": "{}", "error": FAULT, "code": 1}})
        code, results = self.run_steps("--step", "benches")
        self.assertEqual(code, 1)
        benches = results["steps"]["benches"]
        self.assertEqual(set(benches["rows"]), {"tg64", "tg32@4096", "tg16x4", "tg16x16", "pp512"})
        self.assertEqual(len(benches["failures"]), 2)
        profiled = ["--profile" in call["arguments"] for call in self.calls("fathom bench")]
        self.assertEqual(profiled[0], True)  # all rows; then single ones, which need no profile
        self.assertEqual(profiled[-2:], [False, True])  # pp4096, and tg64 without graphs
        self.assertEqual(benches["with_sync"]["said"], FAULT)
        self.assertIn("tg64", benches["without_graphs"]["rows"])

    def test_bytes_that_differ(self):
        fill(self.options())
        self.set_answers(
            kernels_test={"code": 1, "out": gtest_output(("OK", ""), ("FAILED", "RmsNorm: byte 3"))},
            schedules={"code": 1, "out": gtest_output(("FAILED", "seed 4"))},
            fathom_of_logits={"logits": "other bits"}, fathom_of_generate={"out": "other\n"})
        code, results = self.run_steps("--step", "conformance", "--step", "goldens", "--step",
                                       "schedules")
        self.assertEqual(code, 1)
        conformance = results["steps"]["conformance"]
        self.assertEqual(conformance["tests"]["failed"], ["Suite.Test1/device"])
        self.assertEqual(conformance["failures"],
                         ["1 tests, first Suite.Test1/device: RmsNorm: byte 3"])
        goldens = results["steps"]["goldens"]
        self.assertEqual(len(goldens["failures"]), 3)
        self.assertFalse(goldens["logits"]["flash-mini"]["same_as_cpu"])
        self.assertFalse(goldens["greedy_same_as_cpu"])
        self.assertEqual(results["steps"]["schedules"]["failures"],
                         ["schedules 0,1: 1 tests, first Suite.Test0/device: seed 4"])
        self.assertNotIn("schedules", results["steps"]["schedules"])

    def test_tests_that_are_all_skipped_are_no_success(self):
        fill(self.options("--quick"))
        skipped = gtest_output(("SKIPPED", "a_test.cc:1: Skipped\nno such device\n"))
        self.set_answers(kernels_test={"out": skipped}, gpu_test={"out": "no tests\n"})
        _, results = self.run_steps("--step", "conformance", "--step", "goldens")
        self.assertEqual(results["steps"]["conformance"]["status"], "skipped")
        self.assertEqual(results["steps"]["conformance"]["reason"], "no such device")
        self.assertIn("expected tests, found none", results["steps"]["goldens"]["failures"][0])

    def test_a_probe_that_ends_in_the_middle(self):
        self.add_probe()
        fill(self.options("--quick"))
        line = {"probe": "rates", "name": "wgmma", "mismatch": "expected 1, found 2"}
        self.set_answers(gpu_probe_of_rates={"out": f'{json.dumps(line)}\n{{"probe": "ra',
                                             "crashes": True})
        _, results = self.run_steps("--step", "rates")
        rates = results["steps"]["rates"]
        self.assertEqual(rates["results"], [line])
        self.assertEqual(rates["failures"], ["wgmma: expected 1, found 2",
                                             "gpu_probe: ended by signal 11 (SIGSEGV)"])


class VendorToolsTest(GpuCheckTest):
    def test_ncu_leaves_its_reports_beside_the_results(self):
        make_program(self.tools / "ncu", NCU)
        code, results = self.run_steps("--step", "ncu")
        self.assertEqual(code, 0)
        kernels = results["steps"]["ncu"]["kernels"]
        self.assertEqual(list(kernels), ["LinearFp8Row", "ExpertHidden", "AttentionScores",
                                         "AttentionValues", "HcPre"])
        self.assertEqual(kernels["LinearFp8Row"]["figures"],
                         {"grid": "(128, 1, 1)", "GPU Speed Of Light": {"Duration": "12.5 us"}})
        self.assertTrue((self.out.parent / kernels["LinearFp8Row"]["report"]).exists())
        self.assertEqual(kernels["HcPre"]["report"], "left out: 17.0 MiB, more than 16")

    def test_tools_that_may_not_work(self):
        make_program(self.tools / "ncu", NCU)
        make_program(self.tools / "compute-sanitizer", SANITIZER)
        self.environment.update(NCU_REFUSES="1", SANITIZER_REFUSES="1")
        code, results = self.run_steps("--step", "ncu", "--step", "memcheck")
        self.assertEqual(code, 0)
        self.assertEqual(results["steps"]["ncu"]["reason"], "ncu: ERROR== ERR_NVGPUCTRPERM - no "
                         "permission to read the counters of the GPU")
        self.assertRegex(results["steps"]["memcheck"]["reason"],
                         "compute-sanitizer: Error: Device not supported")

    def test_compute_sanitizer(self):
        make_program(self.tools / "compute-sanitizer", SANITIZER)
        code, results = self.run_steps("--step", "memcheck", "--step", "racecheck")
        self.assertEqual(code, 1)
        self.assertEqual(results["steps"]["memcheck"]["summary"], "ERROR SUMMARY: 2 errors")
        self.assertEqual(results["steps"]["memcheck"]["status"], "failed")
        self.assertEqual(results["steps"]["racecheck"]["status"], "passed")
        self.assertEqual(results["steps"]["racecheck"]["passed"], 1)


class KillTest(GpuCheckTest):
    """Whenever the tool is killed, its file is whole and has all that it said was done."""

    def test_at_every_share_of_its_time(self):
        self.add_probe()
        fill(self.options("--quick"))
        self.set_answers(seconds=0.1)
        start = time.monotonic()
        self.run_steps()
        whole = time.monotonic() - start
        n_done = []
        for share in (0.01, 0.05, 0.3):
            self.out.unlink()
            start = time.monotonic()
            process = self.begin()
            # Python itself may take longer to start than a hundredth of these pretended steps.
            while not self.out.exists():
                time.sleep(0.001)
            time.sleep(max(0, start + share * whole - time.monotonic()))
            process.kill()
            said, _ = process.communicate(timeout=10)
            self.assertEqual(process.returncode, -signal.SIGKILL)
            results = json.loads(self.out.read_text())
            self.assertFalse(results["finished"])
            for line in said.splitlines():
                name, status = line.split()[:2]
                self.assertEqual(results["steps"][name]["status"], status)
            n_done.append(len(said.splitlines()))
        self.assertEqual(n_done, sorted(n_done))
        self.assertGreater(n_done[-1], 0)
        self.assertLess(n_done[-1], len(PLANS["first"]))

    def test_its_commands_end_with_it(self):
        fill(self.options("--quick"))
        self.set_answers(fathom_of_devices={"hangs": True})
        process = self.begin("--step", "start")
        while not self.calls("fathom devices"):
            time.sleep(0.01)
        process.kill()
        process.communicate(timeout=10)
        for _ in range(500):
            if not processes_in(self.folder):
                return
            time.sleep(0.01)
        self.fail("a command went on after its tool was killed")


def processes_in(folder):
    """The processes that have the folder in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"PRETEND={folder}\0".encode() in entry.read_bytes() and \
                    entry.parent.name != str(os.getpid()):
                found.append(entry.parent.name)
        except OSError:  # ended meanwhile, or another user's
            continue
    return found


if __name__ == "__main__":
    unittest.main()
