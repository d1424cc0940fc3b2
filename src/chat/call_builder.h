// Turns the parts of tool calls into events: decides what each parameter is, keeps the arguments
// valid JSON whatever the model wrote, and gives the calls their ids. docs/spec/encoding.md section
// 9.2.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "chat/answer_event.h"
#include "chat/arguments_writer.h"
#include "chat/call_ids.h"
#include "chat/tool_schemas.h"

namespace fathom {

struct CallBuilderOptions {
  ToolSchemas tools{};
  // A value marked as a string whose schema says otherwise is taken as JSON if it is JSON.
  bool coerce_strings = false;
  bool stream_arguments = true;
  std::string call_id_prefix = "call_";
  RandomBits random_bits{};
};

// Begin, then any number of (BeginParameter, Value..., EndParameter), or Whole, then End; and
// again.
class CallBuilder {
 public:
  // Events go to `events`, which must outlive the builder.
  CallBuilder(CallBuilderOptions options, AnswerEvents* events);

  void Begin(std::string_view name);
  void BeginParameter(std::string_view name, std::optional<bool> is_string);
  void Value(std::string_view text);
  void EndParameter();
  // All arguments as one JSON object, in place of parameters; before or after Begin. False (and
  // nothing happens) if `json` is none.
  bool Whole(std::string_view json);
  void End(bool is_complete);

  std::size_t calls() const { return calls_; }
  std::size_t complete_calls() const { return complete_calls_; }
  std::size_t malformed_arguments() const { return malformed_arguments_; }
  std::size_t duplicate_parameters() const { return writer_.duplicates(); }

 private:
  // What becomes of the value of a parameter.
  enum class Form {
    kString,      // sent as it arrives
    kJson,        // JSON by its attribute or schema; a string, and counted, if it is not
    kJsonIfValid  // JSON if it is, else a string
  };

  Form ChooseForm(std::optional<bool> is_string) const;
  bool IsBuffered() const { return form_ != Form::kString || may_wrap_; }
  void WriteBuffered();
  void Send(std::string_view text);

  const CallBuilderOptions options_;
  AnswerEvents* const events_;
  ArgumentsWriter writer_;
  std::string tool_;       // name of the open call
  std::string parameter_;  // name of the open parameter
  std::string value_;      // its text, if it is buffered
  Form form_ = Form::kString;
  bool may_wrap_ = false;  // the value may turn out to be all arguments in one parameter
  std::size_t calls_ = 0;
  std::size_t complete_calls_ = 0;
  std::size_t malformed_arguments_ = 0;
};

}  // namespace fathom
