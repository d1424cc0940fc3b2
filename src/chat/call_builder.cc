#include "chat/call_builder.h"

#include <utility>

#include "base/check.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom {
namespace {

// Returns the JSON value that `text` consists of, without blanks around it; nullopt if there is
// none. Python's constants are not accepted, because clients read the value with strict parsers.
std::optional<std::string_view> AsJson(std::string_view text, bool must_be_object) {
  const Result<JsonValue> value = ParseJson(text, {.python_constants = false});
  if (!value || (must_be_object && !value->IsObject())) return std::nullopt;
  return value->SourceIn(text);
}

bool IsWrapperName(std::string_view name) {
  return name == "arguments" || name == "input" || name == "parameters";
}

}  // namespace

bool ArgumentsWriter::BeginMember(std::string_view key, std::string* out) {
  const auto [entry, is_new] = keys_.emplace(key, keys_.size());
  current_ = entry->second;
  if (!is_new) ++duplicates_;
  if (streams_) {
    if (!is_new) return false;
    out->append(current_ == 0 ? "{" : ", ");
    out->append(PythonJsonString(key));
    out->append(": ");
    return true;
  }
  if (is_new) members_.push_back({.key = PythonJsonString(key), .json = ""});
  members_[current_].json.clear();
  return false;
}

void ArgumentsWriter::BeginString(std::string_view key, std::string* out) {
  is_open_ = BeginMember(key, out);
  if (is_open_) out->push_back('"');
  if (!streams_) members_[current_].json.push_back('"');
}

void ArgumentsWriter::StringText(std::string_view text, std::string* out) {
  if (is_open_) AppendJsonEscaped(text, out);
  if (!streams_) AppendJsonEscaped(text, &members_[current_].json);
}

void ArgumentsWriter::EndString(std::string* out) {
  if (is_open_) out->push_back('"');
  if (!streams_) members_[current_].json.push_back('"');
  is_open_ = false;
}

void ArgumentsWriter::Member(std::string_view key, std::string_view json, std::string* out) {
  if (BeginMember(key, out)) out->append(json);
  if (!streams_) members_[current_].json = json;
}

void ArgumentsWriter::Whole(std::string_view json) { whole_ = json; }

void ArgumentsWriter::End(std::string* out) {
  if (!whole_.empty()) {
    out->append(whole_);
  } else if (streams_) {
    out->append(keys_.empty() ? "{}" : "}");
  } else {
    out->push_back('{');
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (i > 0) out->append(", ");
      out->append(members_[i].key).append(": ").append(members_[i].json);
    }
    out->push_back('}');
  }
  keys_.clear();
  members_.clear();
  whole_.clear();
}

CallBuilder::CallBuilder(CallBuilderOptions options, AnswerEvents* events)
    : options_(std::move(options)), events_(events), writer_(options_.stream_arguments) {
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
  const ParameterType type = options_.tools.FindType(tool_, parameter_);
  if (is_string == false) return Form::kJson;
  if (is_string == true) {
    const bool coerces = options_.coerce_strings && type == ParameterType::kOther;
    return coerces ? Form::kJsonIfValid : Form::kString;
  }
  if (type == ParameterType::kString) return Form::kString;
  return type == ParameterType::kOther ? Form::kJson : Form::kJsonIfValid;
}

void CallBuilder::BeginParameter(std::string_view name, std::optional<bool> is_string) {
  if (may_wrap_) WriteBuffered();  // there is another parameter
  parameter_ = name;
  value_.clear();
  form_ = ChooseForm(is_string);
  may_wrap_ = writer_.empty() && IsWrapperName(name) && options_.tools.Lacks(tool_, name);
  if (IsBuffered()) return;
  std::string text;
  writer_.BeginString(name, &text);
  Send(text);
}

void CallBuilder::Value(std::string_view text) {
  if (IsBuffered()) {
    value_.append(text);
    return;
  }
  std::string sent;
  writer_.StringText(text, &sent);
  Send(sent);
}

void CallBuilder::EndParameter() {
  if (may_wrap_) return;
  if (form_ != Form::kString) {
    WriteBuffered();
    return;
  }
  std::string text;
  writer_.EndString(&text);
  Send(text);
}

void CallBuilder::WriteBuffered() {
  std::optional<std::string_view> json;
  if (form_ != Form::kString) json = AsJson(value_, false);
  if (!json && form_ == Form::kJson) ++malformed_arguments_;
  std::string text;
  writer_.Member(parameter_, json ? *json : std::string_view(PythonJsonString(value_)), &text);
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
  writer_.End(&text);
  Send(text);
  events_->Add({.kind = AnswerEvent::Kind::kCallEnd, .call = calls_});
  ++calls_;
  if (is_complete) ++complete_calls_;
}

void CallBuilder::Send(std::string_view text) {
  events_->AddDelta(AnswerEvent::Kind::kArgumentsDelta, text, calls_);
}

}  // namespace fathom
