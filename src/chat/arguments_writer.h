// Writes the arguments of one call as a JSON object while its parameters arrive.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace fathom {

// What has been sent cannot be taken back, so the two modes differ in one thing: of a repeated
// parameter a stream keeps the first value, and text written at the end keeps the last.
//
// Each function appends to `out` what may be sent now; over a call this is one JSON object, spaced
// as the official code does: {"a": "x", "b": 1}.
class ArgumentsWriter {
 public:
  explicit ArgumentsWriter(bool streams) : streams_(streams) {}

  // A string parameter, its text in any number of pieces.
  void BeginString(std::string_view key, std::string* out);
  void StringText(std::string_view text, std::string* out);
  void EndString(std::string* out);

  // A parameter whose value is JSON text.
  void Member(std::string_view key, std::string_view json, std::string* out);

  // The whole arguments at once, JSON text of an object; no parameter came before.
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

  // Opens a member; returns whether a stream goes on with its value.
  bool BeginMember(std::string_view key, std::string* out);

  const bool streams_;
  std::unordered_map<std::string, std::size_t> keys_;  // key -> index
  std::vector<MemberText> members_;                    // not streaming: what is written at the end
  std::size_t current_ = 0;                            // the open member
  bool is_open_ = false;  // streaming: the value of the open member is sent
  std::string whole_;
  std::size_t duplicates_ = 0;  // over all calls
};

}  // namespace fathom
