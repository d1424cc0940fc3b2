"""Tests of namespaces.py."""

import unittest

from namespaces import lines_in_namespaces


class LinesInNamespaces(unittest.TestCase):
    def test_nested_inline_and_unnamed_ones_are_followed(self):
        text = ("int a;\nnamespace fathom::cli {\ninline namespace v1 {\nnamespace {\nint b;\n}  // namespace\n"
                "int c;\n}  // namespace v1\n}  // namespace fathom::cli\nint d;")
        self.assertEqual(list(lines_in_namespaces(text)),
                         [((), "int a;"), (("fathom::cli", "v1", ""), "int b;"),
                          (("fathom::cli", "v1"), "int c;"), ((), "int d;")])

    def test_other_braces_are_not(self):
        text = "namespace fathom {\nvoid Run() {\n}\nnamespace fs = std::filesystem;\n}  // namespace fathom"
        self.assertEqual([namespaces for namespaces, _ in lines_in_namespaces(text)], [("fathom",)] * 3)


if __name__ == "__main__":
    unittest.main()
