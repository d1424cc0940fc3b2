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
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "constraint/grammar/byte_set.h"
#include "constraint/work_meter.h"

namespace fathom {

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
  ~ExpressionPool();
  ExpressionPool(const ExpressionPool&) = delete;
  ExpressionPool& operator=(const ExpressionPool&) = delete;

  // --- Constructors ---
  ExpressionId Nothing() const;  // no text matches
  ExpressionId Empty() const;    // the empty text
  ExpressionId Bytes(const ByteSet& set);
  ExpressionId Literal(std::string_view text);
  // Any of these texts; common beginnings are shared. O(bytes log n).
  ExpressionId AnyLiteral(std::vector<std::string_view> texts);
  ExpressionId OneLetter(Letter letter);
  ExpressionId Concat(ExpressionId first, ExpressionId second);
  ExpressionId Concat(std::span<const ExpressionId> parts);
  ExpressionId Or(std::span<const ExpressionId> alternatives);
  // The operands of And and Not must be regular: made of bytes only (HasLetters is false).
  ExpressionId And(std::span<const ExpressionId> all);
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
  bool IsNullable(ExpressionId id) const;
  // True if letters other than bytes occur.
  bool HasLetters(ExpressionId id) const;
  // True if And or Not occurs: the expression alone then does not show whether anything matches.
  bool HasBooleans(ExpressionId id) const;
  // The least number of bytes and letters of a text, or less where And and Not occur; at most
  // 2^32 - 1.
  std::uint32_t MinLength(ExpressionId id) const;
  // False if no text begins with a byte. May be true without such a text where And and Not occur.
  bool MayTakeBytes(ExpressionId id) const;
  std::size_t n_expressions() const;
  // Valid until the next expression is made.
  ExpressionView View(ExpressionId id) const;
  // Bytes of memory, roughly.
  std::size_t memory() const;

  // --- Bounds ---
  // Limits the work that derivatives and emptiness may do from now on, in expressions; four
  // operands in a list count as one expression. Resets exceeded().
  void SetLimit(std::size_t more_expressions);
  // Expressions and operands, as the limit counts them.
  std::size_t size() const;
  void RaiseLimit(std::size_t more_expressions);
  // True if the limit was reached, or the work has ended: derivatives and Prune may then be wrong
  // and must not be used.
  bool exceeded() const;
  WorkMeter& meter();

  // --- Derivatives ---
  // By byte: its class, in a partition of the bytes such that all expressions in the pool treat the
  // bytes of a class alike. A later Bytes with another set refines the partition: an owner of a
  // copy of it (an Automaton) must not see expressions that were made afterwards.
  const std::array<std::uint8_t, 256>& ByteClasses();
  int n_byte_classes();
  ExpressionId DeriveByte(ExpressionId id, std::uint8_t byte);
  ExpressionId DeriveLetter(ExpressionId id, Letter letter);
  // A larger language: `id` without its negations of finitely many texts. Where all texts of some
  // plain characters (character_classes.h), of any length, may come next in the result, they may
  // come next in `id`, too (over_approximate.cc).
  ExpressionId OverApproximate(ExpressionId id);
  // Appends the letters that may come first, each once, in ascending order.
  void FirstLetters(ExpressionId id, std::vector<Letter>& letters) const;
  // An equal expression in which each outermost And and Not has a text;
  // Nothing() if there is no text at all. Searches the derivatives of And and Not, and remembers
  // the results. The derivatives of the result need Prune again.
  ExpressionId Prune(ExpressionId id);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
