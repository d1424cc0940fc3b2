#include "fuzz/answer_parser_check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "chat/answer.h"
#include "chat/literals.h"
#include "json/json_value.h"

namespace fathom::fuzz {
namespace {

struct Setup {
  AnswerParserOptions options;
  AnswerEnd end = AnswerEnd::kStop;
  std::uint64_t cut_seed = 0;
};

// Deterministic on purpose: ids must be the same in every run over one input.
std::uint64_t Mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

Setup ReadSetup(unsigned char flags, unsigned char cut) {
  Setup setup;
  setup.options.starts_in_reasoning = (flags & 1) != 0;
  if ((flags & 2) != 0) setup.end = AnswerEnd::kLength;
  setup.options.begins_with_call = (flags & 128) != 0;
  if ((flags & 32) != 0) setup.options.tools.emplace();
  if ((flags & 64) != 0) {
    const std::vector<ToolSpec> tools = {
        {.name = "f",
         .function_json = R"({"name":"f","parameters":{"properties":{"a":{"type":"string"},
                              "i":{"type":"integer"}}}})"},
        {.name = "g", .function_json = R"({"name":"g"})"}};
    setup.options.tools = *ToolSchemas::Make(tools);
  }
  setup.cut_seed = cut;
  return setup;
}

// Cuts into pieces of 1 to 2^(seed % 8) bytes; seed 0: one piece.
Answer Run(std::string_view text, const Setup& setup, bool cuts, bool streams) {
  AnswerParserOptions options = setup.options;
  options.stream_arguments = streams;
  options.random_bits = [state = std::uint64_t{1}]() mutable { return Mix(++state); };
  AnswerParser parser(std::move(options));
  Answer answer;
  std::uint64_t state = setup.cut_seed;
  while (!text.empty()) {
    const std::size_t longest = std::size_t{1} << (setup.cut_seed % 8);
    const std::size_t piece =
        cuts ? std::min(text.size(), std::size_t{1} + Mix(++state) % longest) : text.size();
    for (const AnswerEvent& event : parser.Feed(text.substr(0, piece))) {
      AddToAnswer(event, &answer);
    }
    text.remove_prefix(piece);
  }
  for (const AnswerEvent& event : parser.Finish(setup.end)) AddToAnswer(event, &answer);
  answer.stats = parser.stats();
  return answer;
}

std::string Show(const Answer& answer) {
  std::string text = AnswerToJson(answer);
  for (const std::size_t count :
       {answer.stats.malformed_arguments, answer.stats.duplicate_parameters,
        answer.stats.failed_blocks, answer.stats.dropped_bytes}) {
    text.append(" ").append(std::to_string(count));
  }
  return text;
}

bool Holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Whether removing a tag may bring the halves of a think tag together: <thi<think>nk>.
bool HasHalves(std::string_view text) {
  for (const std::string_view tag : {kThinkOpenToken, kThinkCloseToken}) {
    for (std::size_t length = 1; length < tag.size(); ++length) {
      if (Holds(text, std::string(tag.substr(0, length)).append("<"))) return true;
    }
  }
  return false;
}

std::string CheckAnswer(std::string_view text, const Answer& answer) {
  if (!IsValidUtf8(answer.content) || !IsValidUtf8(answer.reasoning_content)) return "not UTF-8";
  // A JSON body is read as a whole and may hold any text in its strings.
  const bool has_body = Holds(text, "{");
  if (answer.cut_call && ParseJson(answer.tool_calls.back().arguments)) {
    return "the arguments of a cut call are whole";
  }
  for (std::size_t i = 0; i < answer.tool_calls.size(); ++i) {
    const Result<JsonValue> arguments =
        ParseJson(FinishedArguments(answer, i), {.python_constants = false});
    if (!arguments || !arguments->IsObject()) return "arguments are not a JSON object";
    for (const JsonValue& value : arguments->items()) {
      if (!has_body && Holds(value.text(), "</｜DSML｜parameter>"))
        return "a closer in the arguments";
    }
  }
  if (!HasHalves(text) &&
      (Holds(answer.content, kThinkOpenToken) || Holds(answer.content, kThinkCloseToken))) {
    return "a think tag in the content";
  }
  return "";
}

}  // namespace

std::string CheckAnswerParser(std::string_view input) {
  if (input.size() < 2) return "";
  const Setup setup =
      ReadSetup(static_cast<unsigned char>(input[0]), static_cast<unsigned char>(input[1]));
  const std::string_view text = input.substr(2);
  for (const bool streams : {false, true}) {
    const Answer whole = Run(text, setup, false, streams);
    const Answer pieces = Run(text, setup, true, streams);
    if (Show(whole) != Show(pieces)) {
      return std::string("cut: ").append(Show(pieces)).append(", whole: ").append(Show(whole));
    }
    std::string wrong = CheckAnswer(text, whole);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace fathom::fuzz
