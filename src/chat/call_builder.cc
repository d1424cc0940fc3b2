#include "chat/call_builder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/parse_text.h"
#include "chat/dsml_scanner.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom::chat {
namespace {

// Returns the JSON value that is the whole of `text`, without blanks around it; nullopt if it is
// not JSON. Python's constants are not accepted, because clients read the value with strict
// parsers.
std::optional<std::string_view> AsJson(std::string_view text, bool must_be_object) {
  const Result<JsonValue> value = ParseJson(text, {.python_constants = false});
  if (!value || (must_be_object && !value->IsObject())) return std::nullopt;
  return value->SourceIn(text);
}

bool IsWrapperName(std::string_view name) {
  return name == "arguments" || name == "input" || name == "parameters";
}

// Returns the beginning of a JSON string without its last quote.
std::string OpenString(std::string_view text) {
  std::string json = "\"";
  AppendJsonEscaped(text, &json);
  return json;
}

// Returns a buffered value that was cut as the beginning of its final form: JSON, or a string if no
// JSON begins with this text.
std::string CutValue(std::string_view value, bool may_be_json) {
  if (!may_be_json) return OpenString(value);
  const std::string_view text = WithoutBlankEnds(value);
  const bool is_json = text.empty() || text.find_first_of("{[\"-0123456789tfn") == 0;
  return is_json ? std::string(text) : OpenString(value);
}

// Returns the number of bytes of a cut JSON object that contain finished members: the text before
// its last comma, if that text is JSON.
std::size_t FinishedBytes(std::string_view json) {
  std::size_t n_finished = 0;
  int depth = 0;
  bool is_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (is_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      is_string = !is_string;
    } else if (!is_string) {
      depth += c == '{' || c == '[' ? 1 : 0;
      depth -= c == '}' || c == ']' ? 1 : 0;
      if (c == ',' && depth == 1) n_finished = i;
    }
  }
  const std::string finished = std::string(json.substr(0, n_finished)) + "}";
  return AsJson(finished, true) ? n_finished : 0;
}

}  // namespace

void ArgumentsWriter::Begin(std::string_view key, std::string* out) {
  const auto [entry, is_new] = keys_.emplace(key, keys_.size());
  current_ = entry->second;
  is_open_ = true;
  is_new_ = is_new;
  if (!is_new) ++duplicates_;
  if (!streams_) {
    open_ = {.key = PythonJsonString(key)};
  } else if (is_new) {
    Write(current_ == 0 ? "{" : ", ", out);
    Write(PythonJsonString(key), out);
    Write(": ", out);
  }
}

void ArgumentsWriter::Value(std::string_view json, std::string* out) {
  if (!streams_) {
    open_.json += json;
  } else if (is_new_) {
    Write(json, out);
  }
}

void ArgumentsWriter::End() {
  is_open_ = false;
  if (streams_) {
    n_finished_ = n_written_;
  } else if (is_new_) {
    members_.push_back(std::move(open_));
  } else {
    members_[current_] = std::move(open_);
  }
}

void ArgumentsWriter::Whole(std::string_view json) { whole_ = json; }

void ArgumentsWriter::Close(std::string* out) {
  if (!whole_.empty()) {
    Write(whole_, out);
  } else {
    WriteMembers(members_, out);
    Write(keys_.empty() ? "{}" : "}", out);
  }
  Reset();
}

std::size_t ArgumentsWriter::Cut(std::string* out) {
  if (!whole_.empty()) {
    whole_.pop_back();
    Write(whole_, out);
    n_finished_ = n_written_;
  } else if (!streams_) {
    WriteMembers(members_, out);
    n_finished_ = n_written_;
    // A second value that is cut does not replace the first one.
    if (is_open_ && is_new_) WriteMembers({&open_, 1}, out);
  }
  const std::size_t n_finished = n_finished_;
  Reset();
  return n_finished;
}

std::size_t ArgumentsWriter::CutWhole(std::string_view json, std::string* out) {
  Write(json, out);
  Reset();
  return FinishedBytes(json);
}

void ArgumentsWriter::WriteMembers(std::span<const Member> members, std::string* out) {
  for (const Member& member : members) {
    Write(n_written_ == 0 ? "{" : ", ", out);
    Write(member.key, out);
    Write(": ", out);
    Write(member.json, out);
  }
}

void ArgumentsWriter::Write(std::string_view text, std::string* out) {
  out->append(text);
  n_written_ += text.size();
}

void ArgumentsWriter::Reset() {
  keys_.clear();
  members_.clear();
  whole_.clear();
  is_open_ = false;
  n_written_ = 0;
  n_finished_ = 0;
}

