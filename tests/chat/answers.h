// Feeding answers to the parser in pieces.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "chat/answer.h"
#include "chat/parser.h"

namespace fathom::testing {

inline RandomBits SeededBits(std::uint64_t seed) {
  return [generator = std::make_shared<std::mt19937_64>(seed)] { return (*generator)(); };
}

// One stream of an answer, which checks that the events come in an order that makes sense.
class AnswerStream {
 public:
  explicit AnswerStream(AnswerParserOptions options, std::uint64_t seed = 1)
      : parser_(WithBits(std::move(options), seed)) {}

  void Feed(std::string_view bytes) { Take(parser_.Feed(bytes)); }

  Answer Finish(AnswerEnd end) {
    Take(parser_.Finish(end));
    EXPECT_TRUE(is_finished_);
    EXPECT_FALSE(is_call_open_);
    answer_.stats = parser_.stats();
    return answer_;
  }

  const Answer& answer() const { return answer_; }
  const AnswerParser& parser() const { return parser_; }

 private:
  static AnswerParserOptions WithBits(AnswerParserOptions options, std::uint64_t seed) {
    if (!options.random_bits) options.random_bits = SeededBits(seed);
    return options;
  }

  void Take(const std::vector<AnswerEvent>& events) {
    using Kind = AnswerEvent::Kind;
    for (const AnswerEvent& event : events) {
      EXPECT_FALSE(is_finished_) << "an event after the last";
      if (event.kind == Kind::kCallBegin) {
        EXPECT_FALSE(is_call_open_);
        EXPECT_EQ(event.call, answer_.tool_calls.size());
        EXPECT_FALSE(event.name.empty());
        is_call_open_ = true;
      } else if (event.kind == Kind::kArgumentsDelta || event.kind == Kind::kCallEnd) {
        EXPECT_TRUE(is_call_open_);
        EXPECT_EQ(event.call + 1, answer_.tool_calls.size());
        is_call_open_ = event.kind == Kind::kArgumentsDelta;
      } else if (event.kind == Kind::kFinish) {
        is_finished_ = true;
      }
      const bool is_delta = event.kind == Kind::kReasoningDelta ||
                            event.kind == Kind::kContentDelta ||
                            event.kind == Kind::kArgumentsDelta;
      EXPECT_EQ(is_delta, !event.text.empty());
      AddToAnswer(event, &answer_);
    }
  }

  AnswerParser parser_;
  Answer answer_;
  bool is_call_open_ = false;
  bool is_finished_ = false;
};

// The answer for `text` cut at the given places (ascending).
inline Answer ReadInPieces(std::string_view text, const std::vector<std::size_t>& cuts,
                           const AnswerParserOptions& options, AnswerEnd end = AnswerEnd::kStop) {
  AnswerStream stream(options);
  std::size_t begin = 0;
  for (const std::size_t cut : cuts) {
    stream.Feed(text.substr(begin, cut - begin));
    begin = cut;
  }
  stream.Feed(text.substr(begin));
  return stream.Finish(end);
}

// All of an answer in one string, for comparing two.
inline std::string Show(const Answer& answer) {
  std::string text = AnswerToJson(answer);
  for (const std::size_t count :
       {answer.stats.malformed_arguments, answer.stats.duplicate_parameters,
        answer.stats.failed_blocks, answer.stats.dropped_bytes}) {
    text.append(" ").append(std::to_string(count));
  }
  return text;
}

// A call of f, and calls in a block.
inline constexpr std::string_view kCall =
    "<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" "
    "string=\"true\">x</｜DSML｜parameter>\n</｜DSML｜invoke>";

inline std::string Block(std::string_view calls) {
  return fmt::format("<｜DSML｜tool_calls>\n{}\n</｜DSML｜tool_calls>", calls);
}

inline const AnswerParserOptions kInReasoning = {.starts_in_reasoning = true};

// Reads a text whole, byte by byte and in two pieces, which must agree.
inline Answer Read(std::string_view text, const AnswerParserOptions& options = {},
                   AnswerEnd end = AnswerEnd::kStop) {
  const Answer whole = ReadInPieces(text, {}, options, end);
  std::vector<std::size_t> cuts(text.size());
  std::iota(cuts.begin(), cuts.end(), std::size_t{0});
  EXPECT_EQ(Show(ReadInPieces(text, cuts, options, end)), Show(whole)) << text;
  for (const std::size_t cut : cuts) {
    EXPECT_EQ(Show(ReadInPieces(text, {cut}, options, end)), Show(whole)) << text;
  }
  return whole;
}

}  // namespace fathom::testing
