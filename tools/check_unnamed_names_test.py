"""Tests of check_unnamed_names.py."""

import unittest

import check_unnamed_names


def file_with(definition, space="fathom"):
    return f"namespace {space} {{\nnamespace {{\n\n{definition}\n\n}}  // namespace\n}}\n"


class RepeatedNames(unittest.TestCase):
    def repeated(self, first, second):
        return check_unnamed_names.repeated_names([("a.cc", first), ("b.cc", second)])

    def test_overloads_and_types_and_constants_are_found(self):
        pairs = [
            ("std::string Text(int x) {\n  return {};\n}", "Result<int> Text(const A& a,\n         B b) {"),
            ("class Reader {\n};", "struct Reader {"),
            ("constexpr int kMost = 3;", "constexpr std::size_t kMost[] = {1};"),
            ("const Model& Flash() {", "template <class T>\nT Flash(T x) {"),
        ]
        for first, second in pairs:
            found = self.repeated(file_with(first), file_with(second))
            self.assertEqual(list(found.values()), [["a.cc", "b.cc"]], first)

    def test_other_namespaces_and_calls_and_aliases_are_not(self):
        text = "void Text(int x) {\n  Other(x);\n}"
        self.assertEqual(self.repeated(file_with(text), file_with(text, "fathom::cli")), {})
        self.assertEqual(
            self.repeated(file_with(text, "gpu"), file_with(file_with(text, "gpu"))), {})
        self.assertEqual(
            self.repeated(file_with("void A() {\n  Log(1);\n}"), file_with("void Log(int) {}")), {})
        alias = file_with("using Json = nlohmann::json;\nusing testing::Text;")
        self.assertEqual(self.repeated(alias, alias), {})
        public = "namespace fathom {\nvoid Text(int x) {\n}\n}\n"
        self.assertEqual(self.repeated(public, file_with(text)), {})


if __name__ == "__main__":
    unittest.main()
