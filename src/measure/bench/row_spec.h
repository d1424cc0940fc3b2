// RowSpec: the measurement of one row of a benchmark, and its notation.
//
//   ppN       prefill of N tokens
//   tgN       decoding of N tokens, one after another
//   ...@D     with D tokens already in the cache
//   tg...xB   decoding with B sequences together, each of N tokens (and D in its cache)
//
// For example pp512, tg128, tg128@16384, pp512@4096, tg128x4, tg128@4096x4.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fathom::measure::bench {

struct RowSpec {
  enum class Kind { kPrefill, kDecode };

  Kind kind = Kind::kDecode;
  std::int64_t n_tokens = 0;     // tokens of every sequence, >= 1
  std::int64_t depth = 0;        // tokens of every sequence that are already in the cache
  std::int64_t n_sequences = 1;  // 1 if kind is kPrefill

  // Returns the positions that a sequence needs.
  std::int64_t n_positions() const { return depth + n_tokens; }
  // Returns the number of computed tokens.
  std::int64_t n_total() const { return n_tokens * n_sequences; }
  friend bool operator==(const RowSpec&, const RowSpec&) = default;
};

inline constexpr std::int64_t kMaxSequences = 256;

// Returns the name of a row in the notation above.
std::string Name(const RowSpec& row);

// Parses a name. The error quotes the name and lists the notations.
Result<RowSpec> ParseRow(std::string_view name);
// Parses names separated by commas, at least one. Keeps their order; each row may be named once.
Result<std::vector<RowSpec>> ParseRows(std::string_view names);

// Checks that each row fits a model with max_positions; the error names the first row that does not
// fit.
Status CheckRows(const std::vector<RowSpec>& rows, std::int64_t max_positions);

// Returns the rows that fit from pp512 pp2048 tg128 tg128@4096 tg128@16384 tg128@65536 tg128x2
// tg128x4 tg128x8, or else tg1.
std::vector<RowSpec> DefaultRows(std::int64_t max_positions);

}  // namespace fathom::measure::bench
