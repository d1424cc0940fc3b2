// BytePairEncoder: encodes one piece of text as token ids (docs/spec/tokenizer.md 2 and 5).
//
// A piece begins as one token per byte. Among all adjacent pairs that have a merge, the pair with
// the lowest rank, the leftmost among equals, is replaced by its product, until no pair has a
// merge.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "base/stop_check.h"
#include "base/tensor.h"
#include "tokenizer/vocabulary.h"

namespace fathom::tokenizer {

// Working memory of Encode, reused from piece to piece; any state is a valid initial state.
struct BpeScratch {
  std::vector<Token> tokens;
  std::vector<std::uint32_t> ranks;  // rank of the pair (tokens[i], the token after it)
  std::vector<std::uint32_t> previous;
  std::vector<std::uint32_t> next;
  std::vector<std::uint64_t> heap;  // rank << 32 | position of the left token
};

// Immutable after construction: all methods may be called from many threads, each with its own
// scratch. The vocabulary must outlive the encoder.
class BytePairEncoder {
 public:
  // Positions in a piece are 32-bit numbers.
  static constexpr std::size_t kMaxPieceBytes = std::numeric_limits<std::int32_t>::max();

  BytePairEncoder(const Vocabulary& vocabulary, const BpeModel& model);

  // Appends the tokens of piece: by table if the whole piece is a token, otherwise by scan or by
  // heap. Returns false, and appends none, if `stop` returned true while a long piece was encoded.
  bool Encode(std::string_view piece, BpeScratch& scratch, std::vector<Token>& tokens,
              const StopFunction& stop = {}) const;

  // Two algorithms that yield equal tokens. Scan: O(n^2), fast for a word. Heap: O(n log n), for
  // pieces of any length.
  void EncodeByScan(std::string_view piece, BpeScratch& scratch, std::vector<Token>& tokens) const;
  bool EncodeByHeap(std::string_view piece, BpeScratch& scratch, std::vector<Token>& tokens,
                    const StopFunction& stop = {}) const;

 private:
  static constexpr std::uint32_t kNoMerge = std::numeric_limits<std::uint32_t>::max();
  static constexpr Token kNoToken = -1;

  // Open addressing, at most half full; rank kNoMerge marks a free slot.
  struct PairSlot {
    Token left;
    Token right;
    std::uint32_t rank;
  };
  struct PieceSlot {
    std::uint32_t tag;  // high half of the hash: rejects most other pieces quickly
    Token token;        // kNoToken: free
  };

  void BuildPairs(std::span<const Merge> merges);
  void BuildPieces(const BpeModel& model);
  std::uint32_t Rank(Token left, Token right) const;
  Token FindPiece(std::string_view piece) const;
  // Makes every byte a part and fills the heap.
  void StartList(std::string_view piece, BpeScratch& scratch) const;
  // Finds the rank of the pair that begins at `left`; if it has a rank, appends the pair to the
  // heap's array and returns true.
  bool PushPair(std::uint32_t left, BpeScratch& scratch) const;
  bool EncodesToItself(Token token, BpeScratch& scratch, std::vector<Token>& tokens) const;

  const Vocabulary* vocabulary_;
  std::array<Token, 256> byte_tokens_;
  std::vector<Token> products_;  // by rank
  std::vector<PairSlot> pairs_;
  std::vector<PieceSlot> pieces_;
  std::size_t longest_piece_bytes_ = 0;
};

}  // namespace fathom::tokenizer
