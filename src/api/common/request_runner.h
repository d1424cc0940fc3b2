// RequestRunner: what a caller of many requests needs of the engine. The seam where tests put
// answers without a model.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "base/result.h"
#include "engine/request.h"
#include "engine/token_stream.h"

namespace fathom {

// As TokenStream, which see. Destroying it before the end cancels the request.
class RunningRequest {
 public:
  virtual ~RunningRequest() = default;
  virtual std::optional<bool> NextFor(std::chrono::milliseconds timeout, StreamEvent& event) = 0;
  // Of the prompt from the first event on; all of it after the last.
  virtual RequestStats stats() const = 0;
  // As TokenStream::Cancel. A runner that cannot goes on to the end.
  virtual void Cancel() {}
};

class RequestRunner {
 public:
  virtual ~RequestRunner() = default;
  // As Engine::Submit.
  virtual Result<std::unique_ptr<RunningRequest>> Submit(Request request) = 0;
};

}  // namespace fathom
