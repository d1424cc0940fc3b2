// RequestRunner: the part of the engine that its callers need. Tests implement it to answer without
// a model.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/request.h"
#include "engine/token_stream.h"

namespace fathom {

// A running request, like TokenStream. Its destruction before the end cancels the request.
class RunningRequest {
 public:
  virtual ~RunningRequest() = default;
  virtual std::optional<bool> NextFor(std::chrono::milliseconds timeout, StreamEvent& event) = 0;
  // Returns the statistics: the prompt's from the first event on, all after the last event.
  virtual RequestStats stats() const = 0;
  // Cancels like TokenStream::Cancel. A runner that cannot cancel continues to the end.
  virtual void Cancel() {}
};

class RequestRunner {
 public:
  virtual ~RequestRunner() = default;
  // Submits like Engine::Submit.
  virtual Result<std::unique_ptr<RunningRequest>> Submit(Request request) = 0;
};

// Runs requests on an engine, which must outlive the runner and its requests. Any thread may call.
class EngineRunner final : public RequestRunner {
 public:
  explicit EngineRunner(Engine& engine) : engine_(engine) {}
  Result<std::unique_ptr<RunningRequest>> Submit(Request request) override;

 private:
  Engine& engine_;
};

}  // namespace fathom
