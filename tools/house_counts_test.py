import unittest

from house_counts import class_body, count_house, operations, virtual_functions

BACKEND = """
class Probe;
class Backend {
 public:
  virtual ~Backend() = default;
  virtual bool OnHost() const = 0;

  // --- Steps ---
  virtual Status BeginStep(const BatchView& batch) = 0;
  // Adds x to all streams.
  virtual void AddToStreams(Matrix<const Bf16> x,
                            Matrix<Bf16> streams) = 0;
  void MeanOfStreams(Matrix<Bf16> out) { Run(MeanOfStreamsOp{out}); }
  virtual void Add(Matrix<const float> x) = 0;
};
"""


class HouseCounts(unittest.TestCase):
    def test_body_and_functions_of_a_class(self):
        body = class_body(BACKEND + "class Other {\n  virtual int More();\n};\n", "Backend")
        self.assertEqual(4, len(virtual_functions(body)))
        self.assertEqual("", class_body(BACKEND, "Missing"))

    def test_operations_are_functions_of_steps_with_names_of_their_own(self):
        self.assertEqual(["AddToStreams", "MeanOfStreams"],
                         operations(class_body(BACKEND, "Backend")))

    def test_counts_files_of_the_operation_in_most(self):
        counts = {count.name: count for count in count_house({
            "kernels/backend.h": BACKEND,
            "kernels/a.cc": "void Run(const MeanOfStreamsOp& op);\n",
            "kernels/b.cc": "MeanOfStreams(out);\n",
            "kernels/c.cc": "SumMeanOfStreams(out); AddToStreams(x);\n"})}
        found = counts["files of kernels of the operation that is in most"]
        self.assertEqual((3, 8, "MeanOfStreams"), (found.value, found.limit, found.detail))
        self.assertEqual(4, counts["virtual functions of Backend"].value)

    def test_counts_comments_not_code(self):
        counts = {count.name: count.value for count in count_house({
            "model/a.h": "int behind = 0;  // of the last step\n// Those behind it, behind all.\n",
            "model/b.cc": "int n = 0;  // of a step\n// Thosewho\n\n"})}
        self.assertEqual(4, counts["comment lines"])
        self.assertEqual(1, counts['comment lines with "behind"'])
        self.assertEqual(1, counts['comment lines with "those"'])
        self.assertEqual(1, counts['comments after code in headers that begin with "of"'])
        self.assertEqual(5, counts["lines"])

    def test_counts_pauses_only_where_passes_are(self):
        counts = {count.name: count.value for count in count_house({
            "engine/a.cc": "ResumePass();\n", "http/b.cc": "Resume();\n",
            "model/c.h": "// Paused.\n"})}
        self.assertEqual(2, counts["files of a pass that pauses"])


if __name__ == "__main__":
    unittest.main()
