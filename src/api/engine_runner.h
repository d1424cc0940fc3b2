// EngineRunner: the engine as a RequestRunner.
#ifndef FATHOM_API_ENGINE_RUNNER_H_
#define FATHOM_API_ENGINE_RUNNER_H_

#include <memory>

#include "api/request_runner.h"
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

#endif  // FATHOM_API_ENGINE_RUNNER_H_
