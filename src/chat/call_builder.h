// CallBuilder: converts the parts of tool calls to events: decides the type of each parameter,
// keeps the arguments valid JSON whatever the model wrote, and assigns ids to the calls.
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

namespace fathom::chat {

// Writes the arguments of one call as a JSON object while its parameters arrive.
//
// Events that were sent cannot be withdrawn, so the two modes differ for repeated parameters: a
// stream keeps the first value, text written at the end keeps the last.
//
// Each function appends to `out` the text that may be sent now. Over a call the text is one JSON
// object, spaced as in the official code: {"a": "x", "b": 1}. For a call that is cut, it is the
// beginning of an object, never a whole one.
class ArgumentsWriter {
 public:
  explicit ArgumentsWriter(bool streams) : streams_(streams) {}

  // Begins a parameter, whose value arrives as JSON text in any number of pieces.
  void Begin(std::string_view key, std::string* out);
  void Value(std::string_view json, std::string* out);
  void End();

  // Takes all arguments together, as JSON text of an object; no parameter may come before.
  void Whole(std::string_view json);

  // Closes the object. The writer is then ready for the next call.
  void Close(std::string* out);
  // Ends the text where the model was cut, in an open value or after one. Returns the number of
  // bytes of the text, over all pieces, that contain finished parameters. The writer is then ready
  // for the next call.
  std::size_t Cut(std::string* out);
  // Like Cut, with all arguments in one JSON object that was cut.
  std::size_t CutWhole(std::string_view json, std::string* out);

  bool empty() const { return keys_.empty(); }
  std::size_t duplicates() const { return duplicates_; }

 private:
  struct Member {
    std::string key;  // JSON, with quotes
    std::string json;
  };

  // Writes members that were kept, the last one without its closing text.
  void WriteMembers(std::span<const Member> members, std::string* out);
  void Write(std::string_view text, std::string* out);
  void Reset();

  const bool streams_;
  std::map<std::string, std::size_t, std::less<>> keys_;  // key -> index
  std::vector<Member> members_;  // not streaming: the finished members, to be written at the end
  Member open_;                  // not streaming: the open member
  bool is_open_ = false;
  bool is_new_ = false;      // the open member's key is new
  std::size_t current_ = 0;  // index of the open member
  std::string whole_;
  std::size_t n_written_ = 0;   // bytes of this call
  std::size_t n_finished_ = 0;  // bytes of this call that hold finished members
  std::size_t duplicates_ = 0;  // counted over all calls
};

struct AnswerParserOptions {
  // True if the prompt ended inside the reasoning (AnswerStart).
  bool starts_in_reasoning = false;
  // The tools of the request. No tools: the markup of calls is text. nullopt: the tools are
  // unknown; calls with any name are recognized, but only in DSML markup.
  std::optional<ToolSchemas> tools{};
  // The prompt ended with the opener of a call: the content begins with this call, whatever
  // follows.
  bool begins_with_call = false;
  // On: the text of string parameters is sent as it arrives. Off: the arguments of a call are one
  // event, and the last value of a repeated parameter is kept instead of the first.
  bool stream_arguments = true;
  std::string call_id_prefix = "call_";  // prefix of call ids
  RandomBits random_bits{};              // required
};

// Call Begin, then any number of (BeginParameter, Value..., EndParameter), or Whole, then End;
// repeat. Cut may be called anywhere in a call, and replaces the rest.
class CallBuilder {
 public:
  // Appends events to `events`, which must outlive the builder, and so must `options`.
  CallBuilder(const AnswerParserOptions& options, AnswerEvents* events);

  void Begin(std::string_view name);
  void BeginParameter(std::string_view name, std::optional<bool> is_string);
  void Value(std::string_view text);
  void EndParameter();
  // Takes all arguments as one JSON object instead of parameters; before or after Begin. Returns
  // false, and does nothing, if `json` is not an object.
  bool Whole(std::string_view json);
  void End(bool is_complete);
  // Ends the call where a limit ended the answer: its arguments end there, too.
  void Cut();
  // Like Cut, in a JSON object that replaces parameters.
  void CutWhole(std::string_view json);

  std::size_t calls() const { return calls_; }
  std::size_t complete_calls() const { return complete_calls_; }
  std::size_t malformed_arguments() const { return malformed_arguments_; }
  std::size_t duplicate_parameters() const { return writer_.duplicates(); }

 private:
  // The form in which the value of a parameter is written.
  enum class Form {
    kString,      // sent as it arrives
    kJson,        // JSON by attribute or schema; otherwise a string, which is counted
    kJsonIfValid  // JSON if it is valid, otherwise a string
  };

  Form ChooseForm(std::optional<bool> is_string) const;
  bool IsBuffered() const { return form_ != Form::kString || may_wrap_; }
  void WriteBuffered();
  std::size_t CutArguments(std::string* out);
  void EndCut(std::size_t n_finished, std::string_view text);
  void Send(std::string_view text);

  const AnswerParserOptions& options_;
  const ToolSchemas tools_;  // empty: the tools are unknown
  AnswerEvents* const events_;
  ArgumentsWriter writer_;
  std::string tool_;       // name of the open call
  std::string parameter_;  // name of the open parameter
  std::string value_;      // the text of the value, if it is buffered
  Form form_ = Form::kString;
  bool is_in_value_ = false;
  bool may_wrap_ = false;  // the value may be all arguments in one parameter
  std::size_t calls_ = 0;
  std::size_t complete_calls_ = 0;
  std::size_t malformed_arguments_ = 0;
};

}  // namespace fathom::chat
