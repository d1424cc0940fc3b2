#include "constraint/grammar/kind_search.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "constraint/grammar/automaton.h"
#include "constraint/lists.h"

namespace fathom::constraint {
namespace {

constexpr std::size_t kMaxSearchedStates = 512;  // states that one attempt may search
constexpr int kMaxAttempts = 16;

// The modes of KindSearch: what must follow before the character is whole (Unicode, table 3-7).
enum CharacterMode : int {
  kWhole,
  kOneMore,
  kTwoMore,
  kThreeMore,
  kAfterE0,
  kAfterEd,
  kAfterF0,
  kAfterF4,
  kAfterEf,
  kAfterEfBd,
};

// Bytes that may come in a mode, and the mode after them.
struct ModeStep {
  CharacterMode mode;
  unsigned first, last;
  CharacterMode next;
};
constexpr ModeStep kModeSteps[] = {
    {kOneMore, 0x80, 0xBF, kWhole},
    {kTwoMore, 0x80, 0xBF, kOneMore},
    {kThreeMore, 0x80, 0xBF, kTwoMore},
    {kAfterE0, 0xA0, 0xBF, kOneMore},
    {kAfterEd, 0x80, 0x9F, kOneMore},
    {kAfterF0, 0x90, 0xBF, kTwoMore},
    {kAfterF4, 0x80, 0x8F, kTwoMore},
    // All but U+FF5C, which is EF BD 9C.
    {kAfterEf, 0x80, 0xBC, kOneMore},
    {kAfterEf, 0xBD, 0xBD, kAfterEfBd},
    {kAfterEf, 0xBE, 0xBF, kOneMore},
    {kAfterEfBd, 0x80, 0x9B, kWhole},
    {kAfterEfBd, 0x9D, 0xBF, kWhole},
};

// The mode after the first byte of a plain character.
int ModeAfter(unsigned first) {
  constexpr std::pair<unsigned, CharacterMode> kFirst[] = {
      {0xE0, kAfterE0}, {0xED, kAfterEd}, {0xEF, kAfterEf}, {0xF0, kAfterF0}, {0xF4, kAfterF4}};
  for (const auto& [byte, mode] : kFirst) {
    if (first == byte) return mode;
  }
  if (first < 0xE0) return first < 0xC2 ? kWhole : kOneMore;
  return first < 0xF0 ? kTwoMore : kThreeMore;
}

}  // namespace

KindSearch::KindSearch(const std::array<std::uint8_t, 256>& classes) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (kCharacterClasses[byte] == kNotPlainKind) continue;
    AddStep(first_steps_[kCharacterClasses[byte]], byte, ModeAfter(byte), classes);
  }
  for (const ModeStep& step : kModeSteps) {
    for (unsigned byte = step.first; byte <= step.last; ++byte) {
      AddStep(steps_[static_cast<std::size_t>(step.mode)], byte, step.next, classes);
    }
  }
}

void KindSearch::AddStep(std::vector<Step>& steps, unsigned byte, int next_mode,
                         const std::array<std::uint8_t, 256>& classes) {
  const bool is_known = std::ranges::any_of(steps, [&](const Step& step) {
    return classes[step.byte] == classes[byte] && step.mode == next_mode;
  });
  if (is_known) return;
  steps.push_back({static_cast<std::uint8_t>(byte), static_cast<std::uint8_t>(next_mode)});
}

void KindSearch::Keep(std::uint32_t state, CharacterClasses kinds) {
  if (state >= known_.size()) {
    known_.resize(std::max<std::size_t>(state + 1, 2 * known_.size()), kUnknown);
  }
  known_[state] = kinds;
}

bool KindSearch::SetSeen(std::uint32_t state) {
  if (state >= seen_in_.size()) {
    seen_in_.resize(std::max<std::size_t>(state + 1, 2 * seen_in_.size()));
  }
  return std::exchange(seen_in_[state], attempt_) != attempt_;
}

