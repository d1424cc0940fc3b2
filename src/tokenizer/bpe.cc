#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "base/check.h"

namespace fathom::tokenizer {
namespace {

// Up to this length the scan is faster than the heap (measured on words and on random bytes).
constexpr std::size_t kMaxScanBytes = 64;

// 2^64 / golden ratio: multiplication by it spreads neighbouring values over the high bits.
constexpr std::uint64_t kSpread = 0x9E3779B97F4A7C15u;

constexpr std::greater<> kLowestFirst;  // makes the standard heaps return the lowest value

std::uint64_t HashPair(Token left, Token right) {
  const std::uint64_t key = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) |
                            static_cast<std::uint32_t>(right);
  const std::uint64_t product = (key ^ (key >> 29)) * kSpread;
  return product ^ (product >> 32);
}

std::uint64_t HashPiece(std::string_view piece) {
  std::uint64_t hash = piece.size() * kSpread;
  const auto mix = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * kSpread;
    hash ^= hash >> 32;
  };
  std::uint64_t word = 0;
  while (piece.size() >= sizeof(word)) {
    std::memcpy(&word, piece.data(), sizeof(word));
    mix(word);
    piece.remove_prefix(sizeof(word));
  }
  word = 0;
  std::memcpy(&word, piece.data(), piece.size());
  mix(word);
  return hash;
}

}  // namespace

BytePairEncoder::BytePairEncoder(const Vocabulary& vocabulary, const BpeModel& model)
    : vocabulary_(&vocabulary), byte_tokens_(model.byte_tokens) {
  BuildPairs(model.merges);
  BuildPieces(model);
}

void BytePairEncoder::BuildPairs(std::span<const Merge> merges) {
  pairs_.resize(std::bit_ceil(2 * merges.size() + 1), {kNoToken, kNoToken, kNoMerge});
  const std::size_t mask = pairs_.size() - 1;
  products_.reserve(merges.size());
  for (const Merge& merge : merges) {
    std::size_t slot = HashPair(merge.left, merge.right) & mask;
    while (pairs_[slot].rank != kNoMerge) {
      slot = (slot + 1) & mask;
    }
    pairs_[slot] = {merge.left, merge.right, static_cast<std::uint32_t>(products_.size())};
    products_.push_back(merge.product);
  }
}

// A whole piece may be looked up only if merging would yield the same single token. The model does
// not guarantee this, so every token is tried once, unless the model always demands the look-up.
void BytePairEncoder::BuildPieces(const BpeModel& model) {
  pieces_.resize(std::bit_ceil(2 * model.tokens.size() + 1), {0, kNoToken});
  const std::size_t mask = pieces_.size() - 1;
  BpeScratch scratch;
  std::vector<Token> tokens;
  for (const Token token : model.tokens) {
    if (!model.ignore_merges && !EncodesToItself(token, scratch, tokens)) continue;
    const std::string_view bytes = vocabulary_->Bytes(token);
    longest_piece_bytes_ = std::max(longest_piece_bytes_, bytes.size());
    const std::uint64_t hash = HashPiece(bytes);
    std::size_t slot = hash & mask;
    while (pieces_[slot].token != kNoToken) {
      slot = (slot + 1) & mask;
    }
    pieces_[slot] = {static_cast<std::uint32_t>(hash >> 32), token};
  }
}

bool BytePairEncoder::EncodesToItself(Token token, BpeScratch& scratch,
                                      std::vector<Token>& tokens) const {
  const std::string_view bytes = vocabulary_->Bytes(token);
  tokens.clear();
  if (bytes.size() <= kMaxScanBytes) {
    EncodeByScan(bytes, scratch, tokens);
  } else {
    EncodeByHeap(bytes, scratch, tokens);
  }
  return tokens.size() == 1 && tokens[0] == token;
}

std::uint32_t BytePairEncoder::Rank(Token left, Token right) const {
  const std::size_t mask = pairs_.size() - 1;
  std::size_t slot = HashPair(left, right) & mask;
  while (pairs_[slot].rank != kNoMerge &&
         (pairs_[slot].left != left || pairs_[slot].right != right)) {
    slot = (slot + 1) & mask;
  }
  return pairs_[slot].rank;
}

Token BytePairEncoder::FindPiece(std::string_view piece) const {
  if (piece.size() > longest_piece_bytes_) return kNoToken;
  const std::uint64_t hash = HashPiece(piece);
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  const std::size_t mask = pieces_.size() - 1;
  std::size_t slot = hash & mask;
  while (pieces_[slot].token != kNoToken) {
    if (pieces_[slot].tag == tag && vocabulary_->Bytes(pieces_[slot].token) == piece) {
      return pieces_[slot].token;
    }
    slot = (slot + 1) & mask;
  }
  return kNoToken;
}

bool BytePairEncoder::Encode(std::string_view piece, BpeScratch& scratch,
                             std::vector<Token>& tokens, const StopFunction& stop) const {
  const Token whole = FindPiece(piece);
  if (whole != kNoToken) {
    tokens.push_back(whole);
  } else if (piece.size() <= kMaxScanBytes) {
    EncodeByScan(piece, scratch, tokens);
  } else {
    return EncodeByHeap(piece, scratch, tokens, stop);
  }
  return true;
}

