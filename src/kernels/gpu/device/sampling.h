// Arguments of the kernels in sample_*.cu, which choose a token from each row of logits.
//
// A token's place in the order of truncation is one number: the key of z above the id. The smaller
// number is the better token; min-p, top-k and top-p each keep the tokens up to a last one.
#pragma once

#include <cstdint>

#include "base/tensor.h"
#include "kernels/row_choice.h"
#include "sampling/sampling_row.h"

namespace fathom::kernels::gpu {

inline constexpr std::int64_t kTileTokens = 4096;  // tokens of a row that one block reads

using OrderedToken = std::uint64_t;

// The scan of a tile of a row.
struct LogitScan {
  ScoredRow best = kNoScoredRow;  // the largest logit and the lowest token with this logit
  Token first_bad = 0;            // the first NaN or infinity; kNoToken: none
};
inline constexpr Token kNoToken = 0x7FFFFFFF;

// The best token of a tile. A smaller number is a larger score.
struct Draw {
  std::uint64_t order = 0;
  Token token = kNoToken;
};

// The tokens of a row that may be drawn: all up to the last one.
struct KeptTokens {
  OrderedToken last = 0;
  std::int64_t n = 0;  // number before top-p
};

struct SamplingArguments {
  Matrix<const float> logits;  // [n, vocabulary]
  const SamplingRule* rules = nullptr;
  bool changed_only = false;      // ScanLogits: rows whose logits have been changed
  Matrix<float> changed;          // the logits of these rows
  Matrix<std::uint32_t> keys;     // keys of z, smaller for a larger z; kDroppedKey: not a candidate
  Matrix<std::uint64_t> weights;  // weights of the candidates' probabilities
  // [n, tiles]
  Matrix<LogitScan> scans;
  Matrix<std::int32_t> counts;  // candidates
  Matrix<Draw> draws;
  // [n]
  KeptTokens* kept = nullptr;
  TokenChoice* choices = nullptr;
};

// A change of one logit.
struct LogitChange {
  enum class Kind : std::int32_t { kExclude, kBias, kPenalize };
  Kind kind = Kind::kExclude;
  std::int32_t row = 0;
  Token token = 0;
  std::int32_t count = 0;
  float bias = 0.0f;
};

// No logit is changed twice, except by kExclude. Runs a thread per change.
struct ChangeLogitsArguments {
  const LogitChange* changes = nullptr;
  std::int64_t n = 0;
  const SamplingRule* rules = nullptr;
  Matrix<float> logits;
};

}  // namespace fathom::kernels::gpu
