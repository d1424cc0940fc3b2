#include "server/common_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/line_reader.h"

namespace fathom {
namespace {

struct Name {
  std::string_view ours;    // without _bucket, _sum and _count of a histogram
  std::string_view labels;  // that the line must have; they go where there is one place for them
  std::string_view theirs;
};

constexpr Name kNames[] = {
    {"fathom_running", "", "vllm:num_requests_running"},
    {"fathom_waiting", "", "vllm:num_requests_waiting"},
    {"fathom_preemptions_total", "", "vllm:num_preemptions_total"},
    {"fathom_tokens_total", "kind=\"prompt\"", "vllm:prompt_tokens_total"},
    {"fathom_tokens_total", "kind=\"cached\"", "vllm:prefix_cache_hits_total"},
    {"fathom_tokens_total", "kind=\"generated\"", "vllm:generation_tokens_total"},
    {"fathom_time_to_first_token_seconds", "", "vllm:time_to_first_token_seconds"},
    {"fathom_inter_token_seconds", "", "vllm:inter_token_latency_seconds"},
    {"fathom_request_success_total", "", "vllm:request_success_total"},
    {"fathom_request_latency_seconds", "", "vllm:e2e_request_latency_seconds"},
    {"fathom_request_queue_seconds", "", "vllm:request_queue_time_seconds"},
    {"fathom_request_prompt_tokens", "", "vllm:request_prompt_tokens"},
    {"fathom_request_generated_tokens", "", "vllm:request_generation_tokens"},
};
constexpr std::string_view kSuffixes[] = {"", "_bucket", "_sum", "_count"};

// name{labels} value
struct Line {
  std::string_view name;
  std::string_view labels;
  std::string value;  // with the blank before it
};

std::optional<Line> Split(std::string_view line) {
  if (line.empty() || line.front() == '#') return std::nullopt;
  const std::size_t brace = line.find('{');
  const std::size_t end = brace == std::string_view::npos ? brace : line.rfind('}');
  const std::size_t space = line.find(' ', end == std::string_view::npos ? 0 : end);
  if (space == std::string_view::npos) return std::nullopt;
  if (end == std::string_view::npos) {
    return Line{
        .name = line.substr(0, space), .labels = "", .value = std::string(line.substr(space))};
  }
  return Line{.name = line.substr(0, brace),
              .labels = line.substr(brace + 1, end - brace - 1),
              .value = std::string(line.substr(space))};
}

// Label values have \, " and newline escaped.
std::string Escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

class Renamer {
 public:
  explicit Renamer(std::string_view model_name)
      : model_label_("model_name=\"" + Escape(model_name) + "\"") {}

  void Add(const Line& line) {
    for (const Name& name : kNames) {
      for (const std::string_view suffix : kSuffixes) {
        if (line.name.size() != name.ours.size() + suffix.size() ||
            !line.name.starts_with(name.ours) || !line.name.ends_with(suffix) ||
            (!name.labels.empty() && line.labels != name.labels)) {
          continue;
        }
        AddAs(name, suffix, line);
      }
    }
  }

  // A metric that is no line of ours.
  void AddValue(std::string_view name, double value, std::string_view labels = "") {
    const bool is_counter = name.ends_with("_total");
    AddLine({.ours = "", .labels = "", .theirs = name}, "",
            {.name = "", .labels = labels, .value = fmt::format(" {}", value)},
            is_counter ? "counter" : "gauge");
  }

  std::string Take() { return std::move(text_); }

 private:
  void AddAs(const Name& name, std::string_view suffix, const Line& line) {
    const bool is_counter = name.theirs.ends_with("_total");
    AddLine(name, suffix, line, !suffix.empty() ? "histogram" : is_counter ? "counter" : "gauge");
  }

  void AddLine(const Name& name, std::string_view suffix, const Line& line, std::string_view type) {
    if (name.theirs != last_) {
      text_ += fmt::format("# TYPE {} {}\n", name.theirs, type);
      last_ = name.theirs;
    }
    const bool keeps_labels = name.labels.empty() && !line.labels.empty();
    text_ += fmt::format("{}{}{{{}{}{}}}{}\n", name.theirs, suffix, model_label_,
                         keeps_labels ? "," : "", keeps_labels ? line.labels : "", line.value);
  }

  const std::string model_label_;
  std::string_view last_;
  std::string text_;
};

// What takes more than a name.
void AddDerived(const MetricsSnapshot& now, Renamer& renamer) {
  const auto as_double = [](std::int64_t value) { return static_cast<double>(value); };
  const std::int64_t bytes = std::max<std::int64_t>(now.kv_bytes_total, 1);
  renamer.AddValue("vllm:kv_cache_usage_perc", as_double(now.kv_bytes_used) / as_double(bytes));
  renamer.AddValue("vllm:prefix_cache_queries_total",
                   as_double(now.prompt_tokens + now.cached_tokens));
  std::int64_t drafted = 0;
  std::int64_t accepted = 0;
  for (std::size_t i = 0; i < now.drafted.size(); ++i) {
    drafted += now.drafted[i];
    accepted += now.accepted[i];
  }
  renamer.AddValue("vllm:spec_decode_num_drafts_total", as_double(now.drafted[0]));
  renamer.AddValue("vllm:spec_decode_num_draft_tokens_total", as_double(drafted));
  renamer.AddValue("vllm:spec_decode_num_accepted_tokens_total", as_double(accepted));
  for (std::size_t i = 0; i < now.accepted.size(); ++i) {
    renamer.AddValue("vllm:spec_decode_num_accepted_tokens_per_pos_total",
                     as_double(now.accepted[i]), fmt::format("position=\"{}\"", i));
  }
}

}  // namespace

std::string WithCommonNames(std::string_view text, const MetricsSnapshot& now,
                            std::string_view model_name) {
  Renamer renamer(model_name);
  LineReader lines(text);
  for (std::string_view next; lines.Next(&next);) {
    const std::optional<Line> line = Split(next);
    if (line) renamer.Add(*line);
  }
  AddDerived(now, renamer);
  return std::string(text) + renamer.Take();
}

}  // namespace fathom
