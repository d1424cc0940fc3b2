// ExpressionPool: the bodies of grammar rules as regular expressions
// (docs/spec/constrained.md 3.2).
//
// The alphabet has bytes, and letters that are no bytes: tokens of the vocabulary that a grammar
// names, calls of other rules, and marks. Equal expressions have equal ids (hash-consing), and the
// constructors simplify, so that an expression has few derivatives. A derivative of e by a letter
// is the expression of what may follow the letter in e (Brzozowski 1964); repetitions keep their
// bounds as numbers and are never unrolled in memory beyond what was read.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/grammar/byte_set.h"
#include "constraint/grammar/id_map.h"
#include "constraint/work_meter.h"

namespace fathom::constraint {

using ExpressionId = std::uint32_t;
using RuleId = std::uint32_t;

// Letters that are no bytes.
enum class LetterKind : std::uint8_t {
  kToken,       // value: a token of the vocabulary, such as ｜DSML｜
  kCall,        // value: a rule, whose text stands here
  kUniqueCall,  // as kCall, but the text must differ from all texts of earlier unique calls in the
                // same place: same rule body, same entry of it (keys of an object, unique items)
  kAscendingCall,  // as kUniqueCall, but the text must be greater, in the order of bytes, than the
                   // text of the previous ascending call
  kMark,           // value: 0 ... 1023; takes no text; may be passed once in an entry of the rule
  kNeed,           // value: a set of marks (Grammar::AddNeed); takes no text; passes if all are set
  kOtherToken,     // value: a token; takes any one token of ordinary text (no added one) but this
};

struct Letter {
  LetterKind kind = LetterKind::kToken;
  std::uint32_t value = 0;
  friend constexpr auto operator<=>(const Letter&, const Letter&) = default;
};

constexpr bool IsCall(Letter letter) {
  return letter.kind == LetterKind::kCall || letter.kind == LetterKind::kUniqueCall ||
         letter.kind == LetterKind::kAscendingCall;
}

enum class ExpressionKind : std::uint8_t {
  kNothing,
  kEmpty,
  kBytes,
  kText,  // several bytes, one after the other: no operands
  kLetter,
  kConcat,
  kOr,
  kAnd,
  kNot,
  kRepeat,
  kMultiple,  // a remainder automaton: no operands
};

// An expression as the pool keeps it. Its operands have lower ids.
struct ExpressionView {
  ExpressionKind kind = ExpressionKind::kNothing;
  std::span<const ExpressionId> operands{};
  Letter letter{};            // kLetter
  std::uint32_t minimum = 0;  // kRepeat
  std::uint32_t maximum = 0;
};

inline constexpr std::uint32_t kNoMaximum = std::numeric_limits<std::uint32_t>::max();

// Owns the expressions; ids are valid as long as the pool. Grows as expressions are made and frees
// none, so its owner must bound n_expressions(). One thread at a time.
class ExpressionPool {
 public:
  // `meter`, which must outlive the pool, counts its work and memory; null: the pool has a meter of
  // its own.
  explicit ExpressionPool(WorkMeter* meter = nullptr);
  ~ExpressionPool() { meter_.Release(n_bytes_); }
  ExpressionPool(const ExpressionPool&) = delete;
  ExpressionPool& operator=(const ExpressionPool&) = delete;

  // --- Constructors ---
  ExpressionId Nothing() const { return kNothing; }  // no text matches
  ExpressionId Empty() const { return kEmpty; }      // the empty text
  ExpressionId Bytes(const ByteSet& set);
  // A text of any length. `text` may be the text of an expression.
  ExpressionId Literal(std::string_view text);
  // Any of these texts; common beginnings are shared. O(bytes log n).
  ExpressionId AnyLiteral(std::vector<std::string_view> texts);
  ExpressionId OneLetter(Letter letter);
  ExpressionId Concat(ExpressionId first, ExpressionId second);
  ExpressionId Concat(std::span<const ExpressionId> parts);
  ExpressionId Concat(std::initializer_list<ExpressionId> parts) {
    return Concat(std::span(parts));
  }
  ExpressionId Or(std::span<const ExpressionId> alternatives);
  ExpressionId Or(std::initializer_list<ExpressionId> either) { return Or(std::span(either)); }
  // The operands of And and Not must be regular: made of bytes only (HasLetters is false).
  ExpressionId And(std::span<const ExpressionId> all);
  ExpressionId And(std::initializer_list<ExpressionId> all) { return And(std::span(all)); }
  ExpressionId Not(ExpressionId operand);
  // `operand` from `minimum` to `maximum` times (kNoMaximum: without limit).
  ExpressionId Repeat(ExpressionId operand, std::uint32_t minimum, std::uint32_t maximum);
  ExpressionId Optional(ExpressionId operand) { return Repeat(operand, 0, 1); }
  // Decimal digits whose number, times 10^fraction_digits, is a multiple of `modulus` (1 to
  // 10,000): a remainder automaton of multipleOf. A point may stand among the digits, and zeros may
  // follow the first fraction_digits digits of the fraction; fraction_digits = -1: no point.
  // Leading zeros and the empty text match.
  ExpressionId Multiple(std::uint32_t modulus, int fraction_digits);

