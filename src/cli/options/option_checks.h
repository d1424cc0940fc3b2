// What the value of an option may be. Each refusal says what is allowed and what was found; the
// checks that come with the parser let NaN pass and do not say what they found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor.h"

namespace CLI {
class Validator;
}

namespace fathom::cli {

CLI::Validator OneOf(std::vector<std::string> allowed);

// A whole number from low to high.
CLI::Validator Integer(std::int64_t low, std::int64_t high);
CLI::Validator AtLeast(std::int64_t low);
// A whole number of 64 bits without a sign.
CLI::Validator Seed();

// A number from low to high; above low and at most high.
CLI::Validator Number(double low, double high);
CLI::Validator NumberAbove(double low, double high);

// Bytes: a whole number of at least 1, with K, M, G or T behind it for powers of 1024.
CLI::Validator MemorySize();
// What MemorySize has accepted.
std::int64_t MemorySizeOf(const std::string& text);

// off, auto or 1 to 4
CLI::Validator DraftDepth();
// What DraftDepth has accepted: 0 for off, none for auto.
std::optional<std::int64_t> DraftDepthOf(const std::string& text);

// Rows of a benchmark, separated by commas (measure/bench/row_spec.h).
CLI::Validator BenchRows();

// ID=VALUE
CLI::Validator LogitBias();
// What LogitBias has accepted.
std::pair<Token, float> LogitBiasOf(const std::string& text);

// Compression ratios separated by commas.
CLI::Validator Ratios();
// What Ratios has accepted.
std::vector<int> RatiosOf(const std::string& text);

// Numbers of processors and ranges of them, each once: 0-3,8
CLI::Validator Processors();
// What Processors has accepted, in its order.
std::vector<int> ProcessorsOf(const std::string& text);

}  // namespace fathom::cli
