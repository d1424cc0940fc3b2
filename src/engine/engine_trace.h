// EngineTrace: writes the steps and requests of an engine, with their times, to a trace.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/result.h"
#include "engine/sequence.h"
#include "engine/trace.h"
#include "model/pass_progress.h"
#include "model/streaming_counts.h"

namespace fathom::engine {

// Steps are track 0; each request has a track of its own. One thread at a time.
class EngineTrace {
 public:
  struct Step {
    Clock::time_point begin, end;
    std::int64_t n_decoding = 0;  // sequences that decode
    std::int64_t n_prompt_tokens = 0;
    std::int64_t n_generated = 0;
    double engine_seconds = 0;   // time outside the model
    std::int64_t n_running = 0;  // running choices after the step
    std::int64_t n_waiting = 0;
    StreamingCounts streaming;  // totals; without slots if experts are not streamed
  };

  static Result<std::unique_ptr<EngineTrace>> Open(const std::filesystem::path& path);

  // A layer of a step of prompts that runs in pieces. AddStep adds the step after its last piece.
  struct Layer {
    Clock::time_point begin, end;
    PassProgress progress{};  // progress after the layer
    std::int64_t n_prompt_tokens = 0;
  };

  // Pieces and steps come in the order of their ends.
  void AddLayer(const Layer& layer);
  // Steps come in the order of their ends. A step that began before the previous step ended is
  // shown from that end on. Writes the costs of experts as the difference from the previous step.
  void AddStep(const Step& step);
  void AddPreemption(const RequestState& request);
  // Adds a request that ends now. Writes nothing if the request has never begun.
  void AddRequest(const RequestState& request);
  Status Close() { return writer_->Close(); }

 private:
  explicit EngineTrace(std::unique_ptr<TraceWriter> writer) : writer_(std::move(writer)) {}

  std::unique_ptr<TraceWriter> writer_;
  // The end of the previous step.
  Clock::time_point end_;
  StreamingCounts streaming_;
};

}  // namespace fathom::engine
