// TrieWalk: finds the texts of a part of the vocabulary's trie that may come next, by reading them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "constraint/grammar/matcher.h"
#include "constraint/grammar/matcher_state.h"
#include "constraint/masks/token_trie.h"

namespace fathom::constraint {

// One thread at a time. `matcher` and `trie` must outlive the walk.
class TrieWalk {
 public:
  TrieWalk(Matcher& matcher, const TokenTrie& trie);

  // Adds the tokens of the nodes from `first` to the one before `end` that may come next. All these
  // nodes are below one node of depth `above`, or are roots (0); `state` is the state after that
  // node.
  void Run(const MatcherState& state, std::size_t first, std::size_t end, std::size_t above,
           TokenSet& tokens);
  // For tests: reads every text byte by byte with Matcher::Step.
  void set_is_plain(bool is_plain) { is_plain_ = is_plain; }

 private:
  // Places of the leaves of a state at or above a node, while all stay within their rules.
  static constexpr int kMaxPlaces = 8;
  static constexpr int kNotWithin = -1;
  struct Places {
    int size = kNotWithin;
    const MatcherState* state = nullptr;
    std::size_t base = 0;                       // the depth of the state
    std::array<std::uint8_t, kMaxPlaces> leaf;  // the number of the leaf
    std::array<Matcher::Place, kMaxPlaces> place;
  };

  void SetPlaces(const MatcherState& state, std::size_t depth);
  bool Read(const TrieNode& node);
  bool ReadWithin(const TrieNode& node);
  void MakeState(std::size_t depth);
  bool TakesAllBelow(std::size_t node);

  Matcher& matcher_;
  const TokenTrie& trie_;
  bool is_plain_ = false;
  const MatcherState* state_ = nullptr;
  std::size_t above_ = 0;
  // By depth: the states after the bytes up to there, as places while they are within their rules.
  std::vector<MatcherState> path_;
  std::vector<std::uint8_t> bytes_;
  std::vector<Places> places_;
};

}  // namespace fathom::constraint
