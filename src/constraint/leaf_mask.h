// LeafMask: what a leaf reads of the vocabulary within its rule, whatever the frames are. Masks of
// states are put together from it (docs/spec/constrained.md 3.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "constraint/matcher.h"
#include "constraint/matcher_state.h"
#include "constraint/vocabulary.h"

namespace fathom {

// Where texts leave a rule: at nodes of the trie at which the rule may end, or, without `ends`, at
// which the rule is in a state with the edges of `state`. The leaf itself is no such place: what
// may come instead of it are other leaves.
struct LeafExit {
  // Nodes that are read behind an exit, all by one byte.
  struct Next {
    std::uint8_t byte = 0;
    std::vector<std::uint32_t> nodes;
  };
  bool ends = false;
  StateId state = kDeadState;
  // Exits with tokens, which may come only if something may follow the rule.
  std::vector<std::uint32_t> nodes;
  // The nodes below exits, by ascending bytes, but for those all tokens below which may come within
  // the rule.
  std::vector<Next> next;
};

struct LeafMask {
  // The tokens behind which the rule goes on: few as a list, or many as a set.
  std::vector<Token> few;
  std::unique_ptr<TokenSet> many;
  std::vector<LeafExit> exits;
  // True if exits within plain texts (token_trie.h) are left out, since so many texts are.
  bool lacks_plain_exits = false;
  std::size_t steps = 0;  // what the mask stands for, in steps of the matcher
  std::size_t memory() const;
};

// The masks of leaves, made when they are first asked for. One thread at a time. `matcher` and
// `vocabulary` must outlive this object.
class LeafMasks {
 public:
  // max_memory: bytes of masks that are kept.
  LeafMasks(Matcher& matcher, const VocabularyTables& vocabulary, std::size_t max_memory)
      : matcher_(matcher), vocabulary_(vocabulary), max_memory_(max_memory) {}

  // The mask of a leaf. needs_all: without lacks_plain_exits. Pure, but for the time.
  std::shared_ptr<const LeafMask> Find(const Leaf& leaf, bool needs_all);
  std::size_t memory() const { return memory_; }

 private:
  Matcher& matcher_;
  const VocabularyTables& vocabulary_;
  const std::size_t max_memory_;
  std::size_t memory_ = 0;
  std::unordered_map<std::uint64_t, std::shared_ptr<const LeafMask>> masks_;  // by what is read
};

}  // namespace fathom
