#include "chat/arguments_writer.h"

#include "json/json_writer.h"

namespace fathom {

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

}  // namespace fathom
