// Log: messages other than the result, on standard error, from the level that the user chose.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string_view>

#include "json/json_value.h"

namespace fathom::cli {

enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError, kOff };

// The names of --log-level, in the order of the enum.
inline constexpr std::string_view kLogLevelNames[] = {"trace", "debug", "info",
                                                      "warn",  "error", "off"};

// text: "fathom: info: message"; json: {"time": ..., "level": ..., "message": ..., ...}, one per
// line.
enum class LogFormat { kText, kJson };
inline constexpr std::string_view kLogFormatNames[] = {"text", "json"};

// Any thread may write.
class Log {
 public:
  explicit Log(LogLevel level, LogFormat format = LogFormat::kText);
  ~Log();
  // Returns false if a message of this level would not be shown.
  bool Shows(LogLevel level) const;

  template <class... Args>
  void Info(fmt::format_string<Args...> format, Args&&... args) {
    Write(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void Warn(fmt::format_string<Args...> format, Args&&... args) {
    Write(LogLevel::kWarn, fmt::format(format, std::forward<Args>(args)...));
  }
  // Writes a message with fields, which only JSON shows: the message contains the important ones.
  void Event(LogLevel level, std::string_view message, const JsonValue& fields);

 private:
  void Write(LogLevel level, std::string_view message);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom::cli
