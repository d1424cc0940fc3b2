// SliceSearch: whether a state of an automaton takes every text of a slice of the vocabulary
// (docs/spec/constrained.md 3.3), by a search of the states behind whole code points.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fathom {

class Automaton;

class SliceSearch {
 public:
  // `classes` of the automaton's bytes.
  explicit SliceSearch(const std::array<std::uint8_t, 256>& classes);

  // True if any sequence of at most `code_points` code points other than ", \, <, U+FF5C and
  // U+0000 ... U+001F may come next. False also where the search would be long.
  bool Takes(Automaton& automaton, std::uint32_t state, int code_points);

  std::size_t memory() const;

 private:
  // Within a code point: what must follow.
  static constexpr int kModes = 10;
  // A byte that stands for all of its class here, and the mode behind it.
  struct Step {
    std::uint8_t byte = 0;
    std::uint8_t mode = 0;
  };
  // The answers that are known for a state.
  struct Known {
    std::uint8_t takes = 0;      // sequences up to this length; 255: of any length
    std::uint8_t refuses = 255;  // some sequence of this length
  };
  bool Search(Automaton& automaton, std::uint32_t state, int code_points);
  void AddSteps(int mode, unsigned first, unsigned last, int next_mode,
                const std::array<std::uint8_t, 256>& classes);
  Known& At(std::uint32_t state);

  std::array<std::vector<Step>, kModes> steps_;
  std::vector<Known> known_;  // by state
};

}  // namespace fathom
