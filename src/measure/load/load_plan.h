// LoadPlan: the arrival times of requests, their prompts and lengths.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "measure/load/random_stream.h"

namespace fathom::load {

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

// The gaps between arrivals of an open loop: constant; exponential, as with independent users;
// gamma-distributed with a shape (below 1: in bursts, above 1: more even).
enum class ArrivalKind { kConstant, kPoisson, kGamma };

struct Arrival {
  ArrivalKind kind = ArrivalKind::kPoisson;
  double shape = 1;  // kGamma
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

}  // namespace fathom::load
