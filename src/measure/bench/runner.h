// RunRows: runs the rows of a benchmark on a model, and measures the limits of the machine between
// them.
//
// A row runs once to warm up (pages are faulted in, the experts it reads are counted) and then
// repeatedly, every time with the same tokens from the same state. Tokens are random ids, so that
// the chosen experts vary as in a text. The tokens before a depth are not computed: the caches are
// filled with random rows (Model::FillCache), outside the measured time.
//
// A pipeline decodes like the engine: one step in flight per stage, each with some of the
// sequences, and each step reads the weights.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "distributed/model_ranks.h"
#include "kernels/profile.h"
#include "kernels/roofline.h"
#include "measure/bench/costs.h"
#include "measure/bench/row_spec.h"
#include "model/model.h"

namespace fathom::measure::bench {

// The median of an even number is the mean of the two middle values.
struct Spread {
  double min = 0;
  double median = 0;
  double max = 0;
};
Spread ComputeSpread(std::vector<double> values);  // at least one

struct RowResult {
  RowSpec row;
  Spread tok_s;  // tokens per second of all sequences, over the repetitions
  // Averages over one token. Bytes: the weights once per step (a decoding step has one token of
  // every sequence; a prefill step is a chunk), and the cached rows that decoding reads. The
  // queries of a prefill chunk share their cached rows, which are not counted.
  double gb_per_token = 0;
  double gflop_per_token = 0;
  double experts_per_layer = 0;      // different experts that a step read, on average
  std::optional<Profile> profile{};  // one more repetition; missing: no profile was requested

  double gb_s() const { return gb_per_token * tok_s.median; }
  double gflop_s() const { return gflop_per_token * tok_s.median; }
};

struct Plan {
  std::vector<RowSpec> rows;
  int n_repetitions = 1;              // >= 1, each after the warm-up
  std::int64_t chunk = 1;             // >= 1: the most tokens in a prefill step
  const ModelRanks* ranks = nullptr;  // the ranks that divide the model; null: one process
  Profiler* profiler = nullptr;       // the backend's profiler; null: no profiles
};

// Returns the options with which a model must be loaded to run the plan.
ModelOptions OptionsFor(const Plan& plan);

// Receives the number of completed rows, and the row that begins now.
using RowProgress = std::function<void(std::size_t n_done, const RowSpec& row)>;

// The model must be loaded with OptionsFor(plan) or more. With several ranks, all of them call this
// function. The roofline is measured before every repetition and at the end; the probe has the
// results. Errors: the model's.
Result<std::vector<RowResult>> RunRows(Model& model, const ModelCosts& costs, const Plan& plan,
                                       RooflineProbe& probe, const RowProgress& progress);

}  // namespace fathom::measure::bench
