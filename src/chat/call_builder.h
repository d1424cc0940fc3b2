// CallBuilder: turns the parts of tool calls into events: decides the type of each parameter, keeps
// the arguments valid JSON whatever the model wrote, and assigns ids to the calls.
// docs/spec/encoding.md section 9.2.
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
  // Takes a value marked as a string as JSON if its schema asks for another type and the value is
  // JSON.
  bool coerce_strings = false;
  bool stream_arguments = true;
  std::string call_id_prefix = "call_";
  RandomBits random_bits{};
};

// Call Begin, then any number of (BeginParameter, Value..., EndParameter), or Whole, then End;
// repeat.
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

  std::size_t calls() const { return calls_; }
  std::size_t complete_calls() const { return complete_calls_; }
  std::size_t malformed_arguments() const { return malformed_arguments_; }
  std::size_t duplicate_parameters() const { return writer_.duplicates(); }

 private:
  // How the value of a parameter is written.
  enum class Form {
    kString,      // sent as it arrives
    kJson,        // JSON by attribute or schema; else a string, which is counted
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
  std::string value_;      // the text of the value, if it is buffered
  Form form_ = Form::kString;
  bool may_wrap_ = false;  // the value may turn out to be all arguments in one parameter
  std::size_t calls_ = 0;
  std::size_t complete_calls_ = 0;
  std::size_t malformed_arguments_ = 0;
};

}  // namespace fathom