  // Declares that every text of `part` is a sequence of texts of `unit`, as a text in UTF-8 is a
  // sequence of code points. Or and And then know that `part` is within the repetition of `unit`,
  // as are expressions that are built from declared parts. At most eight units are kept; more are
  // ignored.
  void DeclareWithin(ExpressionId part, ExpressionId unit);

  // --- Properties ---
  // True if the empty text matches.
  bool IsNullable(ExpressionId id) const { return Has(id, kNullable); }
  // True if letters other than bytes occur.
  bool HasLetters(ExpressionId id) const { return Has(id, kHasLetters); }
  // True if And or Not occurs: the expression alone then does not show whether anything matches.
  bool HasBooleans(ExpressionId id) const { return Has(id, kHasBooleans); }
  // The least number of bytes and letters of a text, or less where And and Not occur; at most
  // 2^32 - 1.
  std::uint32_t MinLength(ExpressionId id) const { return nodes_[id].min_length; }
  // False if no text begins with a byte. May be true without such a text where And and Not occur.
  bool MayTakeBytes(ExpressionId id) const { return Has(id, kFirstByte); }
  std::size_t n_expressions() const { return nodes_.size(); }
  // Valid until the next expression is made.
  ExpressionView View(ExpressionId id) const;
  // Bytes of memory, roughly.
  std::size_t memory() const;

  // --- Bounds ---
  // Limits the work that derivatives and emptiness may do from now on, in expressions; four
  // operands in a list count as one expression. Resets exceeded().
  void SetLimit(std::size_t more_expressions);
  // Expressions and operands, as the limit counts them.
  std::size_t size() const { return nodes_.size() + operands_.size() / 4; }
  void RaiseLimit(std::size_t more_expressions) { limit_ += more_expressions; }
  // True if the limit was reached, or the work has ended: derivatives and Prune may then be wrong
  // and must not be used.
  bool exceeded() const { return exceeded_ || meter_.HasEnded(); }
  WorkMeter& meter() { return meter_; }

  // --- Derivatives ---
  // By byte: its class, in a partition of the bytes such that all expressions in the pool treat the
  // bytes of a class alike. A later Bytes with another set refines the partition: an owner of a
  // copy of it (an Automaton) must not see expressions that were made afterwards.
  const std::array<std::uint8_t, 256>& ByteClasses() {
    MakeClasses();
    return class_of_;
  }
  int n_byte_classes() {
    MakeClasses();
    return static_cast<int>(representatives_.size());
  }
  ExpressionId DeriveByte(ExpressionId id, std::uint8_t byte);
  ExpressionId DeriveLetter(ExpressionId id, Letter letter);
  // A larger language: `id` without its negations of finitely many texts. Where all texts of some
  // plain characters (character_classes.h), of any length, may come next in the result, they may
  // come next in `id`, too (over_approximate.cc).
  ExpressionId OverApproximate(ExpressionId id);
  // The letters that may come first, each once, in ascending order.
  std::vector<Letter> FirstLetters(ExpressionId id) const;
  // An equal expression in which each outermost And and Not has a text;
  // Nothing() if there is no text at all. Searches the derivatives of And and Not, and remembers
  // the results. The derivatives of the result need Prune again.
  ExpressionId Prune(ExpressionId id);

 private:
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

  // The flags of a node.
  static constexpr std::uint8_t kNullable = 1;
  static constexpr std::uint8_t kHasLetters = 2;
  static constexpr std::uint8_t kHasBooleans = 4;
  static constexpr std::uint8_t kFirstByte = 8;     // a byte may come first
  static constexpr std::uint8_t kFirstLetter = 16;  // a letter may come first
  // Clear only in regular expressions that finitely many texts match.
  static constexpr std::uint8_t kMayBeEndless = 32;

  // Whether a text matches, as far as a search has found.
  enum class Life : std::uint8_t { kUnknown, kAlive, kDead };

