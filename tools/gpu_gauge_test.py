"""Tests of the parts of check_gpu_objects.py --gauge."""

import contextlib
import io
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from gpu_gauge import amd, budgets, cuda, disassemblers, main, table
from gpu_gauge.control_flow import Instruction, find_loops, inner_loops
from gpu_gauge.loops import ARCHITECTURES, LOOPS, Loop
from gpu_gauge.measure import Measures, measure, measure_loop

NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
CLANG = shutil.which("clang++-19")
NVDISASM_PROGRAM = disassemblers.find_nvdisasm()
OBJDUMP_PROGRAM = disassemblers.find_llvm_objdump()

# A loop whose second half lies after the end of the kernel, and a function of the compiler.
NVDISASM = """
\t.target\tsm_90a
\t.section\t.text.Scale,"ax",@progbits
        .type           Scale,@function
Scale:
.text.Scale:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0020*/              @!P0 LDG.E.U8 R8, desc[UR4][R2.64+0x1] ;
        /*0030*/                   FFMA R5, R4, R8, R5 ;
        /*0040*/               @P1 BRA `(.L_x_2) ;
.L_x_3:
        /*0050*/                   IADD3 R2, P2, R2, 0x10, RZ ;
        /*0060*/                   IMAD.X R3, RZ, RZ, R3, P2 ;
        /*0070*/               @P0 BRA `(.L_x_1) ;
        /*0080*/                   EXIT ;
.L_x_2:
        /*0090*/                   LOP3.LUT R5, R5, 0x7f, RZ, 0xc0, !PT ;
        /*00a0*/                   BRA `(.L_x_3) ;
.L_x_4:
        /*00b0*/                   BRA `(.L_x_4);
$__internal_0_$__cuda_sm20_sqrt_rn_f32_slowpath:
        /*00c0*/                   FMUL.FTZ R2, R2, R2 ;
        /*00d0*/                   RET.REL.NODEC R2 `(Scale) ;
"""

# Two operations in one instruction, a load of each kind, and jumps with addresses in the kernel.
OBJDUMP = """
code:\tfile format elf64-amdgpu

Disassembly of section .text:

0000000000001000 <Other>:
\ts_endpgm                                                   // 000000001000: BF810000

0000000000001100 <Scale>:
\tv_mov_b32_e32 v1, 0                                        // 000000001100: 7E020280
\tglobal_load_dwordx4 v[4:7], v[2:3], off                    // 000000001104: DC5C8000 04000002
\tglobal_load_u8 v8, v[2:3], off                             // 00000000110C: DC5C8000 04000002
\tflat_load_d16_hi_b16 v8, v[2:3]                            // 000000001114: DC5C8000 04000002
\tv_dual_fmac_f32 v1, v4, v8 :: v_dual_mul_f32 v2, v4, v5    // 00000000111C: C8000000 00000000
\ts_cbranch_scc1 65530                                       // 000000001124: BFA2FFF6 <Scale+0x4>
\ts_endpgm                                                   // 000000001128: BF810000
"""

SOURCE = """
struct Arguments { const float* x; const float* y; float* out; int n; };
extern "C" __attribute__((global)) void Scale(Arguments a) {
  float sum = 0.0f;
  for (int i = 0; i < a.n; ++i) {
    float value = a.x[i];
#ifdef WORSE
    value = a.y[i] < value ? a.y[i] : value * value;
#endif
    sum = __builtin_fmaf(value, value, sum);
  }
  a.out[0] = sum;
}
"""
SCALE = Loop("Scale", "sum", "number", lambda n: n["fma"], lambda n: n["fma"] > 0)


def instruction(opcode="x", target=None, falls_through=True):
    return Instruction(opcode, "", target, falls_through)


class ControlFlowTest(unittest.TestCase):
    def test_only_loops_without_another_loop_are_inner(self):
        code = [instruction("a"), instruction("b"), instruction("c", target=1),
                instruction("d", target=0), instruction("e")]
        self.assertEqual(find_loops(code), {0: {0, 1, 2, 3}, 1: {1, 2}})
        self.assertEqual([[i.opcode for i in loop] for loop in inner_loops(code)], [["b", "c"]])

    def test_jumps_back_to_one_place_are_one_loop(self):
        code = [instruction(), instruction(target=0), instruction(target=0)]
        self.assertEqual(find_loops(code), {0: {0, 1, 2}})

    def test_code_that_is_not_reached_has_no_loops(self):
        code = [instruction(falls_through=False), instruction(target=1)]
        self.assertEqual(find_loops(code), {})
        self.assertEqual(inner_loops([]), [])


