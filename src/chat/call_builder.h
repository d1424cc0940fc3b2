// CallBuilder: turns the parts of tool calls into events: decides the type of each parameter, keeps
// the arguments valid JSON whatever the model wrote, and assigns ids to the calls.
// docs/spec/encoding.md section 9.2.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/answer_event.h"
#include "chat/call_ids.h"
#include "chat/tool_schemas.h"

namespace fathom {

// Writes the arguments of one call as a JSON object while its parameters arrive.
//
// Events that were sent cannot be taken back, so the two modes differ for repeated parameters: a
// stream keeps the first value, text written at the end keeps the last.
//
// Each function appends to `out` the text that may be sent now; over a call the text is one JSON
// object, spaced as in the official code: {"a": "x", "b": 1}. Of a call that is cut it is the
// beginning of one, never a whole object.
class ArgumentsWriter {
 public:
  explicit ArgumentsWriter(bool streams) : streams_(streams) {}

  // Begins a parameter, whose value arrives as JSON text in any number of pieces.
  void Begin(std::string_view key, std::string* out);
  void Value(std::string_view json, std::string* out);
  void End();

  // Takes all arguments at once, as JSON text of an object; no parameter came before.
  void Whole(std::string_view json);

  // Closes the object. The writer is then ready for the next call.
  void Close(std::string* out);
  // Ends the text where the model was cut, in an open value or after one. Returns how many bytes
  // of the text, of all pieces together, hold finished parameters. The writer is then ready for the
  // next call.
  std::size_t Cut(std::string* out);
  // Does so with all arguments in one JSON object that is cut.
  std::size_t CutWhole(std::string_view json, std::string* out);

  bool empty() const { return keys_.empty(); }
  std::size_t duplicates() const { return duplicates_; }

 private:
  struct Member {
    std::string key;  // JSON, with quotes
    std::string json;
  };

  // Writes members that were kept, the last one without its end.
  void WriteMembers(std::span<const Member> members, std::string* out);
  void Write(std::string_view text, std::string* out);
  void Reset();

  const bool streams_;
  std::map<std::string, std::size_t, std::less<>> keys_;  // key -> index
  std::vector<Member> members_;  // not streaming: the finished members, to be written at the end
  Member open_;                  // not streaming: the open member
  bool is_open_ = false;
  bool is_new_ = false;      // the open member has a key of its own
  std::size_t current_ = 0;  // index of the open member
  std::string whole_;
  std::size_t n_written_ = 0;   // bytes of this call
  std::size_t n_finished_ = 0;  // bytes of this call that hold finished members
  std::size_t duplicates_ = 0;  // counted over all calls
};

struct CallBuilderOptions {
  ToolSchemas tools{};
  // Takes a value marked as a string as JSON if its schema asks for another type and the value is
  // JSON.
  bool coerce_strings = false;
  bool stream_arguments = true;
  std::string call_id_prefix = "call_";
  RandomBits random_bits{};
};

// Call Begin, then any number of (BeginParameter, Value..., EndParameter), or Whole, then End;
// repeat. Cut may come anywhere in a call, in place of the rest.
class CallBuilder {
 public:
  // Appends events to `events`, which must outlive the builder.
  CallBuilder(CallBuilderOptions options, AnswerEvents* events);

  void Begin(std::string_view name);
  void BeginParameter(std::string_view name, std::optional<bool> is_string);
  void Value(std::string_view text);
  void EndParameter();
  // Takes all arguments as one JSON object instead of parameters; before or after Begin. False:
  // `json` is no object, and nothing happens.
  bool Whole(std::string_view json);
  void End(bool is_complete);
  // Ends the call where a limit ended the answer: its arguments end there, too.
  void Cut();
  // Does so in a JSON object that stands in place of parameters.
  void CutWhole(std::string_view json);

  std::size_t calls() const { return calls_; }
  std::size_t complete_calls() const { return complete_calls_; }
  std::size_t malformed_arguments() const { return malformed_arguments_; }
  std::size_t duplicate_parameters() const { return writer_.duplicates(); }

 private:
  // The form in which the value of a parameter is written.
  enum class Form {
    kString,      // sent as it arrives
    kJson,        // JSON by attribute or schema; else a string, which is counted
    kJsonIfValid  // JSON if it is, else a string
  };

  Form ChooseForm(std::optional<bool> is_string) const;
  bool IsBuffered() const { return form_ != Form::kString || may_wrap_; }
  void WriteBuffered();
  std::size_t CutArguments(std::string* out);
  void EndCut(std::size_t n_finished, std::string_view text);
  void Send(std::string_view text);

  const CallBuilderOptions options_;
  AnswerEvents* const events_;
  ArgumentsWriter writer_;
  std::string tool_;       // name of the open call
  std::string parameter_;  // name of the open parameter
  std::string value_;      // the text of the value, if it is buffered
  Form form_ = Form::kString;
  bool is_in_value_ = false;
  bool may_wrap_ = false;  // the value may turn out to be all arguments in one parameter
  std::size_t calls_ = 0;
  std::size_t complete_calls_ = 0;
  std::size_t malformed_arguments_ = 0;
};

}  // namespace fathom
