// LoadPlan: the arrival times of requests, their prompts and lengths.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace fathom::measure::load {

// The purpose of a stream: streams of one seed with different purpose or index are independent.
enum class RandomPurpose : std::uint32_t { kArrivals, kPrefix, kRequest };

// Random numbers for a load, equal on every machine for one seed.
//
// The standard specifies the numbers of mt19937_64 but not the numbers of its distributions, so
// this class has its own distributions. One thread.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, RandomPurpose purpose, std::uint64_t index) {
    std::seed_seq words = {Low(seed), High(seed), static_cast<std::uint32_t>(purpose), Low(index),
                           High(index)};
    engine_.seed(words);
  }

  // Draws from the open interval (0, 1).
  double Uniform() { return (static_cast<double>(engine_() >> 12) + 0.5) * 0x1p-52; }

  // Draws from [low, high]. The bias is below 2^-32 for ranges below 2^32.
  std::int64_t Integer(std::int64_t low, std::int64_t high) {
    const std::uint64_t n = static_cast<std::uint64_t>(high - low) + 1;
    return low + static_cast<std::int64_t>(engine_() % n);
  }

  // Draws with mean 0 and deviation 1 (Box and Muller).
  double Normal() {
    const double radius = std::sqrt(-2 * std::log(Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }

  // Draws with mean 1; shape 1 is the exponential distribution. Marsaglia and Tsang, "A simple
  // method for generating gamma variables", 2000; a shape below 1 is drawn with shape + 1 and
  // multiplied by u^(1/shape).
  double Gamma(double shape) {
    if (shape < 1) return Gamma(shape + 1) * (shape + 1) / shape * std::pow(Uniform(), 1 / shape);
    const double d = shape - 1.0 / 3;
    const double c = 1 / std::sqrt(9 * d);
    for (;;) {
      const double x = Normal();
      const double root = 1 + c * x;
      const double v = root * root * root;
      if (v > 0 && std::log(Uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) {
        return d * v / shape;
      }
    }
  }

 private:
  static std::uint32_t Low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
  static std::uint32_t High(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

  std::mt19937_64 engine_;
};

inline constexpr std::int64_t kMaxTokens = std::int64_t{1} << 22;

// The number of tokens of a prompt or an answer.
struct Length {
  enum class Kind { kFixed, kUniform, kLogNormal };

  Kind kind = Kind::kFixed;
  std::int64_t low = 1;   // kFixed: the length; kUniform: the minimum
  std::int64_t high = 1;  // kUniform: the maximum
  double mean = 1;        // kLogNormal: mean of the lengths, before they are rounded and limited
  double sigma = 0;       // kLogNormal: standard deviation of the lengths' logarithm

  // Draws a length of 1 to kMaxTokens.
  std::int64_t Draw(RandomStream& random) const;
};

// Parses N, uniform:LOW:HIGH or lognormal:MEAN:SIGMA.
Result<Length> ParseLength(std::string_view text);

// The gaps between arrivals of an open loop: constant, or gamma-distributed with a shape (1:
// exponential, as with independent users; below 1: in bursts; above 1: more even).
struct Arrival {
  std::optional<double> shape = 1;  // none: constant
};
// Parses constant, poisson or gamma:SHAPE, with a shape from 0.01 to 1000.
Result<Arrival> ParseArrival(std::string_view text);

// One point of a sweep. A closed loop keeps `concurrency` requests running: the next begins when
// one ends. An open loop begins `rate` conversations a second, independently of the server.
struct LoadLevel {
  std::optional<double> rate;  // per second; none: a closed loop
  int concurrency = 1;         // closed loop
  Arrival arrival{};

  // Returns "8 at once" or "0.5 req/s".
  std::string Name() const;
};

// Draws the seconds from the start of an open level to its arrivals, one after another. One thread.
class ArrivalTimes {
 public:
  ArrivalTimes(const LoadLevel& level, std::uint64_t seed)
      : level_(level), random_(seed, RandomPurpose::kArrivals, 0) {}

  // The first call returns 0.
  double Next();

 private:
  const LoadLevel level_;
  RandomStream random_;
  bool has_begun_ = false;
  double time_ = 0;
};

struct WorkloadOptions {
  Length input{.low = 512};        // tokens of each turn's prompt, without the shared prefix
  Length output{.low = 128};       // tokens of an answer
  std::int64_t shared_prefix = 0;  // tokens at the start of the prompt, equal within a group
  std::int64_t n_groups = 1;       // conversations are assigned to groups in turn
  std::int64_t n_turns = 1;        // requests of one conversation
  std::int64_t vocab_size = 1024;  // tokens are drawn from [kFirstToken, vocab_size)
  std::uint64_t seed = 0;
};

// Lower tokens begin and end a text, or pad it.
inline constexpr Token kFirstToken = 3;

struct Turn {
  std::vector<Token> tokens;  // includes the shared prefix in the first turn
  std::int64_t n_output = 1;
};

// Makes a conversation that depends only on options and index. Any thread.
std::vector<Turn> MakeConversation(const WorkloadOptions& options, std::int64_t index);

// Returns one English word per token, each about one token of a model, for APIs that accept no
// token ids.
std::string FormatWords(const std::vector<Token>& tokens);

}  // namespace fathom::measure::load
