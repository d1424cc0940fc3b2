#include "cli/terminal/serve_log.h"

#include <fmt/format.h>

#include <string>

#include "json/json_value.h"

namespace fathom::cli {
namespace {

// Text from outside, on one line and without what moves a terminal's cursor.
std::string Plain(const std::string& text) {
  std::string plain;
  for (const char c : text) {
    const bool is_control = static_cast<unsigned char>(c) < ' ' || c == '\x7f';
    plain +=
        is_control ? fmt::format("\\x{:02x}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return plain;
}

std::string Describe(const ServedRequest& record) {
  std::string text = fmt::format("{} {} {} {} {:.3f} s", record.id, Plain(record.method),
                                 Plain(record.path), record.status, record.seconds);
  if (record.generates) {
    text += fmt::format(", prompt {} ({} cached), generated {}, first token {:.3f} s, {}",
                        record.usage.prompt_tokens, record.usage.cached_tokens,
                        record.usage.completion_tokens, record.first_token_seconds,
                        record.finish.empty() ? "no answer" : record.finish);
  }
  if (record.turn_stops > 0) text += ", ended by a turn token";
  if (!record.error.empty()) text += ": " + Plain(record.error);
  if (record.body) text += "\n  " + Plain(*record.body);
  if (record.answer) text += "\n  " + Plain(*record.answer);
  return text;
}

JsonValue Fields(const ServedRequest& record) {
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
                   {"queue_seconds", record.queue_seconds},
                   {"first_token_seconds", record.first_token_seconds},
                   {"finish", record.finish}});
  }
  if (record.turn_stops > 0) fields["turn_stops"] = record.turn_stops;
  if (!record.error.empty()) fields["error"] = record.error;
  if (record.body) fields["request"] = *record.body;
  if (record.answer) fields["response"] = *record.answer;
  return fields;
}

}  // namespace

void LogRequest(const ServedRequest& record, Log& log) {
  log.Event(LogLevel::kInfo, Describe(record), Fields(record));
}

}  // namespace fathom::cli
