// ExpressionPool::Impl: the nodes of the expressions, for the files that implement ExpressionPool.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/grammar/byte_set.h"
#include "constraint/grammar/expression.h"

namespace fathom {

// The fields of a node, by its kind:
//   kBytes    a: index of the set
//   kText     a: offset of the bytes in `text_bytes`; b: their number, 2 ... kMaxText
//   kLetter   a: index of the letter
//   kConcat   a: first, which is no kConcat; b: rest
//   kOr, kAnd a: offset of the operands, b: their number; ascending ids, none of them of this kind
//   kNot      a: operand
//   kRepeat   a: operand, b: minimum, c: maximum
//   kMultiple a: modulus, b: remainder of the digits so far, c: MultipleRest as a number

inline constexpr std::uint8_t kNullable = 1;
inline constexpr std::uint8_t kHasLetters = 2;
inline constexpr std::uint8_t kHasBooleans = 4;
inline constexpr std::uint8_t kFirstByte = 8;     // a byte may come first
inline constexpr std::uint8_t kFirstLetter = 16;  // a letter may come first
// Clear only in regular expressions that finitely many texts match.
inline constexpr std::uint8_t kMayBeEndless = 32;

// Whether a text matches, as far as a search has found.
enum class ExpressionLife : std::uint8_t { kUnknown, kAlive, kDead };

struct ExpressionNode {
  ExpressionKind kind = ExpressionKind::kNothing;
  std::uint8_t flags = 0;
  std::uint8_t within = 0;  // by unit, as bits: all texts are sequences of texts of the unit
  ExpressionLife life = ExpressionLife::kUnknown;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::uint32_t c = 0;
  std::uint32_t min_length = 0;
};

inline std::uint64_t MixHash(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 32);
}

// A hash table from 64-bit keys to ids, without deletion.
class IdMap {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  // kNone if there is no such key.
  std::uint32_t Find(std::uint64_t key) const;
  // Sets the value of a key, which must not be ~0.
  void Set(std::uint64_t key, std::uint32_t value);
  void Clear();
  std::size_t size() const { return size_; }
  std::size_t memory() const { return slots_.capacity() * sizeof(Slot); }
  // The bytes of one entry: the table is a quarter to half full, or is being copied to one twice as
  // large.
  static constexpr std::size_t kBytesPerEntry = 48;

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kFree;
    std::uint32_t value = 0;
  };
  std::size_t FindSlot(std::uint64_t key) const;

  static constexpr std::size_t kLeastSlots = 16;
  static constexpr std::uint64_t kKeysPerGroup = 4;
  std::vector<Slot> slots_;  // a power of two, at most half full
  int group_shift_ = 64;     // from a hash to the number of its group
  std::size_t size_ = 0;
};

struct ExpressionPool::Impl {
  using Id = ExpressionId;
  using Kind = ExpressionKind;
  static constexpr Id kNothing = 0;
  static constexpr Id kEmpty = 1;
  static constexpr std::uint32_t kFirstLetterSymbol = 256;
  static constexpr int kMaxUnits = 8;
  static constexpr std::size_t kMaxText = 64;  // longer texts are several nodes in a row
  // Costs in the units of WorkMeter. Vectors and tables have room for up to twice as much as they
  // hold.
  static constexpr std::size_t kOperandsPerStep = 8;
  static constexpr std::size_t kBytesPerNode = 64;
  static constexpr std::size_t kBytesPerOperand = 6;

  explicit Impl(WorkMeter* counts);
  ~Impl() { meter.Release(n_bytes); }

  // Counts bytes that are kept until the pool ends.
  void Keep(std::size_t bytes) {
    n_bytes += bytes;
    meter.Keep(bytes);
  }

