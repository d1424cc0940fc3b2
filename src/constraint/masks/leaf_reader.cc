#include "constraint/masks/leaf_reader.h"

#include <algorithm>
#include <memory>

namespace fathom::constraint {
namespace {

// The leaf at a place where it may leave its rule by an exit, with the bytes up to there.
Leaf AtExit(const Matcher& matcher, const Leaf& leaf, const LeafExit& exit,
            std::span<const std::uint8_t> bytes) {
  Leaf at = leaf;
  const std::optional<CodePointCount>& bounds = matcher.FindRule(leaf).count;
  if (exit.ends) {
    if (bounds) at.count = std::max(at.count, bounds->minimum);
  } else {
    at.state = exit.state;
  }
  Matcher::AddToUnique(at, bytes);
  return at;
}

}  // namespace

LeafReader::LeafReader(Matcher& matcher, const ConstraintVocabulary& vocabulary,
                       std::size_t max_memory)
    : matcher_(matcher),
      vocabulary_(vocabulary),
      trie_(vocabulary.texts()),
      masks_(matcher, vocabulary, max_memory),
      walk_(matcher, trie_),
      scratch_(vocabulary.vocab_size()) {}

void LeafReader::Read(const Leaf& leaf, TokenSet& tokens) {
  std::shared_ptr<const LeafMask> mask = masks_.Find(leaf, false);
  matcher_.Charge(mask->steps);
  if (mask->lacks_plain_exits && MayNeedPlainExits(leaf)) mask = masks_.Find(leaf, true);
  FindParts(leaf);
  AddWithin(*mask, tokens);
  ReadParts(leaf, tokens);
  for (const LeafExit& exit : mask->exits) {
    if (matcher_.TooComplex()) return;
    ReadExit(leaf, exit, tokens);
  }
}

void LeafReader::FindParts(const Leaf& leaf) {
  parts_.clear();
  if (!leaf.unique) return;
  const std::span<const TrieNode> nodes = trie_.nodes();
  for (std::size_t i = 0; i < nodes.size(); i = nodes[i].end) {
    if (!Matcher::MeetsEarlierTexts(leaf, nodes[i].byte)) continue;
    parts_.push_back(static_cast<std::uint32_t>(i));
  }
}

bool LeafReader::IsInPart(std::uint32_t node) const {
  return std::ranges::any_of(
      parts_, [&](std::uint32_t part) { return part <= node && node < trie_.nodes()[part].end; });
}

void LeafReader::AddWithin(const LeafMask& mask, TokenSet& tokens) {
  if (parts_.empty()) {
    tokens.Add(mask.few);
    if (mask.many) tokens.Add(*mask.many);
    return;
  }
  scratch_.Clear();
  scratch_.Add(mask.few);
  if (mask.many) scratch_.Add(*mask.many);
  for (const std::uint32_t part : parts_) {
    for (const Token token : trie_.TokensIn(part, trie_.nodes()[part].end)) scratch_.Remove(token);
  }
  tokens.Add(scratch_);
}

void LeafReader::ReadParts(const Leaf& leaf, TokenSet& tokens) {
  if (parts_.empty()) return;
  MatcherState state;
  state.leaves.push_back(leaf);
  matcher_.TakeReadsNewTexts();
  for (const std::uint32_t part : parts_) {
    walk_.Run(state, part, trie_.nodes()[part].end, 0, tokens);
  }
  reads_texts_ |= matcher_.TakeReadsNewTexts();
}

// The masks of rules that count characters leave out plain exits. Such rules have no edges, so the
// exits are at the end of the rule: they matter where something plain may follow the rule.
bool LeafReader::MayNeedPlainExits(const Leaf& leaf) {
  const LeafExit end = {.ends = true};
  constexpr std::uint8_t kNoUtf8[] = {0xFF};  // leads away from all earlier texts
  if (!matcher_.Leave(AtExit(matcher_, leaf, end, kNoUtf8), true, behind_)) return false;
  return std::ranges::any_of(behind_.leaves, [&](const Leaf& follower) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      const auto of = static_cast<std::uint8_t>(byte);
      if (KindBit(of) != kNotPlain && matcher_.automaton().Next(follower.state, of) != kDeadState) {
        return true;
      }
    }
    return false;
  });
}

// Sets bytes_ to the text up to a place at which texts leave the rule, and at which earlier texts
// do not matter; false if there is none.
bool LeafReader::FindExit(const LeafExit& exit) {
  for (const std::uint32_t node : exit.nodes) {
    if (IsInPart(node)) continue;
    trie_.ReadText(node, bytes_);
    return true;
  }
  for (const LeafExit::Next& next : exit.next) {
    for (const std::uint32_t node : next.nodes) {
      if (IsInPart(node)) continue;
      trie_.ReadText(node, bytes_);
      bytes_.pop_back();
      return true;
    }
  }
  return false;
}

void LeafReader::ReadExit(const Leaf& leaf, const LeafExit& exit, TokenSet& tokens) {
  bytes_.clear();
  if (leaf.unique && !FindExit(exit)) return;
  matcher_.TakeReadsNewTexts();
  if (!matcher_.Leave(AtExit(matcher_, leaf, exit, bytes_), exit.ends, behind_)) return;
  for (const std::uint32_t node : exit.nodes) {
    if (!IsInPart(node)) tokens.Add(trie_.TokensAt(node));
  }
  if (!leaf.unique) {
    for (const LeafExit::Next& next : exit.next) ReadNext(next, tokens);
    return;
  }
  // If texts of another unique call were read, they depend on the text of this call: then each exit
  // is read.
  const bool reads_texts = matcher_.TakeReadsNewTexts();
  for (const LeafExit::Next& next : exit.next) {
    bool reads_next = reads_texts;
    if (!reads_next) {
      scratch_.Clear();
      if (!ReadNext(next, scratch_)) continue;
      reads_next = matcher_.TakeReadsNewTexts();
    }
    if (reads_next) {
      reads_texts_ = true;
      ReadNextWithTexts(leaf, exit, next, tokens);
    } else {
      tokens.Add(scratch_);
    }
  }
}

// Reads the nodes to which one byte leads after the exit.
bool LeafReader::ReadNext(const LeafExit::Next& next, TokenSet& tokens) {
  if (!matcher_.Step(behind_, next.byte, next_)) return false;
  for (const std::uint32_t node : next.nodes) {
    if (!IsInPart(node)) ReadNode(next_, node, tokens);
    if (matcher_.TooComplex()) break;
  }
  return true;
}

void LeafReader::ReadNextWithTexts(const Leaf& leaf, const LeafExit& exit,
                                   const LeafExit::Next& next, TokenSet& tokens) {
  MatcherState behind;
  for (const std::uint32_t node : next.nodes) {
    if (IsInPart(node)) continue;
    trie_.ReadText(node, bytes_);
    bytes_.pop_back();
    if (matcher_.Leave(AtExit(matcher_, leaf, exit, bytes_), exit.ends, behind) &&
        matcher_.Step(behind, next.byte, next_)) {
      ReadNode(next_, node, tokens);
    }
    if (matcher_.TooComplex()) return;
  }
}

// Adds the tokens of a node and of the nodes below it. `state` is the state after the node.
void LeafReader::ReadNode(const MatcherState& state, std::uint32_t node, TokenSet& tokens) {
  tokens.Add(trie_.TokensAt(node));
  const TrieNode& of = trie_.nodes()[node];
  if (node + 1 < of.end) walk_.Run(state, node + 1, of.end, of.depth, tokens);
}

}  // namespace fathom::constraint
