// Runs the rows of a benchmark on a model, with the limits of the machine measured in between.
//
// A row is run once to warm up (pages are faulted in, the experts it reads are counted) and then
// some times more, every time with the same tokens from the same state. Tokens are random ids, so
// that experts vary as they do in a text. A depth is not computed: the caches are filled with
// random rows (Model::FillCache), outside of what is timed.
//
// A pipeline decodes as under the engine: as many steps at once as it has stages, each of some of
// the sequences, and each reads the weights.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "distributed/model_ranks.h"
#include "kernels/roofline.h"
#include "measure/bench/costs.h"
#include "measure/bench/row_spec.h"
#include "model/model.h"

namespace fathom::benchmark {

// The middle one of an even number is the mean of two.
struct Spread {
  double min = 0;
  double median = 0;
  double max = 0;
};
Spread SpreadOf(std::vector<double> values);  // at least one

struct RowResult {
  RowSpec row;
  Spread tok_s;  // tokens of all sequences per second, over the repetitions
  // Of one token, on average. Bytes: weights once per step (decoding: one token of every sequence;
  // prefill: a chunk), and the cached rows that decoding sees; those of prefill are shared by the
  // queries of a chunk and not counted.
  double gb_per_token = 0;
  double gflop_per_token = 0;
  double experts_per_layer = 0;  // different ones that a step read, on average

  double gb_s() const { return gb_per_token * tok_s.median; }
  double gflop_s() const { return gflop_per_token * tok_s.median; }
};

struct Plan {
  std::vector<RowSpec> rows;
  int n_repetitions = 1;              // >= 1, each after the warm-up
  std::int64_t chunk = 1;             // >= 1: most tokens of a prefill step
  const ModelRanks* ranks = nullptr;  // that the model is divided among; null: one process
};

// What a model must be loaded with to run the plan.
ModelOptions OptionsFor(const Plan& plan);

// Told the name of the row that begins now, and how many are done.
using RowProgress = std::function<void(std::size_t n_done, const RowSpec& row)>;

// The model has been loaded with OptionsFor(plan) or more. Of several ranks, called by all. The
// roofline is measured before every repetition and at the end; ask the probe for it. Errors: those
// of the model.
Result<std::vector<RowResult>> RunRows(Model& model, const ModelCosts& costs, const Plan& plan,
                                       RooflineProbe& probe, const RowProgress& progress);

}  // namespace fathom::benchmark
