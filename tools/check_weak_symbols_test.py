"""Tests of check_weak_symbols.py with objects made by the compiler."""

import subprocess
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).with_name("check_weak_symbols.py")


class CheckWeakSymbolsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build_dir = Path(folder.name)

    def compile(self, source, target="kernels_avx2", folder="src/kernels"):
        path = self.build_dir / folder / "CMakeFiles" / f"{target}.dir" / "cpu" / "gemv.cc.o"
        path.parent.mkdir(parents=True)
        subprocess.run(["c++", "-x", "c++", "-c", "-O0", "-", "-o", str(path)],
                       input=source, text=True, check=True)

    def run_tool(self):
        return subprocess.run([str(TOOL), str(self.build_dir)], capture_output=True, text=True)

    def test_an_object_of_strong_and_local_symbols_passes(self):
        self.compile("static int Half(int x) { return x / 2; } int Use(int x) { return Half(x); }")
        result = self.run_tool()
        self.assertEqual((result.returncode, result.stdout),
                         (0, "1 kernel objects, 0 weak symbols\n"))

    def test_inline_functions_variables_and_templates_are_named(self):
        self.compile("inline int Half(int x) { return x / 2; } inline int count;"
                     "template <class T> T Twice(T x) { static T last; return last = x + x; }"
                     "int Use(int x) { return Half(count) + Twice(x); }")
        result = self.run_tool()
        self.assertEqual(result.returncode, 1)
        for name in ("Half(int)", "count", "int Twice<int>(int)", "Twice<int>(int)::last"):
            self.assertIn(f"gemv.cc.o: weak symbol {name}\n", result.stdout)
        self.assertIn("1 kernel objects, 4 weak symbols\n", result.stdout)

    def test_other_objects_are_not_looked_at(self):
        weak = "inline int Half(int x) { return x / 2; } int Use(int x) { return Half(x); }"
        self.compile(weak, target="fathom_kernels")
        self.compile(weak, target="kernels_test", folder="tests/kernels")
        result = self.run_tool()
        self.assertEqual(result.returncode, 1)
        self.assertIn("nothing was checked", result.stdout)


if __name__ == "__main__":
    unittest.main()
