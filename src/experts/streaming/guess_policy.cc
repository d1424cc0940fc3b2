#include "experts/streaming/guess_policy.h"

namespace fathom::experts {
namespace {

// The first state by mode: auto, off, on.
constexpr GuessState kFirstStates[] = {GuessState::kShadow, GuessState::kOff, GuessState::kOn};

}  // namespace

GuessPolicy::GuessPolicy(GuessMode mode)
    : mode_(mode), state_(kFirstStates[static_cast<std::size_t>(mode)]) {}

void GuessPolicy::Count(std::int64_t n_guesses, std::int64_t n_useful) {
  window_.guesses += n_guesses;
  window_.useful += n_useful;
}

// Without guesses all experts were in memory, and there is nothing to gain.
bool GuessPolicy::Pays() const {
  const double idle = window_.seconds - window_.busy_seconds;
  return window_.guesses > 0 &&
         static_cast<double>(window_.useful) >=
             kLeastUsefulShare * static_cast<double>(window_.guesses) &&
         idle >= kLeastIdleShare * window_.seconds;
}

void GuessPolicy::EndStep(std::int64_t n_tokens, double seconds, double busy_seconds) {
  if (mode_ != GuessMode::kAuto) return;
  window_.tokens += n_tokens;
  window_.seconds += seconds;
  window_.busy_seconds += busy_seconds;
  const bool rests = state_ == GuessState::kRest;
  if (window_.tokens < (rests ? kRestTokens : kWindowTokens)) return;
  if (rests) {
    state_ = GuessState::kShadow;
  } else {
    state_ = Pays() ? GuessState::kOn : GuessState::kRest;
  }
  window_ = {};
}

}  // namespace fathom::experts
