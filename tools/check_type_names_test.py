"""Tests of check_type_names.py."""

import unittest

import check_type_names


def header_with(definition, space="fathom"):
    return f"namespace {space} {{\n\n{definition}\n\n}}  // namespace {space}\n"


class RepeatedTypes(unittest.TestCase):
    def repeated(self, first, second):
        return check_type_names.repeated_types([("a.h", first), ("b.h", second)])

    def test_all_kinds_of_types_are_found(self):
        pairs = [
            ("struct Limits {", "class Limits final : public Base {"),
            ("enum class Limits { kA };", "using Limits = int;"),
            ("template <int kN>\nstruct Limits {};", "class Limits\n    : public Base {"),
            ("template <class T> class Limits {", "struct alignas(64) Limits {"),
        ]
        for first, second in pairs:
            found = self.repeated(header_with(first), header_with(second))
            self.assertEqual(found, {"fathom::Limits": ["a.h", "b.h"]}, first)

    def test_declarations_and_other_namespaces_and_members_are_not(self):
        definition = header_with("struct Limits {\n  int n;\n};")
        for other in ("struct Limits;", "class Limits;  // in a.h", "struct Limits& Get();",
                      "enum class Limits : int;", "struct Other {\n  struct Limits {};\n};",
                      "template <>\nstruct Limits<int> {};", "class Limits::Part {"):
            self.assertEqual(self.repeated(definition, header_with(other)), {}, other)
        self.assertEqual(
            self.repeated(definition, header_with("struct Limits {", "fathom::other")), {})
        nested = header_with(header_with("struct Limits {", "other"))
        self.assertEqual(self.repeated(definition, nested), {})


if __name__ == "__main__":
    unittest.main()
