// RowSpec: what one row of a benchmark measures, and how it is written.
//
//   ppN       prefill of N tokens
//   tgN       decoding of N tokens, one by one
//   ...@D     with D tokens already in the cache
//   tg...xB   decoding with B sequences at once, each of N tokens (and D in its cache)
//
// For example pp512, tg128, tg128@16384, pp512@4096, tg128x4, tg128@4096x4.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fathom::benchmark {

struct RowSpec {
  enum class Kind { kPrefill, kDecode };

  Kind kind = Kind::kDecode;
  std::int64_t n_tokens = 0;     // of every sequence, >= 1
  std::int64_t depth = 0;        // tokens of every sequence that are there before
  std::int64_t n_sequences = 1;  // 1 where kind is kPrefill

  // Positions that a sequence needs.
  std::int64_t n_positions() const { return depth + n_tokens; }
  // Tokens that are computed.
  std::int64_t n_total() const { return n_tokens * n_sequences; }
  friend bool operator==(const RowSpec&, const RowSpec&) = default;
};

inline constexpr std::int64_t kMaxSequences = 256;

// The name of a row, as above.
std::string Name(const RowSpec& row);

// The inverse. The error quotes the name and says what may be written.
Result<RowSpec> ParseRow(std::string_view name);
// Names separated by commas, at least one. The order is kept; a row may be named once.
Result<std::vector<RowSpec>> ParseRows(std::string_view names);

// Each row must fit a model of that many positions; the error names the first that does not.
Status CheckRows(const std::vector<RowSpec>& rows, std::int64_t max_positions);

// pp512 pp2048 tg128 tg128@4096 tg128@16384 tg128@65536 tg128x2 tg128x4 tg128x8: those of them that
// fit, at least tg1.
std::vector<RowSpec> DefaultRows(std::int64_t max_positions);

}  // namespace fathom::benchmark