void BytePairEncoder::EncodeByScan(std::string_view piece, BpeScratch& scratch,
                                   std::vector<Token>& tokens) const {
  if (piece.empty()) return;
  std::size_t n_parts = piece.size();
  scratch.tokens.resize(n_parts);
  scratch.ranks.resize(n_parts);
  Token* parts = scratch.tokens.data();
  std::uint32_t* ranks = scratch.ranks.data();
  for (std::size_t i = 0; i < n_parts; ++i) {
    parts[i] = byte_tokens_[static_cast<std::uint8_t>(piece[i])];
  }
  for (std::size_t i = 0; i + 1 < n_parts; ++i) {
    ranks[i] = Rank(parts[i], parts[i + 1]);
  }
  while (n_parts > 1) {
    const std::size_t n_pairs = n_parts - 1;
    const auto best = static_cast<std::size_t>(std::min_element(ranks, ranks + n_pairs) - ranks);
    if (ranks[best] == kNoMerge) break;
    parts[best] = products_[ranks[best]];
    std::copy(parts + best + 2, parts + n_parts, parts + best + 1);
    if (best + 1 < n_pairs) {
      std::copy(ranks + best + 2, ranks + n_pairs, ranks + best + 1);
    }
    --n_parts;
    if (best + 1 < n_parts) {
      ranks[best] = Rank(parts[best], parts[best + 1]);
    }
    if (best > 0) {
      ranks[best - 1] = Rank(parts[best - 1], parts[best]);
    }
  }
  tokens.insert(tokens.end(), parts, parts + n_parts);
}

bool BytePairEncoder::PushPair(std::uint32_t left, BpeScratch& scratch) const {
  const std::uint32_t right = scratch.next[left];
  std::uint32_t& rank = scratch.ranks[left];
  rank = kNoMerge;
  if (right < scratch.tokens.size()) {
    rank = Rank(scratch.tokens[left], scratch.tokens[right]);
  }
  if (rank == kNoMerge) return false;
  scratch.heap.push_back((static_cast<std::uint64_t>(rank) << 32) | left);
  return true;
}

void BytePairEncoder::StartList(std::string_view piece, BpeScratch& scratch) const {
  const auto n_bytes = static_cast<std::uint32_t>(piece.size());
  scratch.tokens.resize(n_bytes);
  scratch.ranks.resize(n_bytes);
  scratch.previous.resize(n_bytes);
  scratch.next.resize(n_bytes);
  scratch.heap.clear();
  for (std::uint32_t i = 0; i < n_bytes; ++i) {
    scratch.tokens[i] = byte_tokens_[static_cast<std::uint8_t>(piece[i])];
    scratch.previous[i] = i - 1;  // never used for the first part
    scratch.next[i] = i + 1;      // past the end for the last part
  }
  for (std::uint32_t i = 0; i < n_bytes; ++i) {
    PushPair(i, scratch);
  }
  std::make_heap(scratch.heap.begin(), scratch.heap.end(), kLowestFirst);
}

// The parts are a doubly linked list by position of their first byte. A pair in the heap is
// outdated if its left part no longer has the pair's rank: a rank identifies one pair, so a
// comparison of ranks is enough.
bool BytePairEncoder::EncodeByHeap(std::string_view piece, BpeScratch& scratch,
                                   std::vector<Token>& tokens, const StopFunction& stop) const {
  Check(piece.size() <= kMaxPieceBytes, "a piece has 32-bit positions");
  StartList(piece, scratch);
  std::vector<std::uint64_t>& heap = scratch.heap;
  std::vector<std::uint32_t>& next = scratch.next;
  const std::size_t n_bytes = piece.size();
  StopCheck check(stop);
  std::size_t n_popped = 0;
  while (!heap.empty()) {
    if (check.IsStopped(++n_popped)) return false;
    std::pop_heap(heap.begin(), heap.end(), kLowestFirst);
    const auto rank = static_cast<std::uint32_t>(heap.back() >> 32);
    const auto left = static_cast<std::uint32_t>(heap.back());
    heap.pop_back();
    if (scratch.ranks[left] != rank) continue;
    const std::uint32_t right = next[left];
    scratch.tokens[left] = products_[rank];
    scratch.ranks[right] = kNoMerge;
    next[left] = next[right];
    if (next[left] != n_bytes) {
      scratch.previous[next[left]] = left;
    }
    if (PushPair(left, scratch)) {
      std::push_heap(heap.begin(), heap.end(), kLowestFirst);
    }
    if (left != 0 && PushPair(scratch.previous[left], scratch)) {
      std::push_heap(heap.begin(), heap.end(), kLowestFirst);
    }
  }
  for (std::uint32_t i = 0; i < n_bytes; i = next[i]) {
    tokens.push_back(scratch.tokens[i]);
  }
  return true;
}

}  // namespace fathom::tokenizer
