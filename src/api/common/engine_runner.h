// EngineRunner: runs requests on an Engine.
#pragma once

#include <memory>

#include "api/common/request_runner.h"
#include "engine/engine.h"

namespace fathom {

// The engine must outlive the runner and its requests. Any thread may call.
class EngineRunner final : public RequestRunner {
 public:
  explicit EngineRunner(Engine& engine) : engine_(engine) {}
  Result<std::unique_ptr<RunningRequest>> Submit(Request request) override;

 private:
  Engine& engine_;
};

}  // namespace fathom