class CudaTest(unittest.TestCase):
    def setUp(self):
        self.architecture, kernels = cuda.parse(NVDISASM)
        self.kernel = kernels["Scale"]

    def test_parts_of_a_loop_behind_the_end_count(self):
        self.assertEqual(self.architecture, "sm_90a")
        loop, = inner_loops(self.kernel)
        measures, operations = cuda.count(loop)
        self.assertEqual(measures, {"slots": 9, "integer": 2, "loads": 2,
                                    "load bytes": {16: 1, 1: 1}, "shared load bytes": {}})
        self.assertEqual((operations["fma"], operations["load"]), (1, 2))

    def test_loads_of_shared_memory_count_apart(self):
        measures, _ = cuda.count([instruction("LDS.128"), instruction("LDS"), instruction("LDG.E"),
                                  instruction("LDS.U16")])
        self.assertEqual(measures["load bytes"], {4: 1})
        self.assertEqual(measures["shared load bytes"], {16: 1, 4: 1, 2: 1})

    def test_functions_of_the_compiler_are_left_out(self):
        self.assertNotIn("FMUL.FTZ", [each.opcode for each in self.kernel])

    def test_flushed_subnormal_numbers_are_found(self):
        def flushed(*lines):
            return cuda.flushed([Instruction(*line.split(" ", 1)) for line in lines])

        self.assertEqual(flushed("FFMA.FTZ R1, R2, R3, R4", "FADD.FTZ R1, R2, R3"),
                         ["FFMA.FTZ R1, R2, R3, R4", "FADD.FTZ R1, R2, R3"])
        self.assertEqual(flushed("F2I.FTZ.U32.TRUNC.NTZ R1, R2", "FADD.FTZ R1, -R2, -RZ"), [])
        self.assertEqual(flushed("MUFU.RSQ R5, R0", "FMUL.FTZ R3, R0, R5.reuse",
                                 "FMUL.FTZ R5, R5, 0.5"), [])
        self.assertEqual(flushed("MUFU.RSQ R5, R0", "FMUL.FTZ R3, R0, R6"),
                         ["FMUL.FTZ R3, R0, R6"])
        self.assertEqual(len(flushed("MUFU.RSQ R5, R0", *["FFMA R1, R1, R1, R1"] * 40,
                                     "FMUL.FTZ R3, R0, R5")), 1)


class AmdTest(unittest.TestCase):
    def test_a_loop_with_pairs_and_loads_of_each_kind(self):
        kernels = amd.parse(OBJDUMP)
        self.assertEqual(list(kernels), ["Other", "Scale"])
        loop, = inner_loops(kernels["Scale"])
        measures, operations = amd.count(loop)
        self.assertEqual(measures, {"instructions": 5, "vector": 1, "loads": 3,
                                    "load bytes": {16: 1, 1: 1, 2: 1}})
        self.assertEqual((operations["fma"], operations["multiply"]), (1, 1))


