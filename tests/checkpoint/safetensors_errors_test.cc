// Everything that can be wrong with the files of a checkpoint: each gives a message that names the
// file, the tensor, what was expected and what was found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using WeightMap = std::vector<std::pair<std::string, std::string>>;

std::vector<std::string> Messages(const Checkpoint::Inspection& inspection) {
  std::vector<std::string> messages;
  for (const Error& problem : inspection.problems) {
    messages.push_back(problem.message);
  }
  return messages;
}

// Returns the problems of a single file with these bytes.
std::vector<std::string> ProblemsOfFile(std::string_view bytes) {
  const testing::TemporaryDirectory directory;
  testing::WriteFile(directory.path() / "model.safetensors", bytes);
  const Checkpoint::Inspection inspection = Checkpoint::Inspect(directory.path());
  EXPECT_EQ(Checkpoint::Open(directory.path()).has_value(), inspection.problems.empty());
  std::vector<std::string> messages = Messages(inspection);
  for (const std::string& message : messages) {
    EXPECT_THAT(message, HasSubstr("model.safetensors: "));
  }
  return messages;
}

std::vector<std::string> FindProblems(std::string_view header, std::string_view data) {
  return ProblemsOfFile(testing::SafetensorsBytes(header, data));
}

// Returns the problems of a tensor "t" with these fields, beside 8 bytes of data.
std::vector<std::string> ProblemsOfTensor(std::string_view fields) {
  return FindProblems(fmt::format(R"({{"t":{}}})", fields), "01234567");
}

