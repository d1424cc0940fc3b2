// KindSearch: finds the kinds of characters that a state of an automaton accepts in any order and
// number, by a search of the states after whole characters (docs/spec/constrained.md 3.3).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "constraint/grammar/character_classes.h"

namespace fathom::constraint {

class Automaton;

class KindSearch {
 public:
  // `classes`: the classes of the automaton's bytes.
  explicit KindSearch(const std::array<std::uint8_t, 256>& classes);

  // Returns kinds such that every text of at most kLargestSlice of their characters may come next,
  // and further bytes after it. There may be more such kinds where the search would be long.
  CharacterClasses Find(Automaton& automaton, std::uint32_t state);

 private:
  // A mode says which bytes must follow within a character (CharacterMode in kind_search.cc).
  static constexpr int kModes = 10;
  // A byte that stands for all bytes of its class here, and the mode after it.
  struct Step {
    std::uint8_t byte = 0;
    std::uint8_t mode = 0;
  };
  // A state within a character, and the mode there.
  struct CharacterPlace {
    std::uint32_t state = 0;
    std::uint8_t mode = 0;
    friend bool operator==(const CharacterPlace&, const CharacterPlace&) = default;
  };
  // A state after whole characters, and the kind of the last one.
  struct Found {
    std::uint32_t state = 0;
    int kind = 0;
  };
  // In known_: the kinds may come in any number.
  static constexpr CharacterClasses kEndless = CharacterClasses{1} << (kNotPlainKind - 1);
  static constexpr CharacterClasses kUnknown = kNotPlain;
  static_assert(kCharacterClassCount < kNotPlainKind - 1);

  CharacterClasses Known(std::uint32_t state) const {
    return state < known_.size() ? known_[state] : kUnknown;
  }
  void Keep(std::uint32_t state, CharacterClasses kinds);
  // False if the current attempt has seen the state before.
  bool SetSeen(std::uint32_t state);
  CharacterClasses Search(Automaton& automaton, std::uint32_t state);
  enum class Outcome { kHolds, kHoldsEndlessly, kFails, kIsLong };
  Outcome Try(Automaton& automaton, std::uint32_t state, CharacterClasses& kinds);
  bool Follow(Automaton& automaton, std::uint32_t state, int kind);
  static void AddStep(std::vector<Step>& steps, unsigned byte, int next_mode,
                      const std::array<std::uint8_t, 256>& classes);

  std::array<std::vector<Step>, kCharacterClassCount> first_steps_;  // by kind
  std::array<std::vector<Step>, kModes> steps_;                      // by mode
  std::vector<CharacterClasses> known_;                              // by state
  std::vector<std::uint32_t> seen_in_;  // by state: the last attempt that saw it
  std::uint32_t attempt_ = 0;           // the number of the last Try
  std::vector<CharacterPlace> within_;  // places that the last Follow reached
  std::vector<std::uint32_t> found_;    // states that the last Follow found
};

}  // namespace fathom::constraint
