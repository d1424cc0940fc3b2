"""Tests of check_gpu_objects.py with code objects made by the compilers, where they are installed."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from check_gpu_objects import check_objects, kernels_of, listed_kernels
from code_objects import unpack_message

NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
CLANG = shutil.which("clang++-19")

# An array that is indexed by numbers of memory cannot be in registers.
SOURCE = """
struct Arguments { const int* from; int* to; };
extern "C" __attribute__((global)) void Spills(Arguments a) {
  int values[64];
  for (int i = 0; i < 64; ++i) values[i] = a.from[i];
  for (int i = 0; i < 64; ++i) values[a.from[i] & 63] += i;
  for (int i = 0; i < 64; ++i) a.to[i] = values[i];
}
extern "C" __attribute__((global)) void Clean(Arguments a) { a.to[0] = a.from[1]; }
"""


class CheckGpuObjectsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.source = self.folder / "kernels.cu"
        self.source.write_text(SOURCE)

    def compile(self, *command):
        path = self.folder / "kernels.bin"
        subprocess.run([*command, str(self.source), "-o", str(path)], check=True)
        return path

    def compile_for_amd(self, *flags):
        return self.compile(CLANG, "-x", "hip", "--offload-device-only", "--no-gpu-bundle-output",
                            "--offload-arch=gfx942", "-nogpulib", "-nogpuinc", "-O3", *flags, "-c")

    @unittest.skipUnless(NVCC, "nvcc is not installed")
    def test_memory_of_threads_is_found_in_every_architecture_of_a_fatbin(self):
        path = self.compile(NVCC, "-fatbin", "-no-compress", "-gencode",
                            "arch=compute_80,code=[sm_80,compute_80]",
                            "-gencode", "arch=compute_90a,code=sm_90a")
        spills = ["256 bytes of memory per thread"]
        self.assertEqual(kernels_of(path.read_bytes()),
                         [("sm_80", {"Clean": [], "Spills": spills}),
                          ("sm_90", {"Clean": [], "Spills": spills})])

    @unittest.skipUnless(CLANG, "clang-19 is not installed")
    def test_memory_of_threads_is_found_in_an_object_of_amd(self):
        errors, counts = check_objects([self.compile_for_amd()], ["Clean", "Spills"])
        self.assertEqual(counts, {"gfx942": 2})
        self.assertRegex("\n".join(errors),
                         r"^kernels.bin, gfx942, Spills: \d+ bytes of memory per thread$")

    @unittest.skipUnless(CLANG, "clang-19 is not installed")
    def test_subnormal_numbers_must_be_kept(self):
        path = self.compile_for_amd("-fgpu-flush-denormals-to-zero")
        self.assertEqual(dict(kernels_of(path.read_bytes()))["gfx942"]["Clean"],
                         ["expected the mode 0xf0 of floats, found 0xc0"])

    @unittest.skipUnless(CLANG, "clang-19 is not installed")
    def test_the_kernels_are_those_of_the_list(self):
        errors, _ = check_objects([self.compile_for_amd()], ["Clean", "Missing"])
        self.assertEqual(errors[1:], ["gfx942: no kernel Missing",
                                      "gfx942: Spills is not in the list of kernels"])

    def test_other_files_are_refused(self):
        for data in (b"\0" * 64, b"\x7fELF" + b"\0" * 60):
            with self.assertRaisesRegex(ValueError, "expected"):
                kernels_of(data)

    def test_the_list_is_read_over_several_lines(self):
        self.assertEqual(listed_kernels("#define FATHOM_GPU_KERNELS(X) X(RmsNorm) \\\n"
                                        "  X(HcPre) X(HcPost)\n\nenum { X(NotThis) };\n"),
                         ["RmsNorm", "HcPre", "HcPost"])

    def test_values_of_messagepack(self):
        message = b"\x83\xa1a\x92\x07\xcd\x01\x00\xd9\x01b\xc3\xa1c\xde\x00\x01\xa1d\xce\0\0\0\x05"
        self.assertEqual(unpack_message(message)[0], {"a": [7, 256], "b": True, "c": {"d": 5}})
        with self.assertRaisesRegex(ValueError, "0xc1"):
            unpack_message(b"\xc1")


if __name__ == "__main__":
    unittest.main()
