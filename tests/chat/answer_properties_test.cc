// Properties of the parsers over random answers, and their behaviour on hostile ones.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <time.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "chat/encoder.h"
#include "chat/literals.h"
#include "chat/strict_parser.h"
#include "fuzz/answer_parser_check.h"
#include "tests/chat/answers.h"
#include "tests/chat/golden.h"

namespace fathom::chat {
namespace {

using testing::Json;
using testing::ReadInPieces;

// Strings put together from what makes markup, so that near misses are frequent.
rc::Gen<std::string> MarkupLikeText() {
  const auto part = rc::gen::elementOf(std::vector<std::string>{
      "<",     "</",       ">",  "｜", "|",  "DSML", "invoke", "parameter", "tool_calls",
      "think", " name=\"", "\"", "\\", "\n", "\t",   "\x01",   " ",         "a",
      "é",     "日",       "😀",  "5",  "{",  "}",    "null"});
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(part),
                      [](const std::vector<std::string>& parts) {
                        std::string text;
                        for (const std::string& piece : parts) text += piece;
                        return text;
                      });
}

bool HoldsTag(std::string_view text) {
  for (std::size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    if (ScanTag(text.substr(at)).outcome == TagScan::Outcome::kTag) return true;
  }
  return false;
}

// Text that the wire format can carry: it has no escapes, so no markup and, at the end, no half of
// one.
rc::Gen<std::string> CarriableText() {
  return rc::gen::suchThat(MarkupLikeText(), [](const std::string& text) {
    const std::size_t last = text.rfind('<');
    return !HoldsTag(text) && text.find(kDsml) == std::string::npos &&
           (last == std::string::npos ||
            ScanTag(text.substr(last)).outcome == TagScan::Outcome::kNoTag);
  });
}

rc::Gen<Json> RandomJson(int depth) {
  const auto scalar = rc::gen::oneOf(
      rc::gen::construct<Json>(rc::gen::arbitrary<std::int64_t>()),
      rc::gen::construct<Json>(rc::gen::arbitrary<bool>()), rc::gen::just(Json(nullptr)),
      rc::gen::construct<Json>(rc::gen::map(rc::gen::inRange(-1000, 1000),
                                            [](int n) { return static_cast<double>(n) / 16; })),
      rc::gen::construct<Json>(CarriableText()));
  if (depth == 0) return scalar;
  const auto inner = RandomJson(depth - 1);
  const auto list = rc::gen::map(rc::gen::container<std::vector<Json>>(inner),
                                 [](const std::vector<Json>& items) { return Json(items); });
  const auto object = rc::gen::map(rc::gen::container<std::vector<std::pair<std::string, Json>>>(
                                       rc::gen::pair(CarriableText(), inner)),
                                   [](const std::vector<std::pair<std::string, Json>>& members) {
                                     Json json = Json::object();
                                     for (const auto& [key, value] : members) json[key] = value;
                                     return json;
                                   });
  return rc::gen::oneOf(scalar, list, object);
}

rc::Gen<std::string> ParameterName() {
  return rc::gen::nonEmpty(
      rc::gen::container<std::string>(rc::gen::elementOf(std::string("abcdef_ .$-<\"'"))));
}

rc::Gen<std::vector<ToolCall>> RandomCalls() {
  return rc::gen::exec([] {
    std::vector<ToolCall> calls(static_cast<std::size_t>(*rc::gen::inRange(1, 4)));
    for (ToolCall& call : calls) {
      call.name = *rc::gen::elementOf(std::vector<std::string>{"f", "get_weather", "a.b-c"});
      Json arguments = Json::object();
      const int members = *rc::gen::inRange(0, 4);
      for (int i = 0; i < members; ++i) arguments[*ParameterName()] = *RandomJson(1);
      call.arguments = arguments.dump();
    }
    return calls;
  });
}

std::vector<std::size_t> RandomCuts(std::size_t size) {
  std::vector<std::size_t> cuts;
  const int longest = *rc::gen::inRange(1, 40);
  for (std::size_t at = 0; at < size;
       at += static_cast<std::size_t>(*rc::gen::inRange(1, longest + 1))) {
    cuts.push_back(at);
  }
  return cuts;
}

void ExpectCalls(const std::vector<ToolCall>& found, const std::vector<ToolCall>& wanted) {
  RC_ASSERT(found.size() == wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    RC_ASSERT(found[i].name == wanted[i].name);
    RC_ASSERT(Json::parse(found[i].arguments, nullptr, false) == Json::parse(wanted[i].arguments));
  }
}

// The calls as the model writes them, after the two newlines before them.
std::string TurnWithCalls(const std::vector<ToolCall>& calls) {
  const Message turn = {.role = Role::kAssistant, .tool_calls = calls, .leave_open = true};
  const Result<EncodedPrompt> prompt =
      EncodeChat({.messages = {turn}},
                 {.thinking = ThinkingMode::kChat, .add_bos = false, .trust_client_text = true},
                 PreviewProfile());
  RC_ASSERT(prompt.has_value());
  return prompt->Text();
}

TEST(AnswerProperties, RandomArgumentsSurviveTheWireFormat) {
  EXPECT_TRUE(rc::check([] {
    const std::vector<ToolCall> calls = *RandomCalls();
    const std::string text = TurnWithCalls(calls);
    const bool streams = *rc::gen::arbitrary<bool>();
    const Answer answer =
        ReadInPieces(text, RandomCuts(text.size()), {.stream_arguments = streams});
    RC_ASSERT(answer.content.empty());
    RC_ASSERT(answer.stats.malformed_arguments == 0U);
    ExpectCalls(answer.tool_calls, calls);
  }));
}

TEST(AnswerProperties, StrictAnswersAreWrittenBackByteForByte) {
  EXPECT_TRUE(rc::check([] {
    ChatRequest request;
    request.messages = {{.role = Role::kUser, .content = "u"},
                        {.role = Role::kAssistant,
                         .content = *CarriableText(),
                         .reasoning_content = *CarriableText(),
                         .tool_calls = *RandomCalls()}};
    const auto render = [](const ChatRequest& chat) {
      const std::string prompt = EncodeChat(chat, {}, PreviewProfile())->Text();
      return prompt.substr(prompt.find(kThinkOpenToken) + kThinkOpenToken.size());
    };
    const std::string text = render(request);
    const Result<Answer> strict = ParseStrictly(text, ThinkingMode::kThinking);
    RC_ASSERT(strict.has_value());
    RC_ASSERT(strict->content == request.messages[1].content);
    RC_ASSERT(strict->reasoning_content == request.messages[1].reasoning_content);
    ExpectCalls(strict->tool_calls, request.messages[1].tool_calls);
    request.messages[1].tool_calls = strict->tool_calls;
    RC_ASSERT(render(request) == text);
  }));
}

TEST(AnswerProperties, AnyTextIsReadTheSameHoweverItIsCut) {
  EXPECT_TRUE(rc::check([] {
    const std::string text = *rc::gen::resize(300, MarkupLikeText());
    for (int options = 0; options < 128; ++options) {
      if ((options & 28) != 0) continue;  // bits that mean nothing
      const std::string setup = {static_cast<char>(options), *rc::gen::arbitrary<char>()};
      const std::string wrong = fuzz::CheckAnswerParser(setup + text);
      RC_ASSERT(wrong == "");
    }
  }));
}

// Nothing that was recognised as markup shows in what the user sees, wherever the text is cut.
TEST(AnswerProperties, NoMarkerLeaks) {
  const auto cases = testing::EncodingJson("extra/robust_parse_cases.json");
  if (!cases) GTEST_SKIP() << testing::kNoSharedData;
  for (const Json& entry : *cases) {
    const std::string text = entry["text"].get<std::string>();
    if (entry["name"] == "R29_tools_not_requested") continue;  // there it is text
    AnswerParserOptions options;
    options.starts_in_reasoning = entry["thinking_mode"] == "thinking";
    for (std::size_t length = 0; length <= text.size(); ++length) {
      const Answer answer =
          ReadInPieces(text.substr(0, length), {length / 2}, options, AnswerEnd::kLength);
      EXPECT_EQ(answer.content.find(kDsml), std::string::npos) << entry["name"] << length;
      for (std::size_t i = 0; i < answer.tool_calls.size(); ++i) {
        const std::string& arguments = answer.tool_calls[i].arguments;
        EXPECT_EQ(arguments.find(kDsml), std::string::npos) << entry["name"] << length;
        EXPECT_TRUE(Json::accept(FinishedArguments(answer, i))) << arguments;
        const bool is_cut = answer.cut_call && i + 1 == answer.tool_calls.size();
        EXPECT_EQ(Json::accept(arguments), !is_cut) << arguments;
      }
    }
  }
}

// The processor time of this thread that reading `head` and `bytes` of repeated `unit` takes.
double SecondsToRead(const std::string& head, const std::string& unit, std::size_t bytes,
                     bool in_pieces) {
  std::string text = head;
  while (text.size() < bytes) text += unit;
  const std::size_t piece = in_pieces ? 16 : text.size();
  const auto seconds = [] {
    timespec time = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double begin = seconds();
  testing::AnswerStream stream({});
  for (std::size_t at = 0; at < text.size(); at += piece) {
    stream.Feed(std::string_view(text).substr(at, piece));
  }
  stream.Finish(AnswerEnd::kStop);
  return seconds() - begin;
}

// Reads texts that make a parser quadratic if it rescans what it has read: eight times the text may
// take up to 24 times as long, while 64 times would be quadratic. Times below a tenth of a second
// are too short to compare.
TEST(AnswerProperties, HostileTextTakesLinearTime) {
  constexpr std::size_t kBytes = 64 * 1024;
  const std::string begin = "<｜DSML｜tool_calls>";
  const std::string call = "<｜DSML｜invoke name=\"f\">";
  const std::string parameter = "<｜DSML｜parameter name=\"a\" string=\"true\">";
  const std::string block =
      "\n\n" + begin + "\n" + call + "\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"",
       {"<", "\n", "</", "<｜", begin, begin + "\n", call, call + "{", call + "\n",
        "<｜DSML｜invoke name=\"", call + "{</｜DSML｜invoke>", call + parameter, "<think>",
        "<｜DSML｜invoke name=\"\"\"\"", block, block + "x", begin + "junk"}},
      {begin, {"x", "\n", "<", "<｜DSML｜in", call + "x</｜DSML｜invoke>y"}},
      {"<｜DSML｜invoke name=\"f\"", {" a=\"b\"", " ", " a=\"", "\"", " string"}},
      {begin + call + "<｜DSML｜parameter name=\"a\"", {" b=\"c\"", " ", " b=\"", "=\""}},
      {begin + call + parameter, {"</｜DSML｜", "\n", "</", parameter}},
      {block, {"\n", "<", "\n<", block}}};
  for (const auto& [head, units] : cases) {
    for (const std::string& unit : units) {
      for (const bool in_pieces : {false, true}) {
        const double some = SecondsToRead(head, unit, kBytes, in_pieces);
        const double more = SecondsToRead(head, unit, 8 * kBytes, in_pieces);
        EXPECT_LT(more, std::max(0.1, 24 * some))
            << head << " " << unit << (in_pieces ? " in pieces" : "");
      }
    }
  }
}

TEST(AnswerProperties, FuzzSeeds) {
  int seeds = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(testing::ProjectPath("fuzz/seeds/answer_parser"))) {
    EXPECT_EQ(fuzz::CheckAnswerParser(testing::ReadFile(entry.path())), "") << entry.path();
    ++seeds;
  }
  EXPECT_GE(seeds, 12);
}

}  // namespace
}  // namespace fathom::chat
