// The JSON Schema Test Suite, judged as its README says: a group passes if every valid instance is
// accepted in some order of its keys, and every invalid one refused in all of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "constraint/schema/json_schema.h"
#include "json/json_value.h"
#include "json/json_writer.h"
#include "tests/constraint/naive_recognizer.h"
#include "tests/testing/shared_data.h"

namespace fathom::constraint {
namespace {

// The texts of a value with the keys of its objects in all orders, up to a number of texts.
std::vector<std::string> TextsInAllOrders(const JsonValue& value) {
  constexpr std::size_t kMaxTexts = 200;
  const auto combine = [&](const std::vector<std::vector<std::string>>& parts,
                           std::string_view brackets, std::vector<std::string>& texts) {
    std::vector<std::string> joined = {std::string(brackets.substr(0, 1))};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      std::vector<std::string> longer;
      for (const std::string& before : joined) {
        for (const std::string& part : parts[i]) {
          if (longer.size() < kMaxTexts) longer.push_back(before + (i > 0 ? "," : "") + part);
        }
      }
      joined = std::move(longer);
    }
    for (const std::string& text : joined) {
      if (texts.size() < kMaxTexts) texts.push_back(text + std::string(brackets.substr(1)));
    }
  };
  std::vector<std::string> texts;
  if (value.IsArray()) {
    std::vector<std::vector<std::string>> parts;
    for (const JsonValue& item : value.items()) parts.push_back(TextsInAllOrders(item));
    combine(parts, "[]", texts);
  } else if (value.IsObject()) {
    std::vector<std::size_t> order(value.items().size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    do {
      std::vector<std::vector<std::string>> parts;
      for (const std::size_t i : order) {
        std::vector<std::string> member = TextsInAllOrders(value.items()[i]);
        for (std::string& text : member) {
          text = WriteJson(JsonValue(value.key(i))) + ":" + text;
        }
        parts.push_back(std::move(member));
      }
      combine(parts, "{}", texts);
    } while (texts.size() < kMaxTexts && std::next_permutation(order.begin(), order.end()));
  } else {
    texts.push_back(WriteJson(value));
  }
  return texts;
}

// Formats that docs/spec/constrained.md 2.2 makes annotations: the suite's optional tests of them
// are of implementations that assert them.
bool IsOfAnnotation(const std::filesystem::path& file) {
  const std::string name = file.stem().string();
  return file.parent_path().stem() == "format" && (name == "idn-email" || name == "idn-hostname");
}

struct SuiteCounts {
  int groups = 0;
  int tests = 0;
  int passed = 0;       // in groups that pass
  int right = 0;        // single tests
  int unsupported = 0;  // in groups whose schema is refused
  int wrongly_refused = 0;
  int wrongly_accepted = 0;
};

class JsonSchemaSuite : public ::testing::TestWithParam<const char*> {
 protected:
  void RunGroup(const JsonValue& group, const std::string& name, bool is_annotation,
                SuiteCounts& counts) {
    const JsonValue& tests = *group.Find("tests");
    const auto n = static_cast<int>(tests.items().size());
    ++counts.groups;
    counts.tests += n;
    Grammar grammar;
    JsonSchemaCompiler compiler(grammar, {.strict = true});
    const ConstraintResult<ExpressionId> value = compiler.Value(*group.Find("schema"));
    if (!value && value.error().code != ConstraintErrorCode::kUnsatisfiableSchema) {
      counts.unsupported += n;
      EXPECT_FALSE(value.error().issues.empty()) << name;
      if (verbose_) fmt::print("  unsupported {}: {}\n", name, value.error().message);
      return;
    }
    grammar.start = value ? *value : grammar.pool.Nothing();
    testing::NaiveRecognizer recognizer(grammar);
    int n_right = 0;
    for (const JsonValue& test : tests.items()) {
      const bool valid = test.Find("valid")->boolean();
      const std::vector<std::string> texts = TextsInAllOrders(*test.Find("data"));
      const bool accepted = std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
        return recognizer.Accepts(text);
      });
      if (accepted == valid) {
        ++n_right;
        continue;
      }
      if (accepted && is_annotation) continue;
      ++(accepted ? counts.wrongly_accepted : counts.wrongly_refused);
      EXPECT_FALSE(accepted) << name << ": " << test.FindText("description") << ": " << texts[0];
      if (verbose_) {
        fmt::print("  refused {}: {}: {}\n", name, test.FindText("description"),
                   texts[0].substr(0, 80));
      }
    }
    counts.right += n_right;
    if (n_right == n) counts.passed += n;
  }

  void RunFile(const std::filesystem::path& path, SuiteCounts& counts) {
    const Result<JsonValue> groups = ParseJson(testing::ReadFile(path));
    ASSERT_TRUE(groups) << path;
    for (const JsonValue& group : groups->items()) {
      RunGroup(group, path.stem().string() + ": " + std::string(group.FindText("description")),
               IsOfAnnotation(path), counts);
    }
  }

  bool verbose_ = std::getenv("FATHOM_VERBOSE") != nullptr;
};

TEST_P(JsonSchemaSuite, AcceptsNoInvalidInstance) {
  const auto data = testing::SharedData(std::string("data/json_schema/tests/") + GetParam());
  if (!data) GTEST_SKIP() << testing::kNoSharedData;
  SuiteCounts all;
  SuiteCounts required;
  std::map<std::string, SuiteCounts> by_keyword;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(*data)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& file : files) {
    SuiteCounts counts;
    RunFile(file, counts);
    by_keyword[file.lexically_relative(*data).replace_extension().string()] = counts;
    const bool optional = file.string().find("/optional/") != std::string::npos;
    for (SuiteCounts* sum : {&all, optional ? nullptr : &required}) {
      if (sum == nullptr) continue;
      sum->groups += counts.groups;
      sum->tests += counts.tests;
      sum->passed += counts.passed;
      sum->right += counts.right;
      sum->unsupported += counts.unsupported;
      sum->wrongly_refused += counts.wrongly_refused;
      sum->wrongly_accepted += counts.wrongly_accepted;
    }
  }
  by_keyword["(required)"] = required;
  by_keyword["(all)"] = all;
  fmt::print("{:42} {:>6} {:>7} {:>6} {:>12} {:>8} {:>9}\n", GetParam(), "tests", "passed", "right",
             "unsupported", "refused", "accepted");
  for (const auto& [keyword, counts] : by_keyword) {
    fmt::print("{:42} {:>6} {:>7} {:>6} {:>12} {:>8} {:>9}\n", keyword, counts.tests, counts.passed,
               counts.right, counts.unsupported, counts.wrongly_refused, counts.wrongly_accepted);
  }
  EXPECT_EQ(all.wrongly_accepted, 0);
  if (std::string_view(GetParam()) == "draft2020-12") {
    EXPECT_GE(all.passed, 1200);
  }
}

std::string NameOfDraft(const ::testing::TestParamInfo<const char*>& tested) {
  std::string name = tested.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Drafts, JsonSchemaSuite,
                         ::testing::Values("draft2020-12", "draft7", "draft4"), NameOfDraft);

}  // namespace
}  // namespace fathom::constraint
