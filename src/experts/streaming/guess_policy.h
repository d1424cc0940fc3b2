// GuessPolicy: decides whether guessed experts of the next layer are read ahead.
//
// Published measurements of such guesses range from +5 % to -5 %: they pay only while the disk is
// idle and most of them are used. So guesses are first counted without being read, and stop when
// they do not pay.
#pragma once

#include <cstdint>
#include <string_view>

namespace fathom::experts {

enum class GuessMode : std::uint8_t { kAuto, kOff, kOn };

// Names of the modes for options.
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
  // Tokens of decoding steps after which a state is evaluated.
  static constexpr std::int64_t kWindowTokens = 64;
  static constexpr std::int64_t kRestTokens = 1024;
  static constexpr double kLeastIdleShare = 0.15;   // share of step time without reads
  static constexpr double kLeastUsefulShare = 0.6;  // share of guesses that the layer needed

  explicit GuessPolicy(GuessMode mode);

  GuessState state() const { return state_; }
  bool Computes() const { return state_ == GuessState::kShadow || state_ == GuessState::kOn; }
  // Returns true if EndStep changes anything.
  bool NeedsTimes() const { return mode_ == GuessMode::kAuto; }
  bool Reads() const { return state_ == GuessState::kOn; }

  // Counts guesses of experts that were not in memory, and how many of them the layer needed.
  void Count(std::int64_t n_guesses, std::int64_t n_useful);
  // Ends a decoding step of n_tokens tokens, which took `seconds`; during `busy_seconds` of them
  // the disk had a read in flight.
  void EndStep(std::int64_t n_tokens, double seconds, double busy_seconds);

 private:
  struct Window {
    std::int64_t tokens = 0, guesses = 0, useful = 0;
    double seconds = 0, busy_seconds = 0;
  };
  bool Pays() const;

  GuessMode mode_;
  GuessState state_;
  Window window_;  // counts since the last evaluation
};

}  // namespace fathom::experts
