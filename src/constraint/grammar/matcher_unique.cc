// Unique and ascending calls of the matcher: their texts while they are read, and the search that
// refuses to begin a text which could only repeat an earlier one.
#include <algorithm>
#include <utility>

#include "constraint/grammar/byte_set.h"
#include "constraint/grammar/matcher.h"

namespace fathom::constraint {
namespace {

bool HasRests(const Leaf& leaf) {
  for (const UniqueText* text = leaf.unique.get(); text != nullptr; text = text->outer.get()) {
    if (!text->rests.empty()) return true;
  }
  return false;
}

// The text of the scope at a depth.
const UniqueText& TextAt(const Leaf& leaf, int depth) {
  const UniqueScope* scope = Matcher::FindFrame(leaf.frame).scope.get();
  const UniqueText* text = leaf.unique.get();
  for (; scope->depth > depth; scope = scope->outer.get()) text = text->outer.get();
  return *text;
}

// The bytes with which an earlier text goes on.
ByteSet FirstBytes(const UniqueText& text) {
  ByteSet bytes;
  for (const std::string_view rest : text.rests) {
    if (!rest.empty()) bytes = bytes | ByteSet::Of(static_cast<std::uint8_t>(rest[0]));
  }
  return bytes;
}

}  // namespace

void Matcher::AddToUnique(Leaf& leaf, std::span<const std::uint8_t> bytes) {
  if (!leaf.unique) return;
  for (const std::uint8_t byte : bytes) leaf.unique = UniqueText::Behind(leaf.unique, byte);
}

bool Matcher::MeetsEarlierTexts(const Leaf& leaf, std::uint8_t byte) {
  const UniqueScope* scope = FindFrame(leaf.frame).scope.get();
  for (const UniqueText* text = leaf.unique.get(); text != nullptr; text = text->outer.get()) {
    for (const std::string_view rest : text->rests) {
      if (rest.empty()) continue;
      const auto first = static_cast<std::uint8_t>(rest[0]);
      if (byte == first || (scope->is_ascending && byte < first)) return true;
    }
    scope = scope->outer.get();
  }
  return false;
}

// False if the text of an ascending call is less than the one before it.
bool Matcher::MoveUnique(const Leaf& leaf, std::uint8_t byte, Leaf& moved) {
  const UniqueScope* scope = FindFrame(leaf.frame).scope.get();
  for (const UniqueText* text = leaf.unique.get(); text != nullptr; text = text->outer.get()) {
    if (scope->is_ascending && scope->depth > searched_depth_ && !text->rests.empty()) {
      const std::string_view rest = text->rests.front();
      if (!rest.empty() && byte < static_cast<std::uint8_t>(rest[0])) return false;
    }
    scope = scope->outer.get();
  }
  moved.unique = UniqueText::Behind(leaf.unique, byte);
  return true;
}

void Matcher::RemoveRepeating(MatcherState& state) {
  if (std::ranges::none_of(state.leaves, HasRests)) return;
  std::erase_if(state.leaves, [&](const Leaf& leaf) { return !CanDiffer(leaf); });
}

// True if the texts of all scopes, from the innermost to the searched one, can still become
// different from the earlier texts.
bool Matcher::CanDiffer(const Leaf& leaf) {
  const UniqueScope* scope = FindFrame(leaf.frame).scope.get();
  for (const UniqueText* text = leaf.unique.get(); text != nullptr; text = text->outer.get()) {
    if (scope->depth <= searched_depth_) break;
    if (!text->rests.empty() && !CanDifferAt(leaf, scope->depth)) return false;
    scope = scope->outer.get();
  }
  return !TooComplex();
}

// Sets `to` to the state after a byte that leads away from the earlier texts; false if no byte
// does.
bool Matcher::TakesOtherByte(const MatcherState& state, const ByteSet& known, MatcherState& to) {
  for (unsigned value = 0; value < 256 && !TooComplex(); ++value) {
    const auto byte = static_cast<std::uint8_t>(value);
    if (known.Has(byte)) continue;
    const bool is_taken = std::ranges::any_of(state.leaves, [&](const Leaf& leaf) {
      return automaton_.Next(leaf.state, byte) != kDeadState;
    });
    if (!is_taken) continue;
    search_ended_ = false;
    if (Step(state, byte, to) || search_ended_) return true;
  }
  return false;
}

// True if a byte leads away from the texts and stays within the leaf's rule: the usual case, which
// needs no search.
bool Matcher::DiffersAtOnce(const Leaf& leaf, int depth) {
  const UniqueScope* scope = FindFrame(leaf.frame).scope.get();
  if (scope->is_ascending || scope->depth != depth) return false;
  const ByteSet known = FirstBytes(*leaf.unique);
  const Place from = {.state = leaf.state, .count = leaf.count};
  for (unsigned value = 0; value < 256; ++value) {
    const auto byte = static_cast<std::uint8_t>(value);
    Place to;
    if (known.Has(byte) || !Move(FindRule(leaf).count, from, byte, to)) continue;
    Charge(1);
    if (StateFacts(to.state) == (kKnown | kTakesBytes)) return true;
  }
  return false;
}

// Follows the earlier texts until some byte, or the end of the call, leads away from them. The
// steps compare the texts of inner scopes, so that the states that they reach can be completed.
bool Matcher::CanDifferAt(const Leaf& leaf, int depth) {
  if (DiffersAtOnce(leaf, depth)) return true;
  const int outer_search = std::exchange(searched_depth_, depth);
  const bool outer_ended = search_ended_;
  bool differs = false;
  std::vector<MatcherState> open(1);
  open[0].leaves.push_back(leaf);
  while (!open.empty() && !differs && !TooComplex()) {
    const MatcherState state = std::move(open.back());
    open.pop_back();
    const UniqueText& text = TextAt(state.leaves[0], depth);
    const UniqueScope* scope = FindFrame(leaf.frame).scope.get();
    while (scope->depth > depth) scope = scope->outer.get();
    const ByteSet next = FirstBytes(text);
    ByteSet known = next;
    if (scope->is_ascending && !text.rests.empty() && !text.rests.front().empty()) {
      known = ByteSet::Range(0, static_cast<std::uint8_t>(text.rests.front()[0]));
    }
    MatcherState to;
    differs = TakesOtherByte(state, known, to);
    for (unsigned value = 0; value < 256 && !differs; ++value) {
      const auto byte = static_cast<std::uint8_t>(value);
      if (!next.Has(byte)) continue;
      search_ended_ = false;
      const bool lives = Step(state, byte, to);
      differs = search_ended_;
      if (lives && !to.leaves.empty()) open.push_back(std::move(to));
    }
  }
  searched_depth_ = outer_search;
  search_ended_ = outer_ended;
  return differs;
}

}  // namespace fathom::constraint
