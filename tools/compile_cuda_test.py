"""Tests of compile_cuda, with a compiler that only prints, and with nvcc where it is installed."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")

MESSAGE = ("ptxas info    : (C7519) warpgroup.arrive is injected in around line 178 by compiler to "
           "allow use of registers in GMMA in function '{}'")


class CompileCudaTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.object = Path(folder.name) / "kernels.bin"
        self.object.write_text("code")

    def run_tool(self, *arguments):
        return subprocess.run([ROOT / "tools" / "compile_cuda", *arguments], capture_output=True,
                              text=True)

    def print_as_compiler(self, allowed, text, status=0):
        options = ["--serialized", allowed] if allowed else []
        return self.run_tool(*options, "sh", "-c", f'echo "$1" >&2; exit {status}', "sh", text,
                             "-o", self.object)

    def test_a_message_is_an_error_and_removes_the_object(self):
        result = self.print_as_compiler("", MESSAGE.format("LinearFast"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("adds no waits, found\n" + MESSAGE.format("LinearFast"), result.stderr)
        self.assertFalse(self.object.exists())

    def test_named_kernels_may_have_messages(self):
        both = MESSAGE.format("First") + "\n" + MESSAGE.format("Second")
        self.assertEqual(self.print_as_compiler("First,Second", both).returncode, 0)
        self.assertTrue(self.object.exists())
        self.assertEqual(self.print_as_compiler("First", both).returncode, 1)
        self.assertEqual(self.print_as_compiler("Sec", both).returncode, 1)

    def test_other_output_is_passed_on(self):
        result = self.print_as_compiler("", "ptxas info : (C7000) something else")
        self.assertEqual((result.returncode, result.stderr),
                         (0, "ptxas info : (C7000) something else\n"))
        self.assertEqual(self.print_as_compiler("", "no such file", status=3).returncode, 3)

    @unittest.skipUnless(NVCC, "nvcc is not installed")
    def test_nvcc_says_it_of_the_kernel_that_misuses_the_units(self):
        result = self.run_tool(NVCC, "-cubin", "-std=c++20", "-O1", "-arch=sm_90a",
                               "--expt-relaxed-constexpr", "-diag-suppress", "554", "-I",
                               ROOT / "src", "-I", ROOT, ROOT / "tests/kernels/device/hopper_faults.cu", "-o",
                               self.object)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"found\n.*C75\d\d.*'HopperFaulty'")


if __name__ == "__main__":
    unittest.main()
