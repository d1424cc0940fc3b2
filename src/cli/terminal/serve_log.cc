#include "cli/terminal/serve_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "json/json_value.h"

namespace fathom::cli {
namespace {

// Returns true for a complete code point that moves a terminal's cursor or begins another line: C0,
// DEL, C1.
bool IsControl(std::string_view code_point) {
  const auto first = static_cast<unsigned char>(code_point.front());
  if (code_point.size() == 1) return first < ' ' || first == 0x7f;
  return first == 0xc2 && static_cast<unsigned char>(code_point[1]) < 0xa0;
}

// Returns text from outside on one line: UTF-8 without control characters, all other bytes as \x1b.
std::string Plain(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const Utf8Sequence sequence = FirstUtf8Sequence(text);
    const std::string_view bytes = text.substr(0, sequence.n_bytes);
    if (sequence.kind == Utf8Sequence::Kind::kComplete && !IsControl(bytes)) {
      plain += bytes;
    } else {
      for (const char c : bytes) plain += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    text.remove_prefix(bytes.size());
  }
  return plain;
}

// Returns whether a client without a key was refused for that, or requested an unknown path.
bool IsStrangers(const ServedRequest& record) {
  if (record.has_key || record.generates) return false;
  return record.status == 401 || record.status == 403 ||
         (record.endpoint == "none" && record.status >= 400);
}

// Returns the error without text that a client may have written.
std::string WithoutQuotes(const ServedRequest& record) {
  if (record.status >= 500) return record.error;
  const std::string_view colon = record.error_field.empty() ? "" : ": ";
  return fmt::format("{}{}{}", record.error_field, colon, record.error_kind);
}

std::size_t CountRelaxed(const ServedRequest& record) {
  return static_cast<std::size_t>(std::ranges::count(record.relaxed, ',')) + 1;
}

std::string Describe(const ServedRequest& record, bool quotes_requests) {
  std::string text = fmt::format("{} {} {} {} {:.3f} s", record.id, Plain(record.method),
                                 Plain(record.path), record.status, record.seconds);
  if (record.generates) {
    text += fmt::format(", prompt {} ({} cached), generated {}, first token {:.3f} s, {}",
                        record.usage.prompt_tokens, record.usage.cached_tokens,
                        record.usage.completion_tokens, record.first_token_seconds,
                        record.finish.empty() ? "no answer" : record.finish);
  }
  if (record.turn_stops > 0) text += ", ended by a turn token";
  if (!record.relaxed.empty()) {
    text += quotes_requests ? ", not enforced: " + record.relaxed
                            : fmt::format(", {} keywords not enforced", CountRelaxed(record));
  }
  if (!record.error.empty()) {
    text += ": " + Plain(quotes_requests ? record.error : WithoutQuotes(record));
  }
  if (record.body) text += "\n  " + Plain(*record.body);
  if (record.answer) text += "\n  " + Plain(*record.answer);
  return text;
}

JsonValue Fields(const ServedRequest& record, bool quotes_requests) {
  JsonValue fields = {{"request_id", record.id}, {"peer", record.peer},
                      {"method", record.method}, {"path", record.path},
                      {"status", record.status}, {"seconds", record.seconds}};
  if (record.generates) {
    fields.Update({{"model", record.model},
                   {"stream", record.stream},
                   {"prompt_tokens", record.usage.prompt_tokens},
                   {"cached_tokens", record.usage.cached_tokens},
                   {"replayed_turns", record.n_replayed},
                   {"completion_tokens", record.usage.completion_tokens},
                   {"reasoning_tokens", record.usage.reasoning_tokens},
                   {"drafted_tokens", record.usage.drafted_tokens},
                   {"accepted_tokens", record.usage.accepted_tokens},
                   {"queue_seconds", record.times.queue_seconds},
                   {"first_token_seconds", record.first_token_seconds},
                   {"finish", record.finish}});
  }
  if (record.turn_stops > 0) fields["turn_stops"] = record.turn_stops;
  if (!record.relaxed.empty()) {
    fields["constraints_relaxed"] =
        quotes_requests ? JsonValue(record.relaxed) : JsonValue(CountRelaxed(record));
  }
  if (!record.error.empty()) {
    fields["error"] = quotes_requests ? record.error : WithoutQuotes(record);
  }
  if (record.body) fields["request"] = *record.body;
  if (record.answer) fields["response"] = *record.answer;
  return fields;
}

}  // namespace

void ServeLog::Add(const ServedRequest& record) {
  const auto now = std::chrono::steady_clock::now();
  ReportLeftOut(now);
  if (IsStrangers(record)) {
    const std::lock_guard lock(mutex_);
    if (!strangers_.Take(now)) return;
  }
  log_.Event(LogLevel::kInfo, Describe(record, quotes_requests_), Fields(record, quotes_requests_));
}

void ServeLog::ReportLeftOut(LineLimit::Time now) {
  std::int64_t n_left_out = 0;
  {
    const std::lock_guard lock(mutex_);
    n_left_out = strangers_.TakeLeftOut(now);
  }
  if (n_left_out == 0) return;
  log_.Event(LogLevel::kInfo,
             fmt::format("{} more requests without a key were refused", n_left_out),
             {{"left_out", n_left_out}});
}

}  // namespace fathom::cli
