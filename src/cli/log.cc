#include "cli/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <array>

namespace fathom::cli {
namespace {

constexpr std::array kSpdlogLevels = {spdlog::level::trace, spdlog::level::debug,
                                      spdlog::level::info,  spdlog::level::warn,
                                      spdlog::level::err,   spdlog::level::off};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  return kSpdlogLevels[static_cast<std::size_t>(level)];
}

}  // namespace

struct Log::Impl {
  spdlog::logger logger{"fathom", std::make_shared<spdlog::sinks::stderr_sink_mt>()};
};

Log::Log(LogLevel level) : impl_(std::make_unique<Impl>()) {
  impl_->logger.set_level(ToSpdlog(level));
  // Times where somebody looks for what is slow; otherwise a warning reads like an error message.
  impl_->logger.set_pattern(level <= LogLevel::kDebug ? "fathom: %H:%M:%S.%e %l: %v"
                                                      : "fathom: %l: %v");
}

Log::~Log() = default;

void Log::Write(LogLevel level, std::string_view message) {
  impl_->logger.log(ToSpdlog(level), spdlog::string_view_t(message.data(), message.size()));
}

}  // namespace fathom::cli