  // The fields of a node, by its kind:
  //   kBytes    a: index of the set
  //   kText     a: offset of the bytes in `text_bytes_`; b: their number, 2 ... kMaxText
  //   kLetter   a: index of the letter
  //   kConcat   a: first, which is no kConcat; b: rest
  //   kOr, kAnd a: offset of the operands, b: their number; ascending ids, none of this kind
  //   kNot      a: operand
  //   kRepeat   a: operand, b: minimum, c: maximum
  //   kMultiple a: modulus, b: remainder of the digits so far, c: MultipleRest as a number
  struct Node {
    Kind kind = Kind::kNothing;
    std::uint8_t flags = 0;
    std::uint8_t within = 0;  // by unit, as bits: all texts are sequences of texts of the unit
    Life life = Life::kUnknown;
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    std::uint32_t c = 0;
    std::uint32_t min_length = 0;
  };
  // A slot of the hash table of the nodes, which is at most half full.
  struct Slot {
    std::uint32_t hash = 0;
    Id next_id = 0;  // the node's id + 1, or 0
  };

  // Counts bytes that are kept until the pool ends.
  void Keep(std::size_t bytes) {
    n_bytes_ += bytes;
    meter_.Keep(bytes);
  }

  // --- Nodes (expression.cc) ---
  Id Intern(Node node, std::span<const Id> list = {});
  void GrowTable();
  static std::uint32_t HashNode(const Node& node, std::span<const Id> list);
  bool Equal(const Node& a, const Node& b, std::span<const Id> list) const;
  Id Byte(std::uint8_t byte);
  Id InternText(std::string_view text);
  std::string_view Text(const Node& node) const {
    return std::string_view(text_bytes_).substr(node.a, node.b);
  }
  Id ConcatOne(Id part, Id rest);  // `part` is no kConcat
  // expression_multiple.cc
  Id Multiple(std::uint32_t modulus, std::uint32_t remainder, std::uint32_t rest);
  Id DeriveMultiple(const Node& node, std::uint32_t symbol);
  bool Has(Id id, std::uint8_t flag) const { return (nodes_[id].flags & flag) != 0; }
  std::span<const Id> Operands(const Node& node) const {
    return std::span(operands_).subspan(node.a, node.b);
  }
  // The bit of a unit whose endless repetition this is, or 0.
  std::uint8_t UniverseBit(Id id) const;

  // --- Or (expression_or.cc) ---
  Id Or(Id a, Id b);
  struct OrFrame;  // an Or that is being built
  OrFrame BeginOr(std::span<const Id> alternatives, bool factor);
  void GroupByFirst(std::span<const Id> list, OrFrame& frame);
  Id FinishOr(OrFrame& frame);
  // Joins counted alternatives whose ranges meet; `list` is ascending and stays so.
  void MergeCounts(std::vector<Id>& list);

  // --- Derivatives (derivative.cc) ---
  void RefineClasses(const ByteSet& set);
  void MakeClasses();
  // `symbol`: a class of bytes, or kFirstLetterSymbol and the index of a letter.
  Id Derive(Id id, std::uint32_t symbol);
  // The derivative if it takes no work or was computed before, or IdMap::kNone.
  Id KnownDerivative(Id id, std::uint32_t symbol) const;
  Id CombineDerivatives(Id id, std::uint32_t symbol);

  // --- Larger languages (over_approximate.cc) ---
  Id LoosenAnd(const Node& node);
  bool BeginsPlainly(Id id) const;

  // --- Emptiness (emptiness.cc) ---
  Id PruneKnown(Id id) const;  // IdMap::kNone: not yet computed
  Id PruneNode(Id id);
  // True if no text matches; sets `exceeded_` where the search gives up. False if the work has
  // ended.
  bool IsDead(Id id);

  std::vector<Node> nodes_;
  std::vector<Id> operands_;
  std::vector<Slot> table_;
  std::string text_bytes_;
  std::array<Id, 256> byte_ids_{};  // by byte: the set of this byte; kNothing: not made yet
  std::vector<ByteSet> sets_;
  std::map<ByteSet, std::uint32_t> set_ids_;
  std::vector<Letter> letters_;
  std::map<Letter, std::uint32_t> letter_ids_;
  std::vector<Id> units_;
  Id any_ = kNothing;  // every sequence of bytes

  bool has_classes_ = false;
  std::array<std::uint8_t, 256> class_of_{};
  std::vector<std::uint8_t> representatives_;  // by class: one of its bytes
  IdMap derivatives_;                          // (id, symbol)
  IdMap pruned_;                               // id

  std::unique_ptr<WorkMeter> own_meter_;
  WorkMeter& meter_;
  std::size_t n_bytes_ = 0;  // the bytes that the meter counts for the pool
  std::uint64_t work_ = 0;   // derivatives that were made; eight operands count as one more
  std::size_t limit_ = 0;
  bool exceeded_ = false;
};

}  // namespace fathom::constraint
