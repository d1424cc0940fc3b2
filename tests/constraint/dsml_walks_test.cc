// Random walks through the grammars of calls: no state leads nowhere, and what a walk has written
// matches.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "constraint/dsml.h"
#include "constraint/grammar/matcher.h"
#include "tests/constraint/naive_recognizer.h"

namespace fathom::constraint {
namespace {

constexpr Token kWalkedToken = 128825;

struct WalkedTools {
  std::string_view name;
  std::string_view tools;  // [name, parameters, strict]
};
std::ostream& operator<<(std::ostream& out, const WalkedTools& tools) { return out << tools.name; }

constexpr WalkedTools kWalkedTools[] = {
    {"markup", R"([["get", {"properties": {"a": {}, "ab": {}, "b": {}}}, false],
                   ["get_all", {"properties": {}}, false]])"},
    {"any_names", R"([["f", {}, false]])"},
    {"strict", R"([["f", {"properties": {"s": {"type": "string", "maxLength": 3},
                                         "n": {"type": "integer", "minimum": 5},
                                         "u": {"type": ["string", "boolean"]},
                                         "l": {"type": "array", "items": {"enum": ["x", 1]}}},
                          "required": ["n", "u"]}, true],
                   ["g", {"properties": {"a": {"pattern": "^[ab]{2}$", "type": "string"}},
                          "required": ["a"]}, true]])"},
    {"forms", R"([["f", {"anyOf": [
        {"properties": {"k": {"const": "a"}, "x": {"type": "null"}}, "required": ["k", "x"]},
        {"properties": {"k": {"const": "b"}}, "required": ["k"]}]}, true]])"},
    {"others", R"([["f", {"properties": {"a": {"type": "boolean"}}, "required": ["a"],
                          "additionalProperties": {"type": "integer"}}, true]])"},
};

std::vector<ToolSchema> ReadTools(std::string_view text) {
  const Result<JsonValue> list = ParseJson(text);
  EXPECT_TRUE(list) << text;
  std::vector<ToolSchema> tools;
  if (!list) return tools;
  for (const JsonValue& tool : list->items()) {
    tools.push_back({.name = std::string(tool.items()[0].text()),
                     .parameters = tool.items()[1],
                     .strict = tool.items()[2].boolean()});
  }
  return tools;
}

class DsmlWalks : public ::testing::TestWithParam<WalkedTools> {
 protected:
  void SetUp() override {
    std::vector<std::string> relaxed;
    const ConstraintResult<ExpressionId> block =
        DsmlBlock(grammar_, ReadTools(GetParam().tools),
                  {.dsml = kWalkedToken, .dsml_text = "｜DSML｜"}, relaxed);
    ASSERT_TRUE(block) << block.error().message;
    grammar_.start = *block;
    matcher_ = std::make_unique<Matcher>(grammar_);
  }

  // The symbols that may come next, with the states behind them.
  std::vector<std::pair<testing::TextSymbol, MatcherState>> Steps(const MatcherState& state) {
    std::vector<std::pair<testing::TextSymbol, MatcherState>> steps;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      MatcherState next;
      matcher_->Reset();
      if (!matcher_->Step(state, static_cast<std::uint8_t>(byte), next)) continue;
      steps.emplace_back(testing::TextSymbol{false, byte}, std::move(next));
    }
    MatcherState next;
    matcher_->Reset();
    if (matcher_->StepToken(state, kWalkedToken, true, next)) {
      steps.emplace_back(testing::TextSymbol{true, kWalkedToken}, std::move(next));
    }
    return steps;
  }

  Grammar grammar_;
  std::unique_ptr<Matcher> matcher_;
};

// Prefers markup and the name a, so that a walk leaves what could go on.
std::size_t Choose(const std::vector<std::pair<testing::TextSymbol, MatcherState>>& steps,
                   std::mt19937& random) {
  const std::size_t chosen = random() % steps.size();
  if (random() % 3 == 0) return chosen;
  for (const char wanted : {'<', '"', 'a', '/'}) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].first == testing::TextSymbol{false, static_cast<std::uint8_t>(wanted)}) return i;
    }
  }
  // The token is the last step.
  return steps.back().first.is_token ? steps.size() - 1 : chosen;
}

TEST_P(DsmlWalks, LeadToTheEnd) {
  std::mt19937 random(5);
  int n_ended = 0;
  for (int walk = 0; walk < 20; ++walk) {
    MatcherState state = matcher_->Begin();
    std::vector<testing::TextSymbol> text;
    std::string shown;
    for (int n = 0; n < 600 && !state.accepts; ++n) {
      auto steps = Steps(state);
      ASSERT_FALSE(matcher_->TooComplex());
      ASSERT_FALSE(steps.empty()) << "a state that leads nowhere, behind:\n" << shown;
      auto& [symbol, next] = steps[Choose(steps, random)];
      text.push_back(symbol);
      shown += symbol.is_token ? std::string("｜DSML｜")
                               : std::string(1, static_cast<char>(symbol.value));
      state = std::move(next);
    }
    if (!state.accepts) continue;
    ++n_ended;
    EXPECT_TRUE(Steps(state).empty()) << shown;
    EXPECT_TRUE(testing::NaiveRecognizer(grammar_).Accepts(text)) << shown;
  }
  EXPECT_GE(n_ended, 2);
}

INSTANTIATE_TEST_SUITE_P(Tools, DsmlWalks, ::testing::ValuesIn(kWalkedTools),
                         [](const ::testing::TestParamInfo<WalkedTools>& tools) {
                           return std::string(tools.param.name);
                         });

}  // namespace
}  // namespace fathom::constraint
