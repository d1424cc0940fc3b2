#include "constraint/grammar/state_equivalence.h"

#include <algorithm>
#include <functional>
#include <string_view>

namespace fathom::constraint {
namespace {

// No token has as many bytes, so larger numbers of rules that may still be opened make no
// difference.
constexpr int kFarAway = 256;

// with_texts: compares the texts themselves, too.
bool SameTexts(const UniqueText* a, const UniqueText* b, bool with_texts) {
  while (a != nullptr && b != nullptr) {
    if (a == b) return true;
    if (a->rests != b->rests || (with_texts && a->Text() != b->Text())) return false;
    a = a->outer.get();
    b = b->outer.get();
  }
  return a == b;
}

}  // namespace

std::uint64_t StateEquivalence::Hash(const Matcher& matcher, const MatcherState& state) {
  std::uint64_t hash = state.accepts ? 1 : 0;
  const auto add = [&](std::uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 32;
  };
  for (const Leaf& leaf : state.leaves) {
    const auto [missing, room] = matcher.FindCharactersLeft(leaf);
    add(leaf.state);
    add((std::uint64_t{missing} << 32) | room);
    for (const UniqueText* text = leaf.unique.get(); text != nullptr; text = text->outer.get()) {
      for (const std::string_view rest : text->rests) add(std::hash<std::string_view>()(rest));
    }
  }
  return hash;
}

int StateEquivalence::DepthLeft(const Frame& frame) const {
  return std::min(matcher_.max_depth() - frame.depth, kFarAway);
}

// Two frames that correspond once must always correspond.
bool StateEquivalence::Match(const FrameRef& known, const FrameRef& other) {
  for (const auto& [first, second] : matched_) {
    if (first == known || second == other) return first == known && second == other;
  }
  const Frame& a = Matcher::FindFrame(known);
  const Frame& b = Matcher::FindFrame(other);
  if (a.rule != b.rule || a.begins_scope != b.begins_scope || DepthLeft(a) != DepthLeft(b))
    return false;
  matched_.emplace_back(known, other);
  return true;
}

bool StateEquivalence::Compare(const MatcherState& known, const MatcherState& other) {
  if (known.accepts != other.accepts || known.leaves.size() != other.leaves.size()) return false;
  for (std::size_t i = 0; i < known.leaves.size(); ++i) {
    const Leaf& a = known.leaves[i];
    const Leaf& b = other.leaves[i];
    if (a.state != b.state || !Match(a.frame, b.frame) ||
        matcher_.FindCharactersLeft(a) != matcher_.FindCharactersLeft(b) ||
        !Equal(a.memory.get(), b.memory.get()) ||
        !SameTexts(a.unique.get(), b.unique.get(), with_texts_)) {
      return false;
    }
  }
  return true;
}

// A frame was read after the frames that lead to it, so its partner is known.
bool StateEquivalence::CompareFrames(std::span<const FrameRef> known) {
  for (const FrameRef& frame : known) {
    const auto found =
        std::ranges::find_if(matched_, [&](const auto& match) { return match.first == frame; });
    if (found == matched_.end()) return false;
    const FrameRef partner = found->second;
    const std::vector<Return>& a = Matcher::FindFrame(frame).returns;
    const std::vector<Return>& b = Matcher::FindFrame(partner).returns;
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i].state != b[i].state || !Equal(a[i].memory.get(), b[i].memory.get()) ||
          !Match(ReturnFrame(a[i], frame.column), ReturnFrame(b[i], partner.column))) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace fathom::constraint