TEST(SafetensorsErrors, NotAFile) {
  const testing::TemporaryDirectory directory;
  Result<Checkpoint> checkpoint = Checkpoint::Open(directory.path() / "absent");
  ASSERT_FALSE(checkpoint);
  EXPECT_EQ(checkpoint.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(checkpoint.error().message, AllOf(HasSubstr("absent"), HasSubstr("does not exist")));
  checkpoint = Checkpoint::Open(directory.path() / std::string(300, 'x'));
  ASSERT_FALSE(checkpoint);
  EXPECT_EQ(checkpoint.error().code, ErrorCode::kIo);
  EXPECT_THAT(checkpoint.error().message, HasSubstr("File name too long"));
  checkpoint = Checkpoint::Open(directory.path());
  ASSERT_FALSE(checkpoint);
  EXPECT_EQ(checkpoint.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(
      checkpoint.error().message,
      HasSubstr("expected model.safetensors.index.json or model.safetensors, found neither"));
}

TEST(SafetensorsErrors, ShorterThanItsHeader) {
  EXPECT_THAT(ProblemsOfFile(""), ElementsAre(HasSubstr("at least 8 bytes, found 0")));
  EXPECT_THAT(ProblemsOfFile("1234567"), ElementsAre(HasSubstr("at least 8 bytes, found 7")));
  const std::string header_only = testing::SafetensorsBytes("{ }", "");
  EXPECT_THAT(ProblemsOfFile(std::string_view(header_only).substr(0, 10)),
              ElementsAre(HasSubstr("expected a header of 3 bytes, found 2 bytes")));
  EXPECT_THAT(ProblemsOfFile(std::string("\x01\xE1\xF5\x05\0\0\0\0{}", 10)),
              ElementsAre(HasSubstr("a header of at most 100000000 bytes, found 100000001")));
  EXPECT_THAT(ProblemsOfFile("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF{}"),
              ElementsAre(HasSubstr("found 18446744073709551615")));
}

TEST(SafetensorsErrors, HeaderIsNotAnObject) {
  EXPECT_THAT(FindProblems("", ""), ElementsAre(HasSubstr("not valid JSON")));
  EXPECT_THAT(FindProblems("{\"a\":", ""), ElementsAre(HasSubstr("not valid JSON")));
  EXPECT_THAT(FindProblems("{} x", ""), ElementsAre(HasSubstr("not valid JSON")));
  EXPECT_THAT(FindProblems("{\"\xFF\":1}", ""), ElementsAre(HasSubstr("not valid JSON")));
  EXPECT_THAT(FindProblems("[1]", ""), ElementsAre(HasSubstr("not a JSON object but a list")));
  EXPECT_THAT(FindProblems("7", ""), ElementsAre(HasSubstr("not a JSON object but 7")));
  EXPECT_THAT(FindProblems("null", ""), ElementsAre(HasSubstr("not a JSON object but null")));
  EXPECT_THAT(FindProblems(R"({"__metadata__":3})", ""),
              ElementsAre(HasSubstr("__metadata__: expected an object, found 3")));
  EXPECT_THAT(FindProblems("\xEF\xBB\xBF{}", ""),
              ElementsAre(HasSubstr("not valid JSON: byte 1 of")));
  EXPECT_THAT(FindProblems(std::string("{}\0", 3), ""),
              ElementsAre(HasSubstr("not valid JSON: byte 3 of")));
}

TEST(SafetensorsErrors, MetadataHasTexts) {
  EXPECT_THAT(FindProblems(R"({"__metadata__":{"format":"pt"}})", ""), IsEmpty());
  EXPECT_THAT(FindProblems(R"({"__metadata__":null})", ""), IsEmpty());
  for (const std::string other : {"1", "null", "true", "[]", "{}"}) {
    EXPECT_THAT(
        FindProblems(R"({"__metadata__":{"a":")" + std::string("b") + R"(","c":)" + other + "}}",
                     ""),
        ElementsAre(HasSubstr("__metadata__: expected texts, found ")))
        << other;
  }
  EXPECT_THAT(FindProblems(R"({"__metadata__":{},"__metadata__":{}})", ""),
              ElementsAre(HasSubstr("has __metadata__ twice")));
}

TEST(SafetensorsErrors, NestedTooDeep) {
  const std::string lists(3'000'000, '[');
  EXPECT_THAT(FindProblems(R"({"t":{"x":)" + lists, ""), ElementsAre(HasSubstr("nested deeper")));
  std::string objects;
  for (int i = 0; i < 500'000; ++i) {
    objects += R"({"a":)";
  }
  EXPECT_THAT(FindProblems(objects, ""), ElementsAre(HasSubstr("nested deeper than 16 levels")));
  EXPECT_THAT(FindProblems(R"({"__metadata__":)" + objects, ""),
              ElementsAre(HasSubstr("expected texts"), HasSubstr("nested deeper than 16 levels")));
}

TEST(SafetensorsErrors, FieldsOfTheWrongType) {
  EXPECT_THAT(ProblemsOfTensor("5"),
              ElementsAre(HasSubstr("tensor 't': expected an object with dtype, shape and "
                                    "data_offsets, found 5")));
  EXPECT_THAT(ProblemsOfTensor("[1]"), ElementsAre(HasSubstr("found a list")));
  EXPECT_THAT(ProblemsOfTensor(R"({"shape":[8],"data_offsets":[0,8]})"),
              ElementsAre(HasSubstr("tensor 't': has no dtype")));
  EXPECT_THAT(ProblemsOfTensor(R"({"dtype":"U8","data_offsets":[0,8]})"),
              ElementsAre(HasSubstr("has no shape")));
  EXPECT_THAT(ProblemsOfTensor(R"({"dtype":"U8","shape":[8]})"),
              ElementsAre(HasSubstr("has no data_offsets")));
  EXPECT_THAT(ProblemsOfTensor(R"({"dtype":7,"shape":[8],"data_offsets":[0,8]})"),
              ElementsAre(HasSubstr("dtype: expected text, found 7")));
  EXPECT_THAT(ProblemsOfTensor(R"({"dtype":{},"shape":[8],"data_offsets":[0,8]})"),
              ElementsAre(HasSubstr("dtype: expected text, found an object")));
  EXPECT_THAT(ProblemsOfTensor(R"({"dtype":"FP4","shape":[8],"data_offsets":[0,8]})"),
              ElementsAre(HasSubstr("unknown dtype 'FP4'")));
  EXPECT_THAT(ProblemsOfTensor(R"({"dtype":"U8","shape":"8","data_offsets":[0,8]})"),
              ElementsAre(HasSubstr("shape: expected a list of integers, found '8'")));
  EXPECT_THAT(ProblemsOfTensor(R"({"dtype":"U8","shape":{},"data_offsets":[0,8]})"),
              ElementsAre(HasSubstr("shape: expected a list of integers, found an object")));
  EXPECT_THAT(ProblemsOfTensor(R"({"dtype":"U8","shape":[[8]],"data_offsets":[0,8]})"),
              ElementsAre(HasSubstr("shape: expected integers from 0, found a list")));
  EXPECT_THAT(ProblemsOfTensor(R"({"dtype":"U8","shape":[8],"shape":[8],"data_offsets":[0,8]})"),
              ElementsAre(HasSubstr("has shape twice")));
}

TEST(SafetensorsErrors, ImpossibleNumbers) {
  EXPECT_THAT(ProblemsOfTensor(R"({"dtype":"U8","shape":[-8],"data_offsets":[0,8]})"),
              ElementsAre(HasSubstr("shape: expected integers from 0, found -8")));
  EXPECT_THAT(ProblemsOfTensor(R"({"dtype":"U8","shape":[8.5],"data_offsets":[0,8]})"),
              ElementsAre(HasSubstr("shape: expected integers from 0, found 8.5")));
  EXPECT_THAT(ProblemsOfTensor(R"({"dtype":"U8","shape":[8],"data_offsets":[-1,8]})"),
              ElementsAre(HasSubstr("data_offsets: expected integers from 0, found -1")));
  EXPECT_THAT(ProblemsOfTensor(R"({"dtype":"U8","shape":[8],"data_offsets":["0",8]})"),
              ElementsAre(HasSubstr("data_offsets: expected integers from 0, found '0'")));
  EXPECT_THAT(
      ProblemsOfTensor(R"({"dtype":"U8","shape":[8],"data_offsets":[0,9223372036854775808]})"),
      ElementsAre(HasSubstr("data_offsets: 9223372036854775808 is too large")));
  EXPECT_THAT(
      ProblemsOfTensor(R"({"dtype":"U8","shape":[8],"data_offsets":[0,99999999999999999999]})"),
      ElementsAre(HasSubstr("data_offsets: expected integers from 0, found 99999999999999999999")));
  EXPECT_THAT(ProblemsOfTensor(R"({"dtype":"U8","shape":[8],"data_offsets":[0,1e400]})"),
              ElementsAre(HasSubstr("not valid JSON")));
  EXPECT_THAT(ProblemsOfTensor(R"({"dtype":"U8","shape":[8],"data_offsets":[8]})"),
              ElementsAre(HasSubstr("data_offsets: expected 2 integers, found 1")));
  EXPECT_THAT(ProblemsOfTensor(R"({"dtype":"U8","shape":[8],"data_offsets":[0,4,8]})"),
              ElementsAre(HasSubstr("data_offsets: expected 2 integers, found 3")));
  EXPECT_THAT(ProblemsOfTensor(R"({"dtype":"U8","shape":[8],"data_offsets":[8,0]})"),
              ElementsAre(HasSubstr("data_offsets: begin 8 is behind end 0")));
  EXPECT_THAT(
      ProblemsOfTensor(R"({"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,8]})"),
      ElementsAre(HasSubstr("shape [4294967296, 4294967296] of U8 has more bytes")));
  EXPECT_THAT(
      ProblemsOfTensor(R"({"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,8]})"),
      ElementsAre(HasSubstr("has more bytes")));
  EXPECT_THAT(ProblemsOfTensor(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
              ElementsAre(HasSubstr("tensor 't': expected 12 bytes for F32 [3], found 8")));
}

