// LayeredPass: a pass that runs a layer at a time, with other passes between its layers.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "model/sequence_failure.h"

namespace fathom::model {

// Returns true once nobody waits for the result of a pass. Called on the thread of the model.
using ShouldStop = std::function<bool()>;

struct PassProgress {
  std::int64_t layers_done = 0;
  std::int64_t layers = 0;

  bool HasEnded() const { return layers_done == layers; }
};

// Must not outlive its model. Destroyed before it has ended, it stops: its sequences must begin at
// position 0 again. One thread at a time.
class LayeredPass {
 public:
  virtual ~LayeredPass() = default;
  // Runs a layer. Not called after the last one, or after an error, which ends the pass. `failed`
  // and errors as LanguageModel::Forward, whose results and errors it equals bit for bit.
  virtual Result<PassProgress> Continue(std::vector<SequenceFailure>& failed) = 0;
};

}  // namespace fathom::model
