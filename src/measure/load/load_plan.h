// LoadPlan: when requests come, and what they ask.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "measure/load/length.h"
#include "measure/load/random_stream.h"

namespace fathom::load {

// Gaps between arrivals of an open loop: all the same; as of independent users; gamma-distributed
// with a shape (below 1: in bursts, above 1: more even).
enum class ArrivalKind { kConstant, kPoisson, kGamma };

struct Arrival {
  ArrivalKind kind = ArrivalKind::kPoisson;
  double shape = 1;  // kGamma
};
// constant, poisson or gamma:SHAPE, with a shape from 0.01 to 1000.
Result<Arrival> ParseArrival(std::string_view text);

// One point of a sweep. A closed loop keeps `concurrency` requests running, the next begins when
// one ends. An open loop begins `rate` conversations a second, whatever the server does.
struct LoadLevel {
  std::optional<double> rate;  // per second; none: a closed loop
  int concurrency = 1;         // closed loop
  Arrival arrival{};

  // "8 at once" or "0.5 req/s".
  std::string Name() const;
};

// Seconds from the start of a level to its arrivals, one after the other. One thread.
class ArrivalTimes {
 public:
  ArrivalTimes(const LoadLevel& level, std::uint64_t seed)
      : level_(level), random_(seed, RandomPurpose::kArrivals, 0) {}

  // 0 at first; of an open loop only.
  double Next();

 private:
  const LoadLevel level_;
  RandomStream random_;
  bool has_begun_ = false;
  double time_ = 0;
};

struct WorkloadOptions {
  Length input{.low = 512};        // tokens of the prompt behind the shared ones, of every turn
  Length output{.low = 128};       // tokens of an answer
  std::int64_t shared_prefix = 0;  // tokens at the start of the prompt, common to a group
  std::int64_t n_groups = 1;       // conversations take turns in belonging to them
  std::int64_t n_turns = 1;        // requests of one conversation
  std::int64_t vocab_size = 1024;  // tokens are drawn from kFirstToken to below it
  std::uint64_t seed = 0;
};

// The tokens before it begin and end a text, or fill it up.
inline constexpr Token kFirstToken = 3;

struct Turn {
  std::vector<Token> tokens;  // of the first turn: with the shared ones at the start
  std::int64_t n_output = 1;
};

// The same for the same options and index, whatever was asked before. Any thread.
std::vector<Turn> MakeConversation(const WorkloadOptions& options, std::int64_t index);

// As many English words as tokens, each about one token of a model: what is sent where an API
// takes no token ids.
std::string WordsOf(const std::vector<Token>& tokens);

}  // namespace fathom::load