TEST(SafetensorsErrors, TensorsOutsideTheFile) {
  EXPECT_THAT(
      ProblemsOfTensor(R"({"dtype":"U8","shape":[9],"data_offsets":[0,9]})"),
      ElementsAre(AllOf(HasSubstr("expected 9 bytes behind the header, found 8"),
                        HasSubstr("truncated"), HasSubstr("1 tensor(s)"), HasSubstr("first 't'"))));
  EXPECT_THAT(
      ProblemsOfTensor(
          R"({"dtype":"U8","shape":[1],"data_offsets":[9223372036854775806,9223372036854775807]})"),
      ElementsAre(HasSubstr("expected 9223372036854775807 bytes")));
}

TEST(SafetensorsErrors, BytesOfNoTensor) {
  EXPECT_THAT(ProblemsOfTensor(R"({"dtype":"U8","shape":[6],"data_offsets":[0,6]})"),
              ElementsAre(HasSubstr("expected 6 bytes behind the header, found 8: 2 too many")));
  EXPECT_THAT(FindProblems("{}", "x"), ElementsAre(HasSubstr("1 too many")));
  EXPECT_THAT(ProblemsOfTensor(R"({"dtype":"U8","shape":[5],"data_offsets":[3,8]})"),
              ElementsAre(HasSubstr("3 bytes before tensor 't' belong to no tensor")));
  EXPECT_THAT(FindProblems(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                           R"("b":{"dtype":"U8","shape":[2],"data_offsets":[6,8]}})",
                           "01234567"),
              ElementsAre(HasSubstr("4 bytes before tensor 'b' belong to no tensor")));
}

