"""Tests of check_namespaces.py."""

import unittest
from pathlib import Path

import check_namespaces

HEADER = (Path(__file__).resolve().parent.parent / "src/base/namespaces.h").read_text(encoding="utf-8")


class CheckNamespacesTest(unittest.TestCase):
    def check(self, path, *blocks):
        """The errors of a file with blocks of (namespace, line)."""
        text = "".join(f"namespace {name} {{\n\n{line}\n\n}}  // namespace {name}\n"
                       for name, line in blocks)
        return check_namespaces.check_file(Path(path), text)

    def test_the_arrows_of_the_header_are_those_of_the_table(self):
        self.assertEqual(check_namespaces.check_arrows(HEADER), [])

    def test_a_missing_arrow(self):
        errors = check_namespaces.check_arrows(HEADER.replace("using namespace experts;\n", ""))
        self.assertIn("planning: expected", errors[0])

    def test_an_arrow_upwards(self):
        header = HEADER.replace("namespace comm {}", "namespace comm {\nusing namespace kernels;\n}")
        self.assertIn("comm: expected the namespaces []", check_namespaces.check_arrows(header)[0])

    def test_a_folder_that_the_header_leaves_out(self):
        errors = check_namespaces.check_arrows(HEADER.replace("namespace sampling {}", ""))
        self.assertTrue(any("sampling" in error for error in errors), errors)

    def test_a_file_in_its_room(self):
        self.assertEqual(self.check("src/model/a.h", ("fathom::model", "struct A {};")), [])
        self.assertEqual(self.check("src/model/a.h", ("fathom::model::draft", "struct A {};")), [])
        self.assertEqual(self.check("src/base/a.h", ("fathom", "struct A {};")), [])
        self.assertEqual(self.check("src/cli/a.cc", ("CLI", "int a;")), [])

    def test_a_file_in_another_room(self):
        for path, name in (("src/model/a.h", "fathom"), ("src/model/a.h", "fathom::models"),
                           ("src/kernels/a.cc", "fathom::model")):
            self.assertIn(f"found {name}: struct A {{}};",
                          self.check(path, (name, "struct A {};"))[0])

    def test_a_declaration_for_another_room(self):
        for line in ("class Backend;", "enum class Isa : int;", "struct A;  // model/a.h"):
            self.assertEqual(self.check("src/model/a.h", ("fathom::kernels", line)), [])
        self.assertEqual(len(self.check("src/model/a.h", ("fathom::kernels", "int Count();"))), 1)


if __name__ == "__main__":
    unittest.main()
