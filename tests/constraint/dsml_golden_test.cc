// The calls in the golden data of data/encoding, against grammars of the tools that they name.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "constraint/dsml.h"
#include "tests/constraint/naive_recognizer.h"
#include "tests/testing/shared_data.h"

namespace fathom::constraint {
namespace {

using GoldenJson = nlohmann::ordered_json;
using testing::NaiveRecognizer;
using testing::TextSymbols;

constexpr Token kGoldenToken = 128825;
constexpr std::string_view kGoldenTokenText = "｜DSML｜";
constexpr std::string_view kOpen = "<｜DSML｜tool_calls>";
constexpr std::string_view kClose = "</｜DSML｜tool_calls>";

// A block of calls and the tools that were offered.
struct GoldenBlock {
  std::string name{};
  std::string text{};
  std::vector<ToolSchema> tools{};
};

std::optional<GoldenJson> EncodingJson(std::string_view name) {
  const auto path = testing::SharedData(std::string("data/encoding/").append(name));
  if (!path) return std::nullopt;
  return GoldenJson::parse(testing::ReadFile(*path), nullptr, false);
}

void AddTools(const GoldenJson& list, std::vector<ToolSchema>& tools) {
  for (const GoldenJson& tool : list) {
    const GoldenJson& function = tool["function"];
    const std::string schema = function.value("parameters", GoldenJson()).dump();
    const std::string name = function["name"].get<std::string>();
    tools.push_back({.name = name, .parameters = ParseJson(schema).value_or(JsonValue())});
  }
}

std::vector<ToolSchema> ReadGoldenTools(const GoldenJson& messages) {
  std::vector<ToolSchema> tools;
  for (const GoldenJson& message : messages) {
    if (message.contains("tools") && message["tools"].is_array()) AddTools(message["tools"], tools);
  }
  return tools;
}

// Adds a tool of any parameters for each called name that is not among the tools.
void AddCalledTools(std::string_view text, std::vector<ToolSchema>& tools) {
  constexpr std::string_view kInvoke = "invoke name=\"";
  for (std::size_t at = 0; (at = text.find(kInvoke, at)) != std::string_view::npos;) {
    at += kInvoke.size();
    const std::string_view name = text.substr(at, text.find('"', at) - at);
    const auto has_name = [&](const ToolSchema& tool) { return tool.name == name; };
    if (std::any_of(tools.begin(), tools.end(), has_name)) continue;
    tools.push_back({.name = std::string(name), .parameters = JsonValue::Object()});
  }
}

// Adds the blocks of a text other than the example of the system message.
void AddBlocks(const std::string& name, std::string_view text, const std::vector<ToolSchema>& tools,
               std::vector<GoldenBlock>& blocks) {
  for (std::size_t at = 0; (at = text.find(kOpen, at)) != std::string_view::npos;) {
    const std::size_t end = text.find(kClose, at);
    if (end == std::string_view::npos) return;
    const std::string_view block = text.substr(at, end + kClose.size() - at);
    at = end;
    if (block.find("$TOOL_NAME") != std::string_view::npos) continue;
    blocks.push_back({name, std::string(block), tools});
    AddCalledTools(block, blocks.back().tools);
  }
}

std::vector<GoldenBlock> GoldenBlocks() {
  std::vector<GoldenBlock> blocks;
  const auto cases = EncodingJson("extra/encode_cases.json");
  for (const GoldenJson& entry : cases.value_or(GoldenJson::array())) {
    AddBlocks(entry["name"], entry["expected"].get<std::string>(),
              ReadGoldenTools(entry["messages"]), blocks);
  }
  for (int i = 1; i <= 4; ++i) {
    const auto input = EncodingJson(fmt::format("official_v4/test_input_{}.json", i));
    const auto output =
        testing::SharedData(fmt::format("data/encoding/official_v4/test_output_{}.txt", i));
    if (!input || !output) continue;
    std::vector<ToolSchema> tools =
        ReadGoldenTools(input->is_object() ? (*input)["messages"] : *input);
    if (input->is_object()) AddTools((*input)["tools"], tools);
    AddBlocks(fmt::format("official {}", i), testing::ReadFile(*output), tools, blocks);
  }
  return blocks;
}

std::unique_ptr<Grammar> CompileGrammar(const GoldenBlock& block) {
  auto grammar = std::make_unique<Grammar>();
  std::vector<std::string> relaxed;
  const ConstraintResult<ExpressionId> start =
      DsmlBlock(*grammar, block.tools,
                {.dsml = kGoldenToken, .dsml_text = std::string(kGoldenTokenText)}, relaxed);
  EXPECT_TRUE(start) << block.name << ": " << (start ? "" : start.error().message);
  if (start) grammar->start = *start;
  return grammar;
}

bool BlockMatches(Grammar& grammar, std::string_view text) {
  return NaiveRecognizer(grammar).Accepts(TextSymbols(text, kGoldenTokenText, kGoldenToken));
}

TEST(DsmlGolden, BlocksAreAccepted) {
  const std::vector<GoldenBlock> blocks = GoldenBlocks();
  if (blocks.empty()) GTEST_SKIP() << testing::kNoSharedData;
  EXPECT_GE(blocks.size(), 11U);
  for (GoldenBlock block : blocks) {
    EXPECT_TRUE(BlockMatches(*CompileGrammar(block), block.text)) << block.name << "\n"
                                                                  << block.text;
    for (ToolSchema& tool : block.tools) tool.strict = !tool.parameters.items().empty();
    EXPECT_TRUE(BlockMatches(*CompileGrammar(block), block.text)) << block.name << ", strict\n"
                                                                  << block.text;
  }
}

// True for each byte of a block that is not part of a value.
std::vector<bool> MarkupBytes(std::string_view text) {
  std::vector<bool> is_markup(text.size(), true);
  constexpr std::string_view kParameter = "<｜DSML｜parameter";
  for (std::size_t at = 0; (at = text.find(kParameter, at)) != std::string_view::npos;) {
    const std::size_t begin = text.find("\">", at) + 2;
    const std::size_t end = text.find("</｜DSML｜parameter>", begin);
    std::fill(is_markup.begin() + static_cast<std::ptrdiff_t>(begin),
              is_markup.begin() + static_cast<std::ptrdiff_t>(end), false);
    at = end;
  }
  return is_markup;
}

TEST(DsmlGolden, MarkupWithOneOtherByteIsRefused) {
  for (const GoldenBlock& block : GoldenBlocks()) {
    // Where any name is allowed, other bytes are other names.
    const auto has_any_names = [](const ToolSchema& tool) {
      return tool.parameters.items().empty();
    };
    if (std::any_of(block.tools.begin(), block.tools.end(), has_any_names)) continue;
    const auto grammar = CompileGrammar(block);
    const std::vector<bool> is_markup = MarkupBytes(block.text);
    for (std::size_t i = 0; i < block.text.size(); ++i) {
      if (!is_markup[i]) continue;
      std::string text = block.text;
      text[i] = static_cast<char>(text[i] == 'x' ? 'y' : 'x');
      EXPECT_FALSE(BlockMatches(*grammar, text)) << block.name << "\n" << text;
      text.erase(i, 1);
      EXPECT_FALSE(BlockMatches(*grammar, text)) << block.name << "\n" << text;
      text = block.text;
      // A line ends with more newlines only in a value.
      const bool before_value = i > 0 && !is_markup[i - 1];
      if (before_value) continue;
      text.insert(i, 1, '\n');
      EXPECT_FALSE(BlockMatches(*grammar, text)) << block.name << "\n" << text;
    }
  }
}

// Blocks that the official parser refuses, and three that it accepts although its encoder never
// writes them: other blanks, and a value that is no JSON.
TEST(DsmlGolden, StrictParseCases) {
  const auto cases = EncodingJson("extra/parse_cases_strict.json");
  if (!cases) GTEST_SKIP() << testing::kNoSharedData;
  const std::set<std::string> not_written = {"zero_args_one_newline",
                                             "false_with_invalid_json_passthrough"};
  int n_accepted = 0;
  int n_refused = 0;
  for (const GoldenJson& entry : *cases) {
    const std::string name = entry["name"];
    const std::string text = entry["text"];
    const std::size_t begin = text.find(kOpen);
    if (begin == std::string::npos) continue;
    // Where a block may begin is no matter of the block.
    if (name == "block_in_reasoning" || name == "single_newline_before_block") continue;
    std::string_view block = std::string_view(text).substr(begin);
    constexpr std::string_view kEnd = "<｜end▁of▁sentence｜>";
    if (block.ends_with(kEnd)) block.remove_suffix(kEnd.size());
    GoldenBlock golden{name, std::string(block), {}};
    AddCalledTools(block, golden.tools);
    const bool accepted = BlockMatches(*CompileGrammar(golden), block);
    EXPECT_EQ(accepted, entry["official"].contains("ok") && !not_written.contains(name)) << text;
    ++(accepted ? n_accepted : n_refused);
  }
  EXPECT_EQ(n_accepted, 6);
  EXPECT_EQ(n_refused, 6);
}

}  // namespace
}  // namespace fathom::constraint