CharacterClasses KindSearch::Find(Automaton& automaton, std::uint32_t state) {
  CharacterClasses kinds = Known(state);
  if (kinds == kUnknown) {
    // Where characters may come in any number, they still may after finitely many texts are
    // excluded (over_approximate.cc).
    const StateId loose = automaton.OverApproximated(state);
    if (loose != state) {
      Find(automaton, loose);
      kinds = Known(loose);
    }
    if (kinds == kUnknown || (kinds & kEndless) == 0) kinds = Search(automaton, state);
    Keep(state, kinds);
  }
  return kinds & kAllCharacterClasses;
}

// Begins with the kinds that may come next. Where a later state refuses some of them, the search
// drops either the refused kinds or the kind that leads to the state, and begins again.
CharacterClasses KindSearch::Search(Automaton& automaton, std::uint32_t state) {
  CharacterClasses kinds = 0;
  for (int kind = 0; kind < kCharacterClassCount; ++kind) {
    if (Follow(automaton, state, kind)) kinds |= CharacterClasses{1} << kind;
  }
  for (int attempt = 0; attempt < kMaxAttempts && kinds != 0; ++attempt) {
    switch (Try(automaton, state, kinds)) {
      case Outcome::kHolds:
        return kinds;
      case Outcome::kHoldsEndlessly:
        return kinds | kEndless;
      case Outcome::kFails:
        continue;
      case Outcome::kIsLong:
        return 0;
    }
  }
  return 0;
}

KindSearch::Outcome KindSearch::Try(Automaton& automaton, std::uint32_t state,
                                    CharacterClasses& kinds) {
  std::vector<Found> whole = {{.state = state, .kind = -1}};
  ++attempt_;
  SetSeen(state);
  std::size_t level_end = 0;
  // One level more than a text has characters: the last state of the text must take bytes, too.
  for (int depth = 0; depth <= kLargestSlice && level_end < whole.size(); ++depth) {
    std::size_t at = level_end;
    level_end = whole.size();
    for (; at < level_end; ++at) {
      const Found from = whole[at];
      CharacterClasses refused = 0;
      for (int kind = 0; kind < kCharacterClassCount; ++kind) {
        if ((kinds >> kind & 1) == 0) continue;
        if (!Follow(automaton, from.state, kind)) {
          refused |= CharacterClasses{1} << kind;
          continue;
        }
        for (const std::uint32_t next : found_) {
          if (!SetSeen(next)) continue;
          if (whole.size() == kMaxSearchedStates) return Outcome::kIsLong;
          whole.push_back({next, kind});
        }
      }
      if (automaton.exhausted()) return Outcome::kIsLong;
      if (refused == 0) continue;
      const bool is_most = 2 * std::popcount(refused) > std::popcount(kinds);
      kinds &= ~(is_most && from.kind >= 0 ? CharacterClasses{1} << from.kind : refused);
      return Outcome::kFails;
    }
  }
  if (level_end != whole.size()) return Outcome::kHolds;
  if (kinds == kAllCharacterClasses) {
    for (const Found& found : whole) Keep(found.state, kinds | kEndless);
  }
  return Outcome::kHoldsEndlessly;
}

// True if every character of the kind may come; found_ then has the states after these characters.
bool KindSearch::Follow(Automaton& automaton, std::uint32_t state, int kind) {
  automaton.meter().Spend(1);
  found_.clear();
  within_.clear();
  const auto take = [&](StateId from, const Step& step) {
    const StateId next = automaton.Next(from, step.byte);
    if (next == kDeadState) return false;
    if (step.mode == kWhole) {
      AddNew(found_, next);
    } else {
      AddNew(within_, {.state = next, .mode = step.mode});
    }
    return true;
  };
  for (const Step& step : first_steps_[static_cast<std::size_t>(kind)]) {
    if (!take(state, step)) return false;
  }
  for (std::size_t i = 0; i < within_.size(); ++i) {
    const CharacterPlace from = within_[i];
    for (const Step& step : steps_[from.mode]) {
      if (!take(from.state, step)) return false;
    }
  }
  return true;
}

}  // namespace fathom::constraint
