#include "constraint/slice_search.h"

#include <algorithm>

#include "constraint/automaton.h"
#include "constraint/expression_impl.h"

namespace fathom {
namespace {

constexpr std::size_t kMaxSlicePairs = 512;  // visited in one search
constexpr std::uint8_t kAnyLength = 255;

// The modes of SliceSearch: what must follow before the code point is whole (Unicode, table 3-7).
enum SliceMode : int {
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

// A state within a code point.
struct SliceVisit {
  StateId state = 0;
  std::uint8_t mode = kWhole;
};

std::uint64_t PairKey(StateId state, int mode) {
  return std::uint64_t{state} << 8 | static_cast<std::uint64_t>(mode);
}

}  // namespace

SliceSearch::SliceSearch(const std::array<std::uint8_t, 256>& classes) {
  AddSteps(kWhole, 0x20, 0x21, kWhole, classes);
  AddSteps(kWhole, 0x23, 0x3B, kWhole, classes);
  AddSteps(kWhole, 0x3D, 0x5B, kWhole, classes);
  AddSteps(kWhole, 0x5D, 0x7F, kWhole, classes);
  AddSteps(kWhole, 0xC2, 0xDF, kOneMore, classes);
  AddSteps(kWhole, 0xE0, 0xE0, kAfterE0, classes);
  AddSteps(kWhole, 0xE1, 0xEC, kTwoMore, classes);
  AddSteps(kWhole, 0xED, 0xED, kAfterEd, classes);
  AddSteps(kWhole, 0xEE, 0xEE, kTwoMore, classes);
  AddSteps(kWhole, 0xEF, 0xEF, kAfterEf, classes);
  AddSteps(kWhole, 0xF0, 0xF0, kAfterF0, classes);
  AddSteps(kWhole, 0xF1, 0xF3, kThreeMore, classes);
  AddSteps(kWhole, 0xF4, 0xF4, kAfterF4, classes);
  AddSteps(kOneMore, 0x80, 0xBF, kWhole, classes);
  AddSteps(kTwoMore, 0x80, 0xBF, kOneMore, classes);
  AddSteps(kThreeMore, 0x80, 0xBF, kTwoMore, classes);
  AddSteps(kAfterE0, 0xA0, 0xBF, kOneMore, classes);
  AddSteps(kAfterEd, 0x80, 0x9F, kOneMore, classes);
  AddSteps(kAfterF0, 0x90, 0xBF, kTwoMore, classes);
  AddSteps(kAfterF4, 0x80, 0x8F, kTwoMore, classes);
  // All but U+FF5C, which is EF BD 9C.
  AddSteps(kAfterEf, 0x80, 0xBC, kOneMore, classes);
  AddSteps(kAfterEf, 0xBD, 0xBD, kAfterEfBd, classes);
  AddSteps(kAfterEf, 0xBE, 0xBF, kOneMore, classes);
  AddSteps(kAfterEfBd, 0x80, 0x9B, kWhole, classes);
  AddSteps(kAfterEfBd, 0x9D, 0xBF, kWhole, classes);
}

void SliceSearch::AddSteps(int mode, unsigned first, unsigned last, int next_mode,
                           const std::array<std::uint8_t, 256>& classes) {
  std::vector<Step>& steps = steps_[static_cast<std::size_t>(mode)];
  for (unsigned byte = first; byte <= last; ++byte) {
    const bool known = std::ranges::any_of(steps, [&](const Step& step) {
      return classes[step.byte] == classes[byte] && step.mode == next_mode;
    });
    if (known) continue;
    steps.push_back({static_cast<std::uint8_t>(byte), static_cast<std::uint8_t>(next_mode)});
  }
}

SliceSearch::Known& SliceSearch::At(std::uint32_t state) {
  if (state >= known_.size()) known_.resize(std::max<std::size_t>(state + 1, 2 * known_.size()));
  return known_[state];
}

std::size_t SliceSearch::memory() const { return known_.capacity() * sizeof(Known); }

bool SliceSearch::Takes(Automaton& automaton, std::uint32_t state, int code_points) {
  const Known known = At(state);
  if (known.takes >= code_points) return true;
  if (known.refuses <= code_points) return false;
  const bool takes = Search(automaton, state, code_points);
  Known& at = At(state);
  const auto length = static_cast<std::uint8_t>(std::min(code_points, kAnyLength - 1));
  if (takes) {
    at.takes = std::max(at.takes, length);
  } else {
    at.refuses = std::min(at.refuses, length);
  }
  return takes;
}

bool SliceSearch::Search(Automaton& automaton, std::uint32_t state, int code_points) {
  std::vector<StateId> whole = {state};  // states that were found behind whole code points
  IdMap seen;
  seen.Set(PairKey(state, kWhole), 0);
  bool closed = true;  // nothing was left out because of the length
  std::size_t level_end = 0;
  for (int depth = 0; depth < code_points && level_end < whole.size(); ++depth) {
    std::size_t at = level_end;
    level_end = whole.size();
    for (; at < level_end; ++at) {
      const std::uint8_t known = At(whole[at]).takes;
      if (known >= code_points - depth) {
        closed &= known == kAnyLength;
        continue;
      }
      std::vector<SliceVisit> within = {{.state = whole[at]}};
      while (!within.empty()) {
        const SliceVisit from = within.back();
        within.pop_back();
        for (const Step step : steps_[from.mode]) {
          const StateId next = automaton.Next(from.state, step.byte);
          if (next == kDeadState) return false;
          const std::uint64_t key = PairKey(next, step.mode);
          if (seen.Find(key) != IdMap::kNone) continue;
          if (seen.size() == kMaxSlicePairs) return false;
          seen.Set(key, 0);
          if (step.mode == kWhole) {
            whole.push_back(next);
          } else {
            within.push_back({next, step.mode});
          }
        }
      }
    }
  }
  if (automaton.exhausted()) return false;
  if (closed && level_end == whole.size()) {
    for (const StateId of : whole) At(of).takes = kAnyLength;
  }
  return true;
}

}  // namespace fathom
