// LeafReader: finds the tokens that a leaf of a state may read, within its rule and beyond.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "constraint/grammar/matcher.h"
#include "constraint/grammar/matcher_state.h"
#include "constraint/masks/leaf_mask.h"
#include "constraint/masks/trie_walk.h"
#include "constraint/masks/vocabulary.h"

namespace fathom::constraint {

// One thread at a time. `matcher` and `vocabulary` must outlive this object. The matcher records
// frames while leaves are read.
class LeafReader {
 public:
  // max_memory: bytes of masks of leaves that are kept.
  LeafReader(Matcher& matcher, const ConstraintVocabulary& vocabulary, std::size_t max_memory);

  // Adds the tokens whose texts may follow a leaf. Matcher::TooComplex may be true afterwards.
  void Read(const Leaf& leaf, TokenSet& tokens);
  // True if texts of unique calls that ended within tokens were read since the last call of this
  // function.
  bool TakeReadsTexts() { return std::exchange(reads_texts_, false); }
  std::size_t memory() const { return masks_.memory(); }

 private:
  void FindParts(const Leaf& leaf);
  bool IsInPart(std::uint32_t node) const;
  void AddWithin(const LeafMask& mask, TokenSet& tokens);
  bool MayNeedPlainExits(const Leaf& leaf);
  void ReadParts(const Leaf& leaf, TokenSet& tokens);
  bool FindExit(const LeafExit& exit);
  void ReadExit(const Leaf& leaf, const LeafExit& exit, TokenSet& tokens);
  bool ReadNext(const LeafExit::Next& next, TokenSet& tokens);
  void ReadNextWithTexts(const Leaf& leaf, const LeafExit& exit, const LeafExit::Next& next,
                         TokenSet& tokens);
  void ReadNode(const MatcherState& state, std::uint32_t node, TokenSet& tokens);

  Matcher& matcher_;
  const ConstraintVocabulary& vocabulary_;
  const TokenTrie& trie_;
  LeafMasks masks_;
  TrieWalk walk_;
  bool reads_texts_ = false;
  // Roots of the trie below which earlier texts of unique calls matter for the leaf: the texts
  // there are read byte by byte.
  std::vector<std::uint32_t> parts_;
  MatcherState behind_;  // the state after an exit
  MatcherState next_;    // the state after an exit and a byte
  std::vector<std::uint8_t> bytes_;
  TokenSet scratch_;
};

}  // namespace fathom::constraint
