#include "cli/terminal/log.h"

#include <fmt/chrono.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <array>
#include <chrono>
#include <string>

#include "json/json_writer.h"

namespace fathom::cli {
namespace {

constexpr std::array kSpdlogLevels = {spdlog::level::trace, spdlog::level::debug,
                                      spdlog::level::info,  spdlog::level::warn,
                                      spdlog::level::err,   spdlog::level::off};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  return kSpdlogLevels[static_cast<std::size_t>(level)];
}

// Returns "2026-11-22T03:04:05.678Z".
std::string TimeText() {
  const auto now = std::chrono::system_clock::now();
  const auto fraction =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()) %
      std::chrono::seconds(1);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)), fraction.count());
}

}  // namespace

struct Log::Impl {
  spdlog::logger logger{"fathom", std::make_shared<spdlog::sinks::stderr_sink_mt>()};
  LogFormat format = LogFormat::kText;
};

Log::Log(LogLevel level, LogFormat format) : impl_(std::make_unique<Impl>()) {
  impl_->format = format;
  impl_->logger.set_level(ToSpdlog(level));
  if (format == LogFormat::kJson) {
    impl_->logger.set_pattern("%v");
    return;
  }
  // Times are for people who look for slow parts; without times, a warning reads like an error
  // message.
  impl_->logger.set_pattern(level <= LogLevel::kDebug ? "fathom: %H:%M:%S.%e %l: %v"
                                                      : "fathom: %l: %v");
}

Log::~Log() = default;

bool Log::Shows(LogLevel level) const { return impl_->logger.should_log(ToSpdlog(level)); }

void Log::Write(LogLevel level, std::string_view message) {
  if (impl_->format == LogFormat::kJson) {
    Event(level, message, JsonValue::Object());
    return;
  }
  impl_->logger.log(ToSpdlog(level), spdlog::string_view_t(message.data(), message.size()));
}

void Log::Event(LogLevel level, std::string_view message, const JsonValue& fields) {
  if (!impl_->logger.should_log(ToSpdlog(level))) return;
  if (impl_->format == LogFormat::kText) {
    Write(level, message);
    return;
  }
  JsonValue line = {{"time", TimeText()},
                    {"level", kLogLevelNames[static_cast<std::size_t>(level)]},
                    {"message", message}};
  line.Update(fields);
  const std::string text = WriteJson(line);
  impl_->logger.log(ToSpdlog(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace fathom::cli
