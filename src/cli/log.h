// Log: what happens beside the result, on standard error, as much of it as the user asked for.
#ifndef FATHOM_CLI_LOG_H_
#define FATHOM_CLI_LOG_H_

#include <fmt/format.h>

#include <memory>
#include <string_view>

namespace fathom::cli {

enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError, kOff };

// The names of --log-level, in the order of the enum.
inline constexpr std::string_view kLogLevelNames[] = {"trace", "debug", "info",
                                                      "warn",  "error", "off"};

// Any thread may write.
class Log {
 public:
  explicit Log(LogLevel level);
  ~Log();

  template <class... Args>
  void Debug(fmt::format_string<Args...> format, Args&&... args) {
    Write(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void Info(fmt::format_string<Args...> format, Args&&... args) {
    Write(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void Warn(fmt::format_string<Args...> format, Args&&... args) {
    Write(LogLevel::kWarn, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void Write(LogLevel level, std::string_view message);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom::cli

#endif  // FATHOM_CLI_LOG_H_
