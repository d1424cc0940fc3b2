// LeafMask: the tokens that a leaf accepts within its rule, and the places where texts leave the
// rule, whatever the frames are. The masks of leaves make up the masks of states
// (docs/spec/constrained.md 3.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "constraint/grammar/matcher.h"
#include "constraint/grammar/matcher_state.h"
#include "constraint/masks/vocabulary.h"

namespace fathom::constraint {

// The nodes of the trie at which texts leave a rule: with `ends`, the rule may end there; without
// `ends`, the rule is in a state with the edges of `state` there. The leaf's own place is no exit:
// the matcher's state has other leaves for the texts that leave the rule there.
struct LeafExit {
  // Nodes below an exit, all reached by one byte.
  struct Next {
    std::uint8_t byte = 0;
    std::vector<std::uint32_t> nodes;
  };
  bool ends = false;
  StateId state = kDeadState;
  // Exits with tokens, which are allowed only if something may follow the rule.
  std::vector<std::uint32_t> nodes;
  // The nodes below exits, by ascending bytes. A node is left out if all tokens below it may come
  // within the rule.
  std::vector<Next> next;
};

struct LeafMask {
  // The tokens after which the rule goes on: few as a list, or many as a set.
  std::vector<Token> few;
  std::unique_ptr<TokenSet> many;
  std::vector<LeafExit> exits;
  // True if the exits within plain texts (token_trie.h) are left out, because most texts are plain.
  bool lacks_plain_exits = false;
  std::size_t steps = 0;  // the cost of the mask, in steps of the matcher
  std::size_t memory() const;
};

// The masks of leaves, made on first use. One thread at a time. `matcher` and `vocabulary` must
// outlive this object.
class LeafMasks {
 public:
  // max_memory: bytes of masks that are kept.
  LeafMasks(Matcher& matcher, const ConstraintVocabulary& vocabulary, std::size_t max_memory)
      : matcher_(matcher), vocabulary_(vocabulary), max_memory_(max_memory) {}

  // The mask of a leaf. needs_all: plain exits are not left out. Pure: caches change the time only.
  std::shared_ptr<const LeafMask> Find(const Leaf& leaf, bool needs_all);
  std::size_t memory() const { return memory_; }

 private:
  Matcher& matcher_;
  const ConstraintVocabulary& vocabulary_;
  const std::size_t max_memory_;
  std::size_t memory_ = 0;
  // By state and count (see Find).
  std::unordered_map<std::uint64_t, std::shared_ptr<const LeafMask>> masks_;
};

}  // namespace fathom::constraint
