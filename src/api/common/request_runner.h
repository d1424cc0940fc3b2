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

// See TokenStream. Destroying it before the end cancels the request.
class RunningRequest {
 public:
  virtual ~RunningRequest() = default;
  virtual std::optional<bool> NextFor(std::chrono::milliseconds timeout, StreamEvent& event) = 0;
  // The prompt's statistics are final from the first event on, all others after the last.
  virtual RequestStats stats() const = 0;
  // See TokenStream::Cancel. A runner without cancellation continues to the end.
  virtual void Cancel() {}
};

class RequestRunner {
 public:
  virtual ~RequestRunner() = default;
  // See Engine::Submit.
  virtual Result<std::unique_ptr<RunningRequest>> Submit(Request request) = 0;
};

}  // namespace fathom