TEST(SafetensorsErrors, Overlap) {
  EXPECT_THAT(FindProblems(R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]},)"
                           R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
                           "01234567"),
              ElementsAre(HasSubstr("tensors 'a' [0, 5] and 'b' [4, 8] overlap")));
  // One inside another, and the same bytes twice.
  EXPECT_THAT(FindProblems(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                           R"("b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]},)"
                           R"("c":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
                           "01234567"),
              ElementsAre(HasSubstr("'a' [0, 8] and 'c' [0, 8] overlap"),
                          HasSubstr("'a' [0, 8] and 'b' [2, 4] overlap")));
  // An empty one stands between two others, or at an end.
  EXPECT_THAT(FindProblems(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                           R"("b":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}})",
                           "01234567"),
              ElementsAre(HasSubstr("'a' [0, 8] and 'b' [2, 2] overlap")));
  EXPECT_THAT(FindProblems(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                           R"("b":{"dtype":"U8","shape":[0],"data_offsets":[8,8]},)"
                           R"("c":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                           "01234567"),
              IsEmpty());
}

TEST(SafetensorsErrors, AnEntryMayBeRepeated) {
  EXPECT_THAT(FindProblems(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                           R"("b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},)"
                           R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                           "01"),
              IsEmpty());
}

TEST(SafetensorsErrors, NameTwice) {
  EXPECT_THAT(FindProblems(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                           R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                           "01"),
              ElementsAre(HasSubstr("tensor 'a' occurs twice")));
  EXPECT_THAT(FindProblems(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                           R"("model.a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                           "01"),
              ElementsAre(HasSubstr("tensor 'a' occurs twice")));
}

// Names are shown, but cannot garble the terminal.
TEST(SafetensorsErrors, QuotesNames) {
  const std::string longest(300, 'x');
  EXPECT_THAT(FindProblems(R"({"\u001b[2J":1})", ""), ElementsAre(HasSubstr("'\\x1b[2J'")));
  EXPECT_THAT(FindProblems("{\"" + longest + "\":1}", ""),
              ElementsAre(AllOf(HasSubstr("xxx...'"), Not(HasSubstr(longest)))));
}

// Two good shards and their index, to be spoilt.
class ShardedErrors : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<testing::TensorSpec> first = {{"a", DType::kU8, {4}}, {"b", DType::kU8, {4}}};
    const std::vector<testing::TensorSpec> second = {{"c", DType::kU8, {4}}};
    testing::WriteSafetensors(path() / "1.safetensors", first);
    testing::WriteSafetensors(path() / "2.safetensors", second);
    WriteMap(map_);
  }

  const std::filesystem::path& path() const { return directory_.path(); }
  void WriteMap(const WeightMap& map) { testing::WriteIndex(path(), map, 12); }
  void WriteIndexText(std::string_view text) {
    testing::WriteFile(path() / "model.safetensors.index.json", text);
  }
  std::vector<std::string> Problems() { return Messages(Checkpoint::Inspect(path())); }

  testing::TemporaryDirectory directory_;
  WeightMap map_ = {{"a", "1.safetensors"}, {"b", "1.safetensors"}, {"c", "2.safetensors"}};
};

TEST_F(ShardedErrors, NoneAtFirst) { EXPECT_THAT(Problems(), IsEmpty()); }

TEST_F(ShardedErrors, MissingShard) {
  std::filesystem::remove(path() / "2.safetensors");
  EXPECT_THAT(Problems(), ElementsAre(AllOf(HasSubstr("2.safetensors"), HasSubstr("cannot open"))));
  const Result<Checkpoint> checkpoint = Checkpoint::Open(path());
  ASSERT_FALSE(checkpoint);
  EXPECT_EQ(checkpoint.error().code, ErrorCode::kNotFound);
}

TEST_F(ShardedErrors, TruncatedAndOversizedShards) {
  const auto bytes = std::filesystem::file_size(path() / "1.safetensors");
  std::filesystem::resize_file(path() / "1.safetensors", bytes - 5);
  std::filesystem::resize_file(path() / "2.safetensors",
                               std::filesystem::file_size(path() / "2.safetensors") + 7);
  EXPECT_THAT(Problems(), ElementsAre(AllOf(HasSubstr("1.safetensors: expected 8 bytes"),
                                            HasSubstr("found 3"), HasSubstr("2 tensor(s)")),
                                      AllOf(HasSubstr("2.safetensors: expected 4 bytes"),
                                            HasSubstr("found 11: 7 too many"))));
  const Result<Checkpoint> checkpoint = Checkpoint::Open(path());
  ASSERT_FALSE(checkpoint);
  EXPECT_THAT(checkpoint.error().message, HasSubstr("2 problems with the files of "));
}

TEST_F(ShardedErrors, InspectShowsWhatCanBeRead) {
  testing::WriteFile(path() / "2.safetensors", "no");
  const Checkpoint::Inspection inspection = Checkpoint::Inspect(path());
  EXPECT_EQ(inspection.problems.size(), 1u);
  EXPECT_NE(inspection.checkpoint.Find("a"), nullptr);
  EXPECT_EQ(inspection.checkpoint.Find("c"), nullptr);
  EXPECT_EQ(inspection.checkpoint.shards().size(), 2u);
}