CallBuilder::CallBuilder(const AnswerParserOptions& options, AnswerEvents* events)
    : options_(options),
      tools_(options.tools.value_or(ToolSchemas())),
      events_(events),
      writer_(options.stream_arguments) {
  Check(options_.random_bits != nullptr,
        "a parser of answers needs random bits for the ids of calls");
}

void CallBuilder::Begin(std::string_view name) {
  tool_ = name;
  events_->Add({.kind = AnswerEvent::Kind::kCallBegin,
                .call = calls_,
                .id = MakeId(options_.call_id_prefix, options_.random_bits),
                .name = tool_});
}

CallBuilder::Form CallBuilder::ChooseForm(std::optional<bool> is_string) const {
  if (is_string) return *is_string ? Form::kString : Form::kJson;
  const ParameterType type = tools_.FindType(tool_, parameter_);
  if (type == ParameterType::kString) return Form::kString;
  return type == ParameterType::kOther ? Form::kJson : Form::kJsonIfValid;
}

void CallBuilder::BeginParameter(std::string_view name, std::optional<bool> is_string) {
  if (may_wrap_) WriteBuffered();  // there is another parameter
  parameter_ = name;
  value_.clear();
  form_ = ChooseForm(is_string);
  is_in_value_ = true;
  may_wrap_ = writer_.empty() && IsWrapperName(name) && tools_.Lacks(tool_, name);
  if (IsBuffered()) return;
  std::string text;
  writer_.Begin(name, &text);
  writer_.Value("\"", &text);
  Send(text);
}

void CallBuilder::Value(std::string_view text) {
  if (IsBuffered()) {
    value_.append(text);
    return;
  }
  std::string json;
  AppendJsonEscaped(text, &json);
  std::string sent;
  writer_.Value(json, &sent);
  Send(sent);
}

void CallBuilder::EndParameter() {
  is_in_value_ = false;
  if (may_wrap_) return;
  if (form_ != Form::kString) {
    WriteBuffered();
    return;
  }
  std::string text;
  writer_.Value("\"", &text);
  writer_.End();
  Send(text);
}

void CallBuilder::WriteBuffered() {
  std::optional<std::string_view> json;
  if (form_ != Form::kString) json = AsJson(value_, false);
  if (!json && form_ == Form::kJson) ++malformed_arguments_;
  std::string text;
  writer_.Begin(parameter_, &text);
  writer_.Value(json ? *json : std::string_view(PythonJsonString(value_)), &text);
  writer_.End();
  Send(text);
  may_wrap_ = false;
}

bool CallBuilder::Whole(std::string_view json) {
  const std::optional<std::string_view> object = AsJson(json, true);
  if (object) writer_.Whole(*object);
  return object.has_value();
}

void CallBuilder::End(bool is_complete) {
  if (may_wrap_ && !Whole(value_)) WriteBuffered();
  may_wrap_ = false;
  std::string text;
  writer_.Close(&text);
  Send(text);
  events_->Add({.kind = AnswerEvent::Kind::kCallEnd, .call = calls_});
  ++calls_;
  if (is_complete) ++complete_calls_;
}

void CallBuilder::Cut() {
  std::string text;
  const std::size_t n_finished = CutArguments(&text);
  EndCut(n_finished, text);
}

// A value that may contain all arguments counts as the arguments as soon as it begins like an
// object.
std::size_t CallBuilder::CutArguments(std::string* out) {
  const std::string_view object = WithoutBlankEnds(value_);
  if (may_wrap_ && Whole(value_)) return writer_.Cut(out);
  if (may_wrap_ && is_in_value_ && object.starts_with('{')) return writer_.CutWhole(object, out);
  if (may_wrap_ && !is_in_value_) WriteBuffered();
  if (is_in_value_ && IsBuffered()) {
    writer_.Begin(parameter_, out);
    writer_.Value(CutValue(value_, form_ != Form::kString), out);
  }
  return writer_.Cut(out);
}

void CallBuilder::CutWhole(std::string_view json) {
  std::string text;
  const std::size_t n_finished = Whole(json) ? writer_.Cut(&text) : writer_.CutWhole(json, &text);
  EndCut(n_finished, text);
}

void CallBuilder::EndCut(std::size_t n_finished, std::string_view text) {
  may_wrap_ = false;
  is_in_value_ = false;
  Send(text);
  events_->Add({.kind = AnswerEvent::Kind::kCallEnd,
                .call = calls_,
                .is_cut = true,
                .n_finished = n_finished});
  ++calls_;
}

void CallBuilder::Send(std::string_view text) {
  events_->AddDelta(AnswerEvent::Kind::kArgumentsDelta, text, calls_);
}

}  // namespace fathom::chat
