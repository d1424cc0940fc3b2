#include "engine/simulated_acceptance.h"

#include <cmath>
#include <cstddef>

#include "sampling/philox.h"

namespace fathom::engine {
namespace {

// In each block of drafts at one index, the rate is exact to less than one draft. Small enough that
// a short answer has the rate, too; larger than the number of drafts that a program tries at its
// start.
constexpr std::int64_t kBlock = 20;

// Returns a random number in [0, 1) for the n-th draft at an index.
double RandomShare(std::int64_t index, std::int64_t n) {
  const std::uint32_t bits =
      Philox({0, 0}, {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(n), 0, 0})[0];
  return static_cast<double>(bits) * 0x1p-32;
}

}  // namespace

// Decides in random order, with as many right drafts in each block as the rate demands (Knuth, The
// Art of Computer Programming 2, 3.4.2, algorithm S).
bool SimulatedAcceptance::Decide(std::int64_t index) {
  const auto i = static_cast<std::size_t>(index);
  if (i >= verified_.size()) verified_.resize(i + 1);
  auto& [n, n_right] = verified_[i];
  const std::int64_t block_end = (n / kBlock + 1) * kBlock;
  const auto right_left =
      static_cast<double>(std::llround(rate_ * static_cast<double>(block_end)) - n_right);
  const bool is_right = RandomShare(index, n) * static_cast<double>(block_end - n) < right_left;
  ++n;
  n_right += is_right ? 1 : 0;
  return is_right;
}

TokenChoice SimulatedAcceptance::Verify(std::int64_t index, Token draft,
                                        const TokenChoice& choice) {
  const bool is_right = Decide(index);
  if ((choice.token == draft) == is_right) return choice;
  return {.token = is_right ? draft : (draft + 1) % static_cast<Token>(vocab_size_)};
}

}  // namespace fathom::engine
