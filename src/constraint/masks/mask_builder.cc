#include "constraint/masks/mask_builder.h"

#include <algorithm>
#include <utility>

#include "constraint/grammar/state_equivalence.h"
#include "constraint/lists.h"

namespace fathom::constraint {

MaskBuilder::MaskBuilder(Matcher& matcher, const ConstraintVocabulary& vocabulary,
                         std::size_t max_cache)
    : matcher_(matcher),
      vocabulary_(vocabulary),
      mask_bytes_(static_cast<std::size_t>(vocabulary.vocab_size()) / 8 + sizeof(Entry) + 256),
      max_cached_(std::max<std::size_t>(max_cache / mask_bytes_, 1)),
      leaves_(matcher, vocabulary, max_cache),
      walk_(matcher, vocabulary.texts()) {}

std::shared_ptr<const MaskBuilder::Mask> MaskBuilder::Build(const MatcherState& state) {
  matcher_.Reset();
  if (is_plain_) return Compute(state);
  const std::uint64_t hash = StateEquivalence::Hash(matcher_, state);
  if (std::shared_ptr<const Mask> cached = FindCached(state, hash)) return cached;
  recorded_.clear();
  matcher_.Record(&recorded_);
  std::shared_ptr<const Mask> mask = Compute(state);
  const bool reads_texts = leaves_.TakeReadsTexts() || matcher_.TakeReadsNewTexts();
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
  auto mask = std::make_shared<Mask>(Mask{.tokens = TokenSet(vocabulary_.vocab_size())});
  // Leaves share the frames of the rules that they enter, and so their depth, which matters near
  // the limit: there the leaves are read together.
  if (is_plain_ || matcher_.IsDeep(state)) {
    walk_.Run(state, 0, vocabulary_.texts().nodes().size(), 0, mask->tokens);
  } else {
    for (const Leaf& leaf : state.leaves) {
      leaves_.Read(leaf, mask->tokens);
      if (matcher_.TooComplex()) break;
    }
  }
  if (matcher_.TooComplex()) return nullptr;
  AddNamed(state, mask->tokens);
  if (state.accepts) {
    for (const Token token : vocabulary_.end_tokens()) mask->tokens.Add(token);
  }
  mask->n_tokens = mask->tokens.size();
  return mask;
}

// Tokens that the grammar takes as a whole, whatever their text is.
void MaskBuilder::AddNamed(const MatcherState& state, TokenSet& tokens) {
  for (const Letter letter : matcher_.NextTokens(state)) {
    if (letter.kind == LetterKind::kToken) {
      if (vocabulary_.Has(static_cast<Token>(letter.value)))
        tokens.Add(static_cast<Token>(letter.value));
      continue;
    }
    for (Token token = 0; token < vocabulary_.vocab_size(); ++token) {
      const bool is_other = token != static_cast<Token>(letter.value);
      if (is_other && !vocabulary_.Text(token).empty()) tokens.Add(token);
    }
  }
}

// A token may be read by its bytes and as a whole: then both readings go on.
bool MaskBuilder::Advance(const MatcherState& state, Token token, MatcherState& to) {
  matcher_.Reset();
  const std::string_view text = vocabulary_.Text(token);
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
  AddAll(to.leaves, before.leaves);
  return true;
}

std::shared_ptr<const MaskBuilder::Mask> MaskBuilder::FindCached(const MatcherState& state,
                                                                 std::uint64_t hash) {
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    const Entry& entry = *at->second;
    StateEquivalence likeness(matcher_, entry.reads_texts);
    if (!likeness.Compare(entry.state, state) || !likeness.CompareFrames(entry.frames)) continue;
    entries_.splice(entries_.begin(), entries_, at->second);
    ++n_hits_;
    return entry.mask;
  }
  return nullptr;
}

void MaskBuilder::Keep(Entry entry) {
  if (entries_.size() == max_cached_) {
    const auto [first, last] = by_hash_.equal_range(entries_.back().hash);
    const auto oldest = std::prev(entries_.end());
    by_hash_.erase(std::find_if(first, last, [&](const auto& at) { return at.second == oldest; }));
    entries_.pop_back();
  }
  entries_.push_front(std::move(entry));
  by_hash_.emplace(entries_.front().hash, entries_.begin());
}

}  // namespace fathom::constraint
