#include "constraint/masks/trie_walk.h"

#include <span>

namespace fathom::constraint {
namespace {

// Parts of a trie with fewer nodes are read without a look at the kinds of their characters.
constexpr std::size_t kFewNodes = 32;

}  // namespace

TrieWalk::TrieWalk(Matcher& matcher, const TokenTrie& trie)
    : matcher_(matcher),
      trie_(trie),
      path_(static_cast<std::size_t>(trie.max_depth()) + 1),
      bytes_(path_.size()),
      places_(path_.size()) {}

// Skips everything below a byte that no leaf takes.
void TrieWalk::Run(const MatcherState& state, std::size_t first, std::size_t end, std::size_t above,
                   TokenSet& tokens) {
  state_ = &state;
  above_ = above;
  SetPlaces(state, above);
  const std::span<const TrieNode> nodes = trie_.nodes();
  for (std::size_t i = first; i < end;) {
    const TrieNode& node = nodes[i];
    if (!Read(node)) {
      if (matcher_.TooComplex()) return;
      i = node.end;
      continue;
    }
    if (TakesAllBelow(i)) {
      tokens.Add(trie_.TokensIn(i, node.end));
      i = node.end;
      continue;
    }
    tokens.Add(trie_.TokensAt(i));
    ++i;
  }
}

void TrieWalk::SetPlaces(const MatcherState& state, std::size_t depth) {
  Places& places = places_[depth];
  places.size = kNotWithin;
  if (is_plain_ || state.leaves.size() > kMaxPlaces) return;
  places.size = 0;
  places.state = &state;
  places.base = depth;
  for (const Leaf& leaf : state.leaves) {
    places.leaf[places.size] = static_cast<std::uint8_t>(places.size);
    places.place[places.size++] = {.state = leaf.state, .count = leaf.count};
  }
}

// Reads the byte of a node, from the state of the node above it.
bool TrieWalk::Read(const TrieNode& node) {
  const std::size_t above = node.depth - 1u;
  bytes_[above] = node.byte;
  places_[node.depth].size = kNotWithin;
  if (places_[above].size != kNotWithin) {
    if (ReadWithin(node)) return places_[node.depth].size > 0;
    if (above > places_[above].base) MakeState(above);
  }
  const MatcherState& from = above == above_ ? *state_ : path_[above];
  if (!matcher_.Step(from, node.byte, path_[node.depth])) return false;
  SetPlaces(path_[node.depth], node.depth);
  return true;
}

// Reads a byte in each of the places above; false where a rule may end or call another one, or
// earlier texts of unique calls matter.
bool TrieWalk::ReadWithin(const TrieNode& node) {
  const Places& from = places_[node.depth - 1u];
  Places& to = places_[node.depth];
  int n = 0;
  for (int k = 0; k < from.size; ++k) {
    to.leaf[n] = from.leaf[k];
    const Leaf& leaf = from.state->leaves[from.leaf[k]];
    if (node.depth == from.base + 1 && Matcher::MeetsEarlierTexts(leaf, node.byte)) return false;
    if (!matcher_.Move(matcher_.FindRule(leaf).count, from.place[k], node.byte, to.place[n]))
      continue;
    matcher_.Charge(1);
    if (matcher_.StateFacts(to.place[n].state) != (Matcher::kKnown | Matcher::kTakesBytes)) {
      return false;
    }
    ++n;
  }
  to.size = n;
  to.state = from.state;
  to.base = from.base;
  return true;
}

// Sets path_[depth] to the state whose leaves are at the places of places_[depth].
void TrieWalk::MakeState(std::size_t depth) {
  const Places& places = places_[depth];
  path_[depth].Clear();
  for (int k = 0; k < places.size; ++k) {
    Leaf& moved = path_[depth].leaves.emplace_back(places.state->leaves[places.leaf[k]]);
    moved.state = places.place[k].state;
    moved.count = places.place[k].count;
    matcher_.AddToUnique(moved, std::span(bytes_).subspan(places.base, depth - places.base));
  }
}

// True if all texts below a node that was read may come because one of its places takes all
// characters of their kinds.
bool TrieWalk::TakesAllBelow(std::size_t i) {
  const TrieNode& node = trie_.nodes()[i];
  const CharacterClasses kinds = trie_.KindsBelow(i);
  const Places& places = places_[node.depth];
  if (node.end - i < kFewNodes || (kinds & kNotPlain) != 0) return false;
  for (int k = 0; k < places.size; ++k) {
    const std::optional<CodePointCount>& bounds =
        matcher_.FindRule(places.state->leaves[places.leaf[k]]).count;
    if (bounds && bounds->maximum - places.place[k].count <= kLargestSlice) continue;
    if ((kinds & ~matcher_.automaton().AcceptedClasses(places.place[k].state)) == 0) return true;
  }
  return false;
}

}  // namespace fathom::constraint
