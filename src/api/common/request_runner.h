// RequestRunner: the part of the engine that its callers need. Tests implement it to answer without
// a model.
#pragma once

#include <memory>
#include <utility>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/request.h"
#include "engine/token_stream.h"

namespace fathom::api {

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
  Result<std::unique_ptr<RunningRequest>> Submit(Request request) override {
    Result<TokenStream> stream = engine_.Submit(std::move(request));
    if (!stream) return Unexpected(stream.error());
    return std::make_unique<TokenStream>(*std::move(stream));
  }

 private:
  Engine& engine_;
};

}  // namespace fathom::api
