#include "api/common/answer_collector.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace fathom::api {
namespace {

std::unique_ptr<AnswerParser> MakeParser(const AnswerOptions& options,
                                         const RandomBits& random_bits) {
  if (!options.is_chat) return nullptr;
  AnswerParserOptions parser = options.parser;
  parser.random_bits = random_bits;
  return std::make_unique<AnswerParser>(std::move(parser));
}

AnswerEnd ToAnswerEnd(FinishReason finish) {
  return finish == FinishReason::kStop || finish == FinishReason::kStopString ? AnswerEnd::kStop
                                                                              : AnswerEnd::kLength;
}

void AppendEvents(std::vector<AnswerEvent> more, std::vector<AnswerEvent>* events) {
  std::move(more.begin(), more.end(), std::back_inserter(*events));
}

bool Contains(const std::vector<Token>& tokens, Token token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

bool IsCallEnd(const AnswerEvent& event) { return event.kind == AnswerEvent::Kind::kCallEnd; }

// Returns whether `rest` (not empty) begins with the token's text; nullopt if more text must be
// known first. `is_over`: the text does not grow any more. If true, *taken is the number of bytes
// that the token covers.
std::optional<bool> FitsExactly(std::string_view rest, std::string_view piece, bool is_over,
                                std::size_t* taken) {
  const std::size_t n_bytes = std::min(piece.size(), rest.size());
  if (rest.substr(0, n_bytes) != piece.substr(0, n_bytes)) return false;
  // The text may end inside a token, for example before a stop string, but not before the token.
  if (n_bytes < piece.size() && !is_over) return std::nullopt;
  *taken = n_bytes;
  return true;
}

// Returns whether the text continues with the token's text. The parser may have dropped newlines at
// the beginning, and a token may contain them and more.
std::optional<bool> Fits(std::string_view rest, std::string_view piece, bool is_over,
                         std::size_t* taken) {
  if (rest.empty()) return is_over ? std::optional(false) : std::nullopt;
  const std::optional<bool> fits = FitsExactly(rest, piece, is_over, taken);
  const std::size_t begin = piece.find_first_not_of('\n');
  if (fits != false || begin == 0 || begin == std::string_view::npos) return fits;
  return FitsExactly(rest, piece.substr(begin), is_over, taken);
}

}  // namespace

AnswerCollector::AnswerCollector(const AnswerOptions& options, const RandomBits& random_bits)
    : options_(options), parser_(MakeParser(options, random_bits)) {}

std::vector<AnswerEvent> AnswerCollector::Add(const StreamEvent& event) {
  if (wants_no_more_) return {};
  Check(!finished(), "an event after the end of its choice");
  if (event.token != StreamEvent::kNoToken) {
    collected_.tokens.push_back(event.token);
    if (event.logprobs) collected_.logprobs.push_back(*event.logprobs);
  }
  if (event.finish) SetFinish(event);
  std::vector<AnswerEvent> events = parser_ != nullptr ? ParseText(event) : TakeText(event);
  for (const AnswerEvent& piece : events) {
    AddToAnswer(piece, &collected_.answer);
  }
  return events;
}

std::vector<AnswerEvent> AnswerCollector::ParseText(const StreamEvent& event) {
  std::vector<AnswerEvent> events = parser_->Feed(event.text);
  bool has_all_calls = parser_->calls_complete();
  if (!options_.parallel_tool_calls) {  // the first call is complete, and this is the beginning of
                                        // a second
    has_all_calls = has_all_calls || std::any_of(events.begin(), events.end(), IsCallEnd);
  }
  if (has_all_calls && !collected_.error) {
    wants_no_more_ = !event.finish;
    collected_.finish = FinishReason::kStop;
  }
  if (finished()) AppendEvents(parser_->Finish(ToAnswerEnd(*collected_.finish)), &events);
  if (!options_.parallel_tool_calls) {
    std::erase_if(events, [](const AnswerEvent& e) { return e.is_of_call() && e.call > 0; });
  }
  collected_.answer.stats = parser_->stats();
  return events;
}

std::vector<AnswerEvent> AnswerCollector::TakeText(const StreamEvent& event) {
  AnswerEvents events;
  std::string text;
  utf8_.Push(event.text, text);
  if (event.finish) utf8_.Finish(text);
  events.AddDelta(AnswerEvent::Kind::kContentDelta, text);
  if (event.finish) {
    const bool stopped = ToAnswerEnd(*event.finish) == AnswerEnd::kStop;
    events.Add({.kind = AnswerEvent::Kind::kFinish,
                .finish = stopped ? ChatFinishReason::kStop : ChatFinishReason::kLength});
  }
  return events.Take();
}

void AnswerCollector::SetFinish(const StreamEvent& event) {
  collected_.finish = event.finish;
  if (event.finish == FinishReason::kStop && Contains(options_.stop_tokens, event.token)) {
    collected_.stop_token = event.token;
  } else if (event.finish == FinishReason::kStop) {
    collected_.ends_at_turn = Contains(options_.turn_tokens, event.token);
  } else if (event.finish == FinishReason::kStopString && event.stop_string &&
             *event.stop_string < options_.stop_strings.size()) {
    collected_.stop_string = options_.stop_strings[*event.stop_string];
  } else if (event.finish == FinishReason::kError) {
    collected_.error =
        event.error.value_or(Error{ErrorCode::kIo, "the engine failed and does not say why"});
  } else if (event.finish == FinishReason::kCancelled) {
    collected_.error = Error{ErrorCode::kUnavailable, "the request was cancelled"};
  }
}

void TokenSections::Advance(const CollectedAnswer& answer) {
  while (sections_.size() < answer.tokens.size()) {
    ReadPiece(answer);
    const std::optional<TokenSection> section = Decide(answer);
    if (!section) return;
    sections_.push_back(*section);
    piece_.reset();
    if (section == TokenSection::kReasoning) {
      n_reasoning_ = static_cast<std::int64_t>(sections_.size());
    }
  }
}

void TokenSections::ReadPiece(const CollectedAnswer& answer) {
  if (piece_) return;
  piece_.emplace();
  utf8_.Push(tokenizer_.TokenBytes(answer.tokens[sections_.size()]), *piece_);
}

std::optional<TokenSection> TokenSections::Decide(const CollectedAnswer& answer) {
  const Answer& text = answer.answer;
  // No content follows calls, and no reasoning follows either.
  const bool is_over = answer.finish || !text.tool_calls.empty();
  const std::string_view reasoning =
      std::string_view(text.reasoning_content).substr(reasoning_bytes_);
  const bool reasoning_is_over = is_over || !text.content.empty();
  std::size_t taken = 0;
  if (!reasoning.empty() || !reasoning_is_over) {
    const std::optional<bool> fits = Fits(reasoning, *piece_, reasoning_is_over, &taken);
    if (!fits) return std::nullopt;
    reasoning_bytes_ += taken;
    return *fits ? TokenSection::kReasoning : TokenSection::kMarkup;
  }
  const std::string_view content = std::string_view(text.content).substr(content_bytes_);
  const std::optional<bool> fits = Fits(content, *piece_, is_over, &taken);
  if (!fits) return std::nullopt;
  content_bytes_ += taken;
  return *fits ? TokenSection::kContent : TokenSection::kMarkup;
}

}  // namespace fathom::api
