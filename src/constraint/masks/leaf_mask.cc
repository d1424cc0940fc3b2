#include "constraint/masks/leaf_mask.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

namespace fathom::constraint {
namespace {

constexpr std::size_t kFewTokens = 512;
constexpr std::size_t kTokensPerStep = 128;
constexpr std::size_t kNodesPerStep = 4;  // nodes of the trie
constexpr std::size_t kNodesPerCharge = 256;
// Parts of the trie with fewer nodes are read without a look at the kinds of their characters.
constexpr std::size_t kFewNodesBelow = 32;
// The walk that makes a mask. The counts of places begin at the leaf.
class LeafMaskWalk {
 public:
  LeafMaskWalk(Matcher& matcher, const ConstraintVocabulary& vocabulary, CharactersLeft left)
      : matcher_(matcher), vocabulary_(vocabulary), trie_(vocabulary.texts()), left_(left) {
    if (left.room < CharactersLeft::kMany) {
      bounds_ = CodePointCount{.minimum = left.missing, .maximum = left.room};
    } else if (left.missing > 0) {
      bounds_ = CodePointCount{.minimum = left.missing};
    }
  }

  std::shared_ptr<const LeafMask> Run(StateId state, bool needs_all) {
    auto mask = std::make_shared<LeafMask>();
    levels_.resize(static_cast<std::size_t>(trie_.max_depth()) + 1);
    levels_[0].place = {.state = state};
    const auto room = static_cast<int>(std::min<std::uint32_t>(left_.room, kLargestSlice));
    const bool is_free = matcher_.automaton().AcceptedClasses(state) == kAllCharacterClasses;
    if (is_free && (room == kLargestSlice || !needs_all)) {
      mask->many = std::make_unique<TokenSet>(vocabulary_.Slice(room));
      mask->lacks_plain_exits = room < kLargestSlice;
      Walk(trie_.plain_begin());
    } else {
      Walk(trie_.nodes().size());
    }
    KeepTokens(*mask);
    KeepExits(*mask);
    return mask;
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  // A node on the path from the root, as the leaf's rule reads it.
  struct Level {
    Matcher::Place place;
    std::size_t end_exit = kNone;  // index in exits_, as the next one
    std::size_t edge_exit = kNone;
  };
  // A node below an exit, by the byte that leads to it.
  struct Next {
    std::size_t exit = 0;
    std::uint8_t byte = 0;
    std::uint32_t node = 0;
  };
  // A node below an exit whose texts are being read.
  struct OpenNext {
    std::size_t n_next = 0;  // size of next_ before the node
    std::size_t n_missed = 0;
    std::size_t end = 0;
  };

  void Walk(std::size_t end) {
    const std::span<const TrieNode> nodes = trie_.nodes();
    std::size_t n_read = 0;  // nodes since the last charge
    for (std::size_t i = 0; i < end;) {
      if (++n_read == kNodesPerCharge) {
        matcher_.ChargeOnce(std::exchange(n_read, 0) / kNodesPerStep);
        if (matcher_.TooComplex()) return;
      }
      CloseNext(i);
      const TrieNode& node = nodes[i];
      const Level& above = levels_[node.depth - 1u];
      if (above.end_exit != kNone || above.edge_exit != kNone) AddNext(above, i);
      Level& level = levels_[node.depth];
      if (!matcher_.Move(bounds_, above.place, node.byte, level.place)) {
        n_missed_ += trie_.TokensIn(i, node.end).size();
        i = node.end;
        continue;
      }
      if (TakesAllBelow(i, level.place)) {
        AddTokens(trie_.TokensIn(i, node.end));
        i = node.end;
        continue;
      }
      SetExits(level);
      Visit(i, level);
      ++i;
    }
    matcher_.ChargeOnce(n_read / kNodesPerStep);
    CloseNext(end);
  }

  bool TakesAllBelow(std::size_t i, const Matcher::Place& place) {
    if (trie_.nodes()[i].end - i < kFewNodesBelow) return false;
    const CharacterClasses kinds = trie_.KindsBelow(i);
    if ((kinds & kNotPlain) != 0) return false;
    if (bounds_ && bounds_->maximum - place.count <= kLargestSlice) return false;
    return (kinds & ~matcher_.automaton().AcceptedClasses(place.state)) == 0;
  }

  void Visit(std::size_t i, const Level& level) {
    const std::span<const Token> tokens = trie_.TokensAt(i);
    if (tokens.empty()) return;
    if ((matcher_.StateFacts(level.place.state) & (Matcher::kTakesBytes | Matcher::kTakesTokens)) !=
        0) {
      AddTokens(tokens);
      return;
    }
    n_missed_ += tokens.size();
    for (const std::size_t exit : {level.end_exit, level.edge_exit}) {
      if (exit != kNone) exits_[exit].nodes.push_back(static_cast<std::uint32_t>(i));
    }
  }

  void AddTokens(std::span<const Token> tokens) {
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }

  void SetExits(Level& level) {
    const std::uint8_t facts = matcher_.StateFacts(level.place.state);
    level.end_exit = level.edge_exit = kNone;
    if ((facts & Matcher::kAccepts) != 0 && level.place.count >= left_.missing) {
      level.end_exit = FindExit(true, kDeadState);
    }
    if ((facts & Matcher::kHasEdges) != 0) level.edge_exit = FindExit(false, level.place.state);
  }

  // States with equal edges share an exit.
  std::size_t FindExit(bool ends, StateId state) {
    const auto has_edges_of = [&](StateId other) {
      if (other == state) return true;
      const std::span<const LetterEdge> view = matcher_.automaton().Edges(other);
      const std::vector<LetterEdge> edges(view.begin(), view.end());
      return std::ranges::equal(edges, matcher_.automaton().Edges(state),
                                [](const LetterEdge& a, const LetterEdge& b) {
                                  return a.letter == b.letter && a.target == b.target;
                                });
    };
    matcher_.ChargeOnce(exits_.size());
    for (std::size_t i = 0; i < exits_.size(); ++i) {
      if (exits_[i].ends == ends && (ends || has_edges_of(exits_[i].state))) return i;
    }
    exits_.push_back({.ends = ends, .state = state});
    return exits_.size() - 1;
  }

  void AddNext(const Level& above, std::size_t i) {
    const TrieNode& node = trie_.nodes()[i];
    open_.push_back({.n_next = next_.size(), .n_missed = n_missed_, .end = node.end});
    for (const std::size_t exit : {above.end_exit, above.edge_exit}) {
      if (exit == kNone) continue;
      next_.push_back({.exit = exit, .byte = node.byte, .node = static_cast<std::uint32_t>(i)});
    }
  }

  // Closes the nodes below exits that end before node i. Where all tokens of such a node come
  // within the rule, nothing else needs to be read there.
  void CloseNext(std::size_t i) {
    for (; !open_.empty() && open_.back().end <= i; open_.pop_back()) {
      if (open_.back().n_missed == n_missed_) next_.resize(open_.back().n_next);
    }
  }

  void KeepTokens(LeafMask& mask) {
    if (!mask.many && tokens_.size() <= kFewTokens) {
      mask.few.assign(tokens_.begin(), tokens_.end());
      mask.steps = 1 + mask.few.size() / kTokensPerStep;
      return;
    }
    if (!mask.many) mask.many = std::make_unique<TokenSet>(vocabulary_.vocab_size());
    mask.many->Add(tokens_);
    mask.steps = 1 + static_cast<std::size_t>(mask.many->size()) / kTokensPerStep;
  }

  void KeepExits(LeafMask& mask) {
    std::stable_sort(next_.begin(), next_.end(), [](const Next& a, const Next& b) {
      return std::pair(a.exit, a.byte) < std::pair(b.exit, b.byte);
    });
    auto at = next_.begin();
    for (std::size_t i = 0; i < exits_.size(); ++i) {
      LeafExit& exit = exits_[i];
      for (; at != next_.end() && at->exit == i; ++at) {
        if (exit.next.empty() || exit.next.back().byte != at->byte) {
          exit.next.push_back({.byte = at->byte});
        }
        exit.next.back().nodes.push_back(at->node);
      }
      if (!exit.nodes.empty() || !exit.next.empty()) mask.exits.push_back(std::move(exit));
    }
  }

  Matcher& matcher_;
  const ConstraintVocabulary& vocabulary_;
  const TokenTrie& trie_;
  const CharactersLeft left_;
  std::optional<CodePointCount> bounds_;
  std::vector<Level> levels_;
  std::vector<Token> tokens_;
  std::size_t n_missed_ = 0;  // tokens that were read and are not in tokens_
  std::vector<LeafExit> exits_;
  std::vector<Next> next_;
  std::vector<OpenNext> open_;
};

}  // namespace

std::size_t LeafMask::memory() const {
  std::size_t n = sizeof(LeafMask) + few.size() * sizeof(Token);
  if (many) n += sizeof(TokenSet) + many->words().size() * sizeof(std::uint64_t);
  for (const LeafExit& exit : exits) {
    n += sizeof(LeafExit) + exit.nodes.size() * sizeof(std::uint32_t);
    for (const LeafExit::Next& next : exit.next) {
      n += sizeof(LeafExit::Next) + next.nodes.size() * sizeof(std::uint32_t);
    }
  }
  return n;
}

std::shared_ptr<const LeafMask> LeafMasks::Find(const Leaf& leaf, bool needs_all) {
  const CharactersLeft left = matcher_.FindCharactersLeft(leaf);
  const std::uint64_t key = std::uint64_t{leaf.state} << 32 | std::uint64_t{left.missing} << 16 |
                            std::uint64_t{left.room} << 1 | (needs_all ? 1 : 0);
  const auto found = masks_.find(key);
  if (found != masks_.end()) return found->second;
  std::shared_ptr<const LeafMask> mask =
      LeafMaskWalk(matcher_, vocabulary_, left).Run(leaf.state, needs_all);
  if (memory_ + mask->memory() > max_memory_) {
    masks_.clear();
    memory_ = 0;
  }
  memory_ += mask->memory();
  masks_.emplace(key, mask);
  return mask;
}

}  // namespace fathom::constraint
