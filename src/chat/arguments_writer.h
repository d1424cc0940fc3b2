// ArgumentsWriter: writes the arguments of one call as a JSON object while its parameters arrive.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace fathom {

// Events that were sent cannot be taken back, so the two modes differ for repeated parameters: a
// stream keeps the first value, text written at the end keeps the last.
//
// Each function appends to `out` the text that may be sent now; over a call the text is one JSON
// object, spaced as in the official code: {"a": "x", "b": 1}.
class ArgumentsWriter {
 public:
  explicit ArgumentsWriter(bool streams) : streams_(streams) {}

  // Begins a string parameter, whose text arrives in any number of pieces.
  void BeginString(std::string_view key, std::string* out);
  void StringText(std::string_view text, std::string* out);
  void EndString(std::string* out);

  // Writes a parameter whose value is JSON text.
  void Member(std::string_view key, std::string_view json, std::string* out);

  // Takes all arguments at once, as JSON text of an object; no parameter came before.
  void Whole(std::string_view json);

  // Closes the object. The writer is then ready for the next call.
  void End(std::string* out);

  bool empty() const { return keys_.empty(); }
  std::size_t duplicates() const { return duplicates_; }

 private:
  struct MemberText {
    std::string key;  // JSON, with quotes
    std::string json;
  };

  // Opens a member; returns whether its value continues a stream.
  bool BeginMember(std::string_view key, std::string* out);

  const bool streams_;
  std::unordered_map<std::string, std::size_t> keys_;  // key -> index
  std::vector<MemberText> members_;  // not streaming: the members to write at the end
  std::size_t current_ = 0;          // the open member
  bool is_open_ = false;             // streaming: the value of the open member is sent
  std::string whole_;
  std::size_t duplicates_ = 0;  // counted over all calls
};

}  // namespace fathom