class BudgetsTest(unittest.TestCase):
    found = {"numbers": 2, "slots": 20, "loads": 4, "load bytes": {"4": 4}, "registers": 30}

    def compare(self, budget, compiler="13.0", **found):
        result = Measures([SCALE])
        result.loops_of("sm_90a")[SCALE.title] = self.found | found
        result.compilers["nvcc"] = compiler
        loops = {} if budget is None else {SCALE.title: budget}
        return budgets.compare({"compilers": {"nvcc": "13.0"}, "loops": {"sm_90a": loops}}, result)

    def test_what_grew_fails_and_what_shrank_is_said(self):
        self.assertEqual(self.compare(self.found), ([], []))
        self.assertEqual(self.compare(self.found, slots=21, registers=29),
                         (["Scale, sum, sm_90a: expected at most 10 issue slots per number, "
                           "found 10.5"],
                          ["Scale, sum, sm_90a: the budget of 30 registers can be lowered to 29"]))

    def test_another_unrolling_is_compared_by_the_number(self):
        self.assertEqual(self.compare(self.found, numbers=4, slots=40, loads=8), ([], []))
        self.assertEqual(len(self.compare(self.found, numbers=4, slots=41, loads=8)[0]), 1)

    def test_another_compiler_prints_and_does_not_fail(self):
        failures, notes = self.compare(self.found, compiler="13.2", slots=99)
        self.assertEqual(failures, [])
        self.assertEqual(notes[0], "sm_90a: the budgets are for nvcc 13.0 and are not compared "
                                   "with code of nvcc 13.2.")
        self.assertIn("49.5 issue slots", notes[1])

    def test_loops_and_budgets_belong_together(self):
        self.assertEqual(self.compare(None)[0],
                         ["Scale, sum, sm_90a: expected a budget, found none"])
        result = Measures([])
        result.loops_of("sm_90a")
        result.compilers["nvcc"] = "13.0"
        failures, _ = budgets.compare({"compilers": {"nvcc": "13.0"},
                                       "loops": {"sm_90a": {"Gone, sum": self.found}}}, result)
        self.assertEqual(len(failures), 1)

    def test_every_loop_has_a_budget_and_all_are_in_the_document(self):
        kept = budgets.load()
        self.assertEqual(kept["compilers"], {"nvcc": "13.0", "clang": "19"})
        self.assertEqual(sorted(kept["loops"]), sorted(ARCHITECTURES))
        for loops in kept["loops"].values():
            self.assertEqual(list(loops), [loop.title for loop in LOOPS])
        document = table.DOCUMENT.read_text()
        self.assertEqual(table.replace(document, kept), document,
                         "write it with tools/check_gpu_objects.py --gauge --update")

    def test_the_file_is_read_as_it_was_written(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "budgets.json"
            budgets.save(budgets.load(), path)
            self.assertEqual(path.read_text(), budgets.FILE.read_text())


class MeasureTest(unittest.TestCase):
    def test_the_largest_measure_of_copies_counts_and_the_rest_of_an_unrolled_loop_does_not(self):
        def counted(slots, integer, fma):
            return ({"slots": slots, "integer": integer, "load bytes": {4: fma}},
                    {"fma": fma, "load": fma})

        found = measure_loop(SCALE, [counted(40, 9, 4), counted(38, 11, 4), counted(50, 20, 1)],
                             {"registers": 7})
        self.assertEqual(found, {"numbers": 4, "slots": 40, "integer": 11, "load bytes": {"4": 4},
                                 "registers": 7})
        self.assertIsNone(measure_loop(SCALE, [({"slots": 9}, {"fma": 0, "load": 1})], {}))


class GaugeTest(unittest.TestCase):
    """A kernel that is made worse on purpose, from source to sentence."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "scale.cu").write_text(SOURCE)

    def measure(self, *command, loops=(SCALE,)):
        path = self.folder / "scale.bin"
        subprocess.run([*command, str(self.folder / "scale.cu"), "-o", str(path)], check=True)
        return measure([path], NVDISASM_PROGRAM, OBJDUMP_PROGRAM, loops)

    def check(self, architecture, unit, *command):
        good = self.measure(*command)
        kept = budgets.update({"compilers": {}, "loops": {}}, good)
        self.assertEqual(budgets.compare(kept, good), ([], []))
        failures, _ = budgets.compare(kept, self.measure(*command, "-DWORSE"))
        self.assertRegex("\n".join(failures), rf"Scale, sum, {architecture}: expected at most "
                                              rf"[\d.]+ {unit} per number, found [\d.]+")

    @unittest.skipUnless(NVCC and NVDISASM_PROGRAM, "nvcc or nvdisasm is not installed")
    def test_more_instructions_fail_on_nvidia(self):
        self.check("sm_90a", "issue slots", NVCC, "-cubin", "-arch=sm_90a", "-O3")

    @unittest.skipUnless(CLANG and OBJDUMP_PROGRAM,
                         "clang-19 or llvm-objdump-19 is not installed")
    def test_more_instructions_fail_on_amd(self):
        self.check("gfx942", "vector instructions", CLANG, "-x", "hip", "--offload-device-only",
                   "--no-gpu-bundle-output", "--offload-arch=gfx942", "-nogpulib", "-nogpuinc",
                   "-O3", "-c")

    @unittest.skipUnless(NVCC and NVDISASM_PROGRAM, "nvcc or nvdisasm is not installed")
    def test_flushed_numbers_and_loops_that_are_not_found_fail(self):
        unlike = Loop("Scale", "shuffles", "number", lambda n: 1, lambda n: n["shuffle"] > 0)
        missing = Loop("Missing", "sum", "number", lambda n: 1, lambda n: True)
        result = self.measure(NVCC, "-cubin", "-arch=sm_90a", "-O3", "-ftz=true", "-DWORSE",
                              loops=(unlike, missing))
        failures, _ = budgets.compare({"compilers": {}, "loops": {}}, result)
        lines = "\n".join(failures)
        self.assertRegex(lines, r"Scale, sm_90a: F\w+\.FTZ .* flushes subnormal numbers")
        self.assertRegex(lines, "Scale, shuffles, sm_90a: no inner loop .* with .* fma")
        self.assertIn("Missing, sum, sm_90a: the objects have no kernel Missing", lines)

    @unittest.skipUnless(NVCC and NVDISASM_PROGRAM, "nvcc or nvdisasm is not installed")
    def test_budgets_are_not_written_from_objects_that_lack_a_loop(self):
        path, kept = self.folder / "scale.bin", self.folder / "budgets.json"
        subprocess.run([NVCC, "-cubin", "-arch=sm_90a", str(self.folder / "scale.cu"), "-o",
                        str(path)], check=True)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.assertEqual(main.main(["--update", "--budgets", str(kept), str(path)]), 1)
        self.assertIn("the objects have no kernel LinearFp8", printed.getvalue())
        self.assertFalse(kept.exists())

    @unittest.skipUnless(NVCC, "nvcc is not installed")
    def test_a_missing_disassembler_skips_and_fails_where_ci_is_true(self):
        path = self.folder / "scale.bin"
        subprocess.run([NVCC, "-cubin", "-arch=sm_90a", str(self.folder / "scale.cu"), "-o",
                        str(path)], check=True)
        for ci, expected in (("true", 1), ("", main.SKIPPED)):
            printed = io.StringIO()
            with mock.patch.object(disassemblers, "find_nvdisasm", lambda: None), \
                    mock.patch.dict(os.environ, CI=ci), contextlib.redirect_stdout(printed):
                self.assertEqual(main.main([str(path)]), expected)
            self.assertIn(disassemblers.NO_NVDISASM, printed.getvalue())


if __name__ == "__main__":
    unittest.main()