TEST_F(ShardedErrors, IndexAndShardsDisagree) {
  WriteMap({{"a", "1.safetensors"}, {"c", "1.safetensors"}, {"d", "2.safetensors"}});
  EXPECT_THAT(
      Problems(),
      ElementsAre(AllOf(HasSubstr("tensor 'c': expected in 1.safetensors, found in 2.safetensors")),
                  AllOf(HasSubstr("2.safetensors: has no tensor 'd'")),
                  AllOf(HasSubstr("tensor 'b' of 1.safetensors is missing from the index"))));
}

TEST_F(ShardedErrors, NameInTwoShards) {
  const std::vector<testing::TensorSpec> second = {{"c", DType::kU8, {2}}, {"a", DType::kU8, {2}}};
  testing::WriteSafetensors(path() / "2.safetensors", second);
  EXPECT_THAT(Problems(),
              ElementsAre(AllOf(HasSubstr("2.safetensors: tensor 'a' occurs twice, first in 1."))));
}

TEST_F(ShardedErrors, NameTwiceInTheIndex) {
  map_.emplace_back("a", "1.safetensors");
  WriteMap(map_);
  EXPECT_THAT(Problems(), ElementsAre(AllOf(HasSubstr("index.json: tensor 'a' occurs twice"))));
}

TEST_F(ShardedErrors, WrongTotalSize) {
  testing::WriteIndex(path(), map_, 13);
  EXPECT_THAT(Problems(),
              ElementsAre(HasSubstr("metadata.total_size is 13, but the tensors have 12 bytes")));
}

TEST_F(ShardedErrors, IndexLeadsOutOfTheDirectory) {
  for (const char* file : {"../1.safetensors", "/etc/passwd", "x/1.safetensors", "..", ".", ""}) {
    WriteMap({{"a", file}, {"b", "1.safetensors"}, {"c", "2.safetensors"}});
    EXPECT_THAT(Problems(),
                ::testing::Contains(AllOf(
                    HasSubstr("tensor 'a': expected the name of a file in the same directory"),
                    HasSubstr(fmt::format("found '{}'", file)))));
  }
}

TEST_F(ShardedErrors, IndexOfTheWrongForm) {
  const std::string deep(100'000, '[');
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "not valid JSON"},
      {"\xEF\xBB\xBF{\"weight_map\":{}}", "not valid JSON: byte 1"},
      {"{\"weight_map\":", "not valid JSON"},
      {"[]", "expected a JSON object, found a list"},
      {"3", "expected a JSON object, found 3"},
      {"{}", "has no weight_map"},
      {R"({"weight_map":[]})", "weight_map: expected an object, found a list"},
      {R"({"weight_map":"x"})", "weight_map: expected an object, found 'x'"},
      {R"({"metadata":1,"weight_map":{}})", "metadata: expected an object, found 1"},
      {R"({"metadata":{"total_size":-1},"weight_map":{}})",
       "metadata.total_size: expected a count of bytes, found -1"},
      {R"({"metadata":{"total_size":1.5},"weight_map":{}})", "found 1.5"},
      {R"({"metadata":{"total_size":"1"},"weight_map":{}})", "found '1'"},
      {R"({"weight_map":{"a":1}})", "tensor 'a': expected a file name, found 1"},
      {R"({"weight_map":{"a":{}}})", "tensor 'a': expected a file name, found an object"},
      {R"({"metadata":)" + deep, "nested deeper than 16 levels"},
  };
  for (const auto& [text, expected] : cases) {
    WriteIndexText(text);
    EXPECT_THAT(Problems(), ::testing::Contains(AllOf(HasSubstr("model.safetensors.index.json: "),
                                                      HasSubstr(expected))))
        << text;
  }
}

TEST_F(ShardedErrors, ShowsTwentyAndCountsTheRest) {
  for (int i = 0; i < 30; ++i) {
    map_.emplace_back(fmt::format("x{}", i), "1.safetensors");
  }
  WriteMap(map_);
  EXPECT_EQ(Problems().size(), 30u);
  const Result<Checkpoint> checkpoint = Checkpoint::Open(path());
  ASSERT_FALSE(checkpoint);
  EXPECT_THAT(checkpoint.error().message,
              AllOf(HasSubstr("30 problems with the files of "), HasSubstr("'x19'"),
                    Not(HasSubstr("'x20'")), HasSubstr("... and 10 more")));
}

}  // namespace
}  // namespace fathom::checkpoint
