// EngineRunner: the engine as a RequestRunner.
#pragma once

#include <memory>

#include "api/common/request_runner.h"
#include "engine/engine.h"

namespace fathom {

// The engine must outlive it and the requests it runs. Any thread.
class EngineRunner final : public RequestRunner {
 public:
  explicit EngineRunner(Engine& engine) : engine_(engine) {}
  Result<std::unique_ptr<RunningRequest>> Submit(Request request) override;

 private:
  Engine& engine_;
};

}  // namespace fathom
