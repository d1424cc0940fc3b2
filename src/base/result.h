// Result<T>: a value, or an Error that says what was expected and what was found.
//
// Every error that the outside world can cause (files, configurations, requests, devices) is
// reported this way. Nothing throws. Propagate in two plain lines:
//
//   Result<Config> config = ReadConfig(path);
//   if (!config) return Unexpected(config.error());
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "base/namespaces.h"

namespace fathom {

enum class ErrorCode {
  kInvalidArgument,  // wrong request of the caller: an option, a token id, a prompt
  kInvalidData,      // wrong content of a file
  kNotFound,         // missing file or name
  kUnsupported,      // well formed, but not supported by this build
  kOutOfMemory,
  kResourceExhausted,  // busy: the same may work later
  kUnavailable,        // shutting down
  kIo,                 // reading or writing failed
  kTooLarge,           // well formed, but needs more memory than its size allows
};

struct Error {
  ErrorCode code;
  std::string message;  // names the file or field, the expected and the found value
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> Unexpected(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

// Returns an error with a formatted message: MakeError(ErrorCode::kIo, "{}: cannot read", path).
template <class... Args>
tl::unexpected<Error> MakeError(ErrorCode code, fmt::format_string<Args...> format,
                                Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

}  // namespace fathom