  // --- Nodes (expression.cc) ---
  Id Intern(ExpressionNode node, std::span<const Id> operands = {});
  Id Bytes(const ByteSet& set);
  Id Byte(std::uint8_t byte);
  // A text of any length. `text` may point into `text_bytes`.
  Id Literal(std::string_view text);
  Id InternText(std::string_view text);
  std::string_view Text(const ExpressionNode& node) const {
    return std::string_view(text_bytes).substr(node.a, node.b);
  }
  Id OneLetter(Letter letter);
  Id Concat(Id first, Id second);
  Id ConcatOne(Id part, Id rest);  // `part` is no kConcat
  Id And(std::span<const Id> all);
  Id Not(Id operand);
  Id Repeat(Id operand, std::uint32_t minimum, std::uint32_t maximum);
  // expression_multiple.cc
  Id Multiple(std::uint32_t modulus, std::uint32_t remainder, std::uint32_t rest);
  Id DeriveMultiple(const ExpressionNode& node, std::uint32_t symbol);
  Id Any() const { return any; }  // every sequence of bytes
  bool Has(Id id, std::uint8_t flag) const { return (nodes[id].flags & flag) != 0; }
  std::span<const Id> Operands(const ExpressionNode& node) const {
    return std::span(operands).subspan(node.a, node.b);
  }
  // The bit of a unit whose endless repetition this is, or 0.
  std::uint8_t UniverseBit(Id id) const;
  // Nodes and operands, in units of the limit.
  std::size_t size() const { return nodes.size() + operands.size() / 4; }

  // --- Or (expression_or.cc) ---
  Id Or(std::span<const Id> alternatives);
  Id Or(Id a, Id b);
  struct OrFrame;  // an Or that is being built
  OrFrame BeginOr(std::span<const Id> alternatives, bool factor);
  void GroupByFirst(std::span<const Id> list, OrFrame& frame);
  Id FinishOr(OrFrame& frame);
  // Joins counted alternatives whose ranges meet; `list` is ascending and stays so.
  void MergeCounts(std::vector<Id>& list);
  Id AnyLiteral(std::vector<std::string_view>& texts);

  // --- Derivatives (derivative.cc) ---
  void RefineClasses(const ByteSet& set);
  void MakeClasses();
  std::uint32_t Symbol(std::uint8_t byte) const { return class_of[byte]; }
  Id Derive(Id id, std::uint32_t symbol);
  // The derivative if it takes no work or was computed before, or IdMap::kNone.
  Id KnownDerivative(Id id, std::uint32_t symbol) const;
  Id CombineDerivatives(Id id, std::uint32_t symbol);
  void FirstLetters(Id id, std::vector<Letter>& found) const;

  // --- Larger languages (over_approximate.cc) ---
  Id OverApproximate(Id id);
  Id LoosenAnd(const ExpressionNode& node);
  bool BeginsPlainly(Id id) const;

  // --- Emptiness (emptiness.cc) ---
  Id Prune(Id id);
  Id PruneKnown(Id id) const;  // IdMap::kNone: not yet computed
  Id PruneNode(Id id);
  // True if no text matches; sets `exceeded` where the search gives up. False if the work has
  // ended.
  bool IsDead(Id id);

  std::vector<ExpressionNode> nodes;
  std::vector<Id> operands;
  // A slot of the hash table of the nodes, which is at most half full.
  struct Slot {
    std::uint32_t hash = 0;
    Id next_id = 0;  // the node's id + 1, or 0
  };
  std::vector<Slot> table;
  std::string text_bytes;
  std::array<Id, 256> byte_ids{};  // by byte: the set of this byte; kNothing: not made yet
  std::vector<ByteSet> sets;
  std::map<ByteSet, std::uint32_t> set_ids;
  std::vector<Letter> letters;
  std::map<Letter, std::uint32_t> letter_ids;
  std::vector<Id> units;
  Id any = kNothing;

  bool has_classes = false;
  std::array<std::uint8_t, 256> class_of{};
  std::vector<std::uint8_t> representatives;  // by class: one of its bytes
  IdMap derivatives;                          // (id, symbol)
  IdMap pruned;                               // id

  std::unique_ptr<WorkMeter> own_meter;
  WorkMeter& meter;
  std::size_t n_bytes = 0;  // the bytes that the meter counts for the pool
  std::uint64_t work = 0;   // derivatives that were made; eight operands count as one more
  std::size_t limit = 0;
  bool exceeded = false;

 private:
  void GrowTable();
  static std::uint32_t HashNode(const ExpressionNode& node, std::span<const Id> list);
  bool Equal(const ExpressionNode& a, const ExpressionNode& b, std::span<const Id> list) const;
};

}  // namespace fathom
