// GuessPolicy: decides whether guessed experts of the next layer are read ahead.
//
// Published measurements of such guesses reach from +5 % to -5 %: they pay only while the disk is
// idle and most of them are used. So they are counted without a read first, and stop when they do
// not pay.
#pragma once

#include <cstdint>
#include <string_view>

namespace fathom {

enum class GuessMode : std::uint8_t { kAuto, kOff, kOn };

// For options.
inline constexpr std::string_view kGuessModeNames[] = {"auto", "off", "on"};

enum class GuessState : std::uint8_t {
  kOff,     // nothing is computed, for good
  kShadow,  // guesses are computed and counted, not read
  kOn,      // guesses are read
  kRest,    // nothing is computed for a while
};

// One thread at a time.
class GuessPolicy {
 public:
  // Tokens of decoding steps after which a state is judged.
  static constexpr std::int64_t kWindowTokens = 64;
  static constexpr std::int64_t kRestTokens = 1024;
  static constexpr double kLeastIdleShare = 0.15;   // of the time of steps, no read in flight
  static constexpr double kLeastUsefulShare = 0.6;  // of guesses, experts that were needed

  explicit GuessPolicy(GuessMode mode);

  GuessState state() const { return state_; }
  bool Computes() const { return state_ == GuessState::kShadow || state_ == GuessState::kOn; }
  // Whether EndStep changes anything.
  bool NeedsTimes() const { return mode_ == GuessMode::kAuto; }
  bool Reads() const { return state_ == GuessState::kOn; }

  // Counts guesses of experts that were not in memory, and how many of them the layer needed.
  void Count(std::int64_t n_guesses, std::int64_t n_useful);
  // Ends a decoding step of so many tokens, which took `seconds`; in `busy_seconds` of them the
  // disk had a read in flight.
  void EndStep(std::int64_t n_tokens, double seconds, double busy_seconds);

 private:
  struct Window {
    std::int64_t tokens = 0, guesses = 0, useful = 0;
    double seconds = 0, busy_seconds = 0;
  };
  bool Pays() const;

  GuessMode mode_;
  GuessState state_;
  Window window_;  // since the state was last judged
};

}  // namespace fathom
