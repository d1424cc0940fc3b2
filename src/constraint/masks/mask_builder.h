// MaskBuilder: the tokens that may follow a text, and a cache of them by what was read
// (docs/spec/constrained.md 3.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "constraint/grammar/matcher.h"
#include "constraint/grammar/matcher_state.h"
#include "constraint/masks/leaf_reader.h"
#include "constraint/masks/trie_walk.h"
#include "constraint/masks/vocabulary.h"

namespace fathom::constraint {

// One thread at a time. `matcher` and `vocabulary` must outlive the builder.
class MaskBuilder {
 public:
  // max_cache: bytes of masks that are kept; masks of leaves may take as many again.
  MaskBuilder(Matcher& matcher, const ConstraintVocabulary& vocabulary, std::size_t max_cache);

  struct Mask {
    TokenSet tokens;
    std::int64_t n_tokens = 0;
  };
  // Returns the mask: the tokens by their texts, the tokens that the grammar names, and, where the
  // text may end, the end tokens. Null: the state is too complex (Matcher::TooComplex). Pure: the
  // cache changes the time only.
  std::shared_ptr<const Mask> Build(const MatcherState& state);

  // Sets `to` to the state after the token; returns false if the token may not follow.
  // Matcher::TooComplex may be true afterwards.
  bool Advance(const MatcherState& state, Token token, MatcherState& to);

  // For tests: computes every mask by reading all texts byte by byte, without any cache.
  void set_is_plain(bool is_plain) {
    is_plain_ = is_plain;
    walk_.set_is_plain(is_plain);
  }
  std::size_t memory() const { return entries_.size() * mask_bytes_ + leaves_.memory(); }
  std::int64_t n_hits() const { return n_hits_; }

 private:
  // A mask holds for every state that looks like `state`, and whose frames look like `frames`
  // wherever the walk has read them.
  struct Entry {
    std::uint64_t hash = 0;
    MatcherState state;
    std::vector<FrameRef> frames;
    bool reads_texts = false;
    std::shared_ptr<const Mask> mask;
  };
  using Entries = std::list<Entry>;

  std::shared_ptr<const Mask> Compute(const MatcherState& state);
  void AddNamed(const MatcherState& state, TokenSet& tokens);
  std::shared_ptr<const Mask> FindCached(const MatcherState& state, std::uint64_t hash);
  void Keep(Entry entry);

  Matcher& matcher_;
  const ConstraintVocabulary& vocabulary_;
  const std::size_t mask_bytes_;
  const std::size_t max_cached_;
  bool is_plain_ = false;
  LeafReader leaves_;
  TrieWalk walk_;
  std::vector<FrameRef> recorded_;
  Entries entries_;  // the most recently used first
  std::unordered_multimap<std::uint64_t, Entries::iterator> by_hash_;
  std::int64_t n_hits_ = 0;
};

}  // namespace fathom::constraint
