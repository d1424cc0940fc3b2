// The grammar of calls and the parser of answers agree: what the grammar lets a value or a name be,
// the parser finds as it was written.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "constraint/constraint.h"
#include "tests/api/api_model.h"
#include "tests/chat/answers.h"

namespace fathom::api {
namespace {

using ValueJson = nlohmann::ordered_json;

constexpr Token kEndOfCalls = 1;
constexpr std::string_view kCallStart =
    "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"";
constexpr std::string_view kValueEnd = "</｜DSML｜parameter>";
constexpr std::string_view kCallEnd = "\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";

// Parts of tags, in the spellings that the parser takes, and what may stand around them.
constexpr std::string_view kPieces[] = {"<",
                                        "</",
                                        "｜",
                                        "|",
                                        "DSML",
                                        "｜DSML｜",
                                        " ",
                                        "parameter",
                                        "invoke",
                                        "tool_calls",
                                        "calls",
                                        "function_calls",
                                        ">",
                                        "/>",
                                        " name=",
                                        "\"",
                                        " name=\"f\">",
                                        "\" string=\"true\">",
                                        "think>",
                                        "\n",
                                        "a",
                                        "größe",
                                        "</parameter>",
                                        "<parameter name=\"a\" b=\"c\"/>",
                                        "<invoke name=\"f\">",
                                        "{}",
                                        "\xF0\x9F\x98\x80",
                                        "\\",
                                        "D",
                                        "<｜",
                                        "</think>",
                                        "<|DSML|invoke>"};
constexpr std::string_view kNamePieces[] = {"a",
                                            " ",
                                            ">",
                                            "'",
                                            "=",
                                            "｜DSML｜",
                                            "|",
                                            "/",
                                            "string=",
                                            "größe",
                                            "\xF0\x9F\x98\x80",
                                            "\\",
                                            "input",
                                            "arguments",
                                            "parameters"};

class CallValues : public testing::ApiModelTest {
 protected:
  void SetUp() override {
    ConstraintCompiler compiler(std::make_shared<ConstraintVocabulary>(
        tokenizer_, tokenizer_.vocab_size(), std::vector<Token>{kEndOfCalls}));
    const ToolSpec tool = {.name = "f", .function_json = std::string(kFunction), .strict = true};
    const auto function = ParseJson(tool.function_json);
    ASSERT_TRUE(function);
    const ConstraintSpec spec = {
        .tools = {
            .kind = ToolConstraint::Kind::kRequired,
            .tools = {{.name = "f", .parameters = *function->Find("parameters"), .strict = true}}}};
    const auto compiled = compiler.Compile(spec);
    ASSERT_TRUE(compiled) << compiled.error().message;
    constraint_ = *compiled;
    tools_ = *ToolSchemas::Make(std::vector<ToolSpec>{tool});
  }

  // Markup, whose tokens are its own.
  void Write(std::string_view markup) {
    for (const Token token : Tokens(markup)) {
      Result<ConstraintState> next = constraint_->Advance(state_, token);
      ASSERT_TRUE(next) << text_ << " then " << tokenizer_.TokenBytes(token);
      state_ = *std::move(next);
    }
    text_ += markup;
  }
  // Writes random pieces, as far as the grammar takes them, and returns what was written.
  std::string WritePieces(std::span<const std::string_view> pieces, std::mt19937& random) {
    std::string written;
    for (int n = static_cast<int>(random() % 14); n >= 0; --n) {
      const std::string_view piece = pieces[random() % pieces.size()];
      Result<ConstraintState> next = constraint_->AdvanceText(state_, piece);
      if (!next) continue;
      state_ = *std::move(next);
      written += piece;
    }
    text_ += written;
    return written;
  }

  void Begin() {
    state_ = constraint_->Begin();
    text_.clear();
    Write(kCallStart);
  }

  // Ends the call, and expects these arguments from the parser, in one piece and byte by byte.
  void ExpectArguments(const ValueJson& arguments) {
    Write(kCallEnd);
    EXPECT_TRUE(constraint_->CanEnd(state_));
    for (const bool streams : {false, true}) {
      testing::AnswerStream stream({.tools = tools_, .stream_arguments = streams});
      if (streams) {
        for (const char& byte : text_) stream.Feed({&byte, 1});
      } else {
        stream.Feed(text_);
      }
      EXPECT_TRUE(stream.parser().calls_complete()) << text_;
      const Answer answer = stream.Finish(AnswerEnd::kStop);
      EXPECT_EQ(answer.content, "") << text_;
      ASSERT_EQ(answer.tool_calls.size(), 1U) << text_;
      EXPECT_EQ(ValueJson::parse(answer.tool_calls[0].arguments, nullptr, false), arguments)
          << text_;
      EXPECT_EQ(answer.stats.dropped_bytes + answer.stats.malformed_arguments, 0U) << text_;
    }
  }

  static constexpr std::string_view kFunction =
      R"({"name": "f", "parameters": {"properties": {"v": {"type": ["string", "array"]}},
          "additionalProperties": {"type": "string"}}})";

  std::shared_ptr<const Constraint> constraint_;
  ToolSchemas tools_;
  ConstraintState state_;
  std::string text_;
};

TEST_F(CallValues, RawTextComesBack) {
  std::mt19937 random(11);
  for (int n = 0; n < 1500; ++n) {
    Begin();
    Write("v\" string=\"true\">");
    const std::string value = WritePieces(kPieces, random);
    Write(kValueEnd);
    ExpectArguments({{"v", value}});
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST_F(CallValues, JsonComesBack) {
  std::mt19937 random(12);
  int n_strings = 0;
  for (int n = 0; n < 1500; ++n) {
    Begin();
    Write("v\" string=\"false\">");
    std::string value = "[\"";
    Write(value);
    value += WritePieces(kPieces, random);
    for (const std::string_view end : {"\"]", "]"}) {
      Result<ConstraintState> next = constraint_->AdvanceText(state_, end);
      if (!next || !ValueJson::accept(value + std::string(end))) continue;
      state_ = *std::move(next);
      text_ += end;
      value += end;
      Write(kValueEnd);
      ExpectArguments({{"v", ValueJson::parse(value)}});
      ++n_strings;
      break;
    }
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
  EXPECT_GT(n_strings, 500);
}

TEST_F(CallValues, NamesComeBack) {
  std::mt19937 random(13);
  for (int n = 0; n < 1000; ++n) {
    Begin();
    const std::string name = WritePieces(kNamePieces, random);
    if (name.empty()) continue;
    Write("\" string=\"true\">");
    const std::string value = WritePieces(kPieces, random);
    Write(kValueEnd);
    ExpectArguments({{name, value}});
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

}  // namespace
}  // namespace fathom::api
