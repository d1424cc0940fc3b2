#include "constraint/mask_builder.h"

#include <algorithm>
#include <utility>

#include "constraint/state_likeness.h"

namespace fathom {

MaskBuilder::MaskBuilder(Matcher& matcher, const VocabularyTables& vocabulary,
                         std::size_t max_cache)
    : matcher_(matcher),
      vocabulary_(vocabulary),
      mask_bytes_(static_cast<std::size_t>(vocabulary.vocab_size()) / 8 + sizeof(Entry) + 256),
      max_cached_(std::max<std::size_t>(max_cache / mask_bytes_, 1)),
      path_(static_cast<std::size_t>(vocabulary.all_texts().max_depth()) + 1),
      bytes_(path_.size()),
      plain_(path_.size()) {}

std::shared_ptr<const MaskBuilder::Mask> MaskBuilder::Build(const MatcherState& state) {
  matcher_.Reset();
  if (is_plain_) return Compute(state);
  const std::uint64_t hash = StateLikeness::Hash(matcher_, state);
  if (std::shared_ptr<const Mask> cached = FindCached(state, hash)) return cached;
  recorded_.clear();
  matcher_.Record(&recorded_);
  std::shared_ptr<const Mask> mask = Compute(state);
  const bool reads_texts = matcher_.reads_new_texts();
  matcher_.Record(nullptr);
  if (mask != nullptr) {
    Keep({.hash = hash,
          .state = state,
          .frames = recorded_,
          .reads_texts = reads_texts,
          .mask = mask});
  }
  return mask;
}

std::shared_ptr<const MaskBuilder::Mask> MaskBuilder::Compute(const MatcherState& state) {
  const Matcher::SliceAnswer slice =
      is_plain_ ? Matcher::SliceAnswer() : matcher_.TakesSlices(state);
  auto mask = std::make_shared<Mask>(Mask{.tokens = vocabulary_.Slice(slice.largest)});
  // Where the plain texts are decided, the others are left to read.
  Walk(state,
       slice.is_exact                 ? vocabulary_.texts_outside(kLargestSlice)
       : slice.largest >= kSmallSlice ? vocabulary_.texts_outside(kSmallSlice)
                                      : vocabulary_.all_texts(),
       mask->tokens);
  if (matcher_.TooComplex()) return nullptr;
  AddNamed(state, mask->tokens);
  if (state.accepts) {
    for (const Token token : vocabulary_.end_tokens()) mask->tokens.Add(token);
  }
  mask->n_tokens = mask->tokens.size();
  return mask;
}

// Reads the texts of the trie; a byte that nothing takes leaves out everything below it. While the
// leaves move within their rules, only their places are kept.
void MaskBuilder::Walk(const MatcherState& state, const TokenTrie& trie, TokenSet& tokens) {
  const std::span<const TrieNode> nodes = trie.nodes();
  PlainPlaces& root = plain_[0];
  root.size = kNotPlain;
  if (state.leaves.size() <= kMaxPlain) {
    root.size = 0;
    for (const Leaf& leaf : state.leaves) {
      root.leaf[root.size] = static_cast<std::uint8_t>(root.size);
      root.place[root.size++] = {.state = leaf.state, .count = leaf.count};
    }
  }
  for (std::size_t i = 0; i < nodes.size();) {
    const TrieNode& node = nodes[i];
    if (!Read(state, node)) {
      if (matcher_.TooComplex()) return;
      i = node.end;
      continue;
    }
    for (const Token token : trie.TokensOf(i)) tokens.Add(token);
    ++i;
  }
}

// Reads the byte of a node, behind the state of the node above it.
bool MaskBuilder::Read(const MatcherState& state, const TrieNode& node) {
  const std::size_t above = node.depth - 1u;
  bytes_[above] = node.byte;
  plain_[node.depth].size = kNotPlain;
  if (plain_[above].size != kNotPlain) {
    if (ReadPlainly(state, node)) return plain_[node.depth].size > 0;
    if (above > 0) MakeState(state, above);
  }
  return matcher_.Step(above == 0 ? state : path_[above], node.byte, path_[node.depth]);
}

// Reads a byte in each of the places above; false where a rule may end or call another one.
bool MaskBuilder::ReadPlainly(const MatcherState& state, const TrieNode& node) {
  const PlainPlaces& from = plain_[node.depth - 1u];
  PlainPlaces& to = plain_[node.depth];
  int n = 0;
  for (int k = 0; k < from.size; ++k) {
    const Leaf& leaf = state.leaves[from.leaf[k]];
    if (node.depth == 1 && Matcher::MeetsEarlierTexts(leaf, node.byte)) return false;
    to.leaf[n] = from.leaf[k];
    switch (matcher_.StepPlain(matcher_.RuleOf(leaf), from.place[k], node.byte, to.place[n])) {
      case Matcher::PlainStep::kDead:
        break;
      case Matcher::PlainStep::kPlain:
        ++n;
        break;
      case Matcher::PlainStep::kOther:
        return false;
    }
  }
  to.size = n;
  return true;
}

// Sets path_[depth] to the state whose leaves are at the places of plain_[depth].
void MaskBuilder::MakeState(const MatcherState& state, std::size_t depth) {
  const PlainPlaces& places = plain_[depth];
  path_[depth].Clear();
  for (int k = 0; k < places.size; ++k) {
    Leaf& moved = path_[depth].leaves.emplace_back(state.leaves[places.leaf[k]]);
    moved.state = places.place[k].state;
    moved.count = places.place[k].count;
    matcher_.AddToUnique(moved, std::span(bytes_).first(depth));
  }
}

// Tokens that the grammar takes as a whole, whatever their text is.
void MaskBuilder::AddNamed(const MatcherState& state, TokenSet& tokens) {
  std::vector<Letter> letters;
  matcher_.NextTokens(state, letters);
  for (const Letter& letter : letters) {
    if (letter.kind == LetterKind::kToken) {
      if (vocabulary_.Has(static_cast<Token>(letter.value)))
        tokens.Add(static_cast<Token>(letter.value));
      continue;
    }
    for (Token token = 0; token < vocabulary_.vocab_size(); ++token) {
      const bool is_other = token != static_cast<Token>(letter.value);
      if (is_other && !vocabulary_.TextOf(token).empty()) tokens.Add(token);
    }
  }
}

// A token may be read by its bytes and as a whole: then both go on.
bool MaskBuilder::Advance(const MatcherState& state, Token token, MatcherState& to) {
  matcher_.Reset();
  const std::string_view text = vocabulary_.TextOf(token);
  const bool as_token =
      matcher_.StepToken(state, static_cast<std::uint32_t>(token), !text.empty(), to);
  if (text.empty()) return as_token;
  MatcherState before = state;
  MatcherState after;
  for (const char c : text) {
    if (!matcher_.Step(before, static_cast<std::uint8_t>(c), after)) return as_token;
    std::swap(before, after);
  }
  if (!as_token) {
    to = std::move(before);
    return true;
  }
  to.accepts = to.accepts || before.accepts;
  to.leaves.insert(to.leaves.end(), before.leaves.begin(), before.leaves.end());
  return true;
}

std::shared_ptr<const MaskBuilder::Mask> MaskBuilder::FindCached(const MatcherState& state,
                                                                 std::uint64_t hash) {
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    const Entry& entry = *at->second;
    StateLikeness likeness(matcher_, entry.reads_texts);
    if (!likeness.Compare(entry.state, state) || !likeness.CompareFrames(entry.frames)) continue;
    entries_.splice(entries_.begin(), entries_, at->second);
    ++n_hits_;
    return entry.mask;
  }
  return nullptr;
}

void MaskBuilder::Keep(Entry entry) {
  if (n_cached_ == max_cached_) {
    const auto [first, last] = by_hash_.equal_range(entries_.back().hash);
    const auto oldest = std::prev(entries_.end());
    by_hash_.erase(std::find_if(first, last, [&](const auto& at) { return at.second == oldest; }));
    entries_.pop_back();
    --n_cached_;
  }
  entries_.push_front(std::move(entry));
  by_hash_.emplace(entries_.front().hash, entries_.begin());
  ++n_cached_;
}

}  // namespace fathom
