// StringPredicates: tests of texts by the keywords of strings: patterns, formats, lists of
// literals.
//
// A test is a small value. It can be tried on a text while a schema is read, before any derivative
// of the grammar's own expressions is taken, and it becomes an expression in either spelling: as
// within a JSON string, or raw.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "constraint/constraint_error.h"
#include "constraint/grammar/expression.h"
#include "constraint/readers/code_points.h"

namespace fathom::constraint {

// Matches the texts of an entry of StringPredicates, or if `negated` all others.
struct StringPredicate {
  std::uint32_t entry = 0;
  bool negated = false;
  friend auto operator<=>(const StringPredicate&, const StringPredicate&) = default;
};

// A set of texts: all tests pass, and the length in code points is within the bounds.
struct StringShape {
  std::vector<StringPredicate> tests{};  // ascending, each once
  std::uint32_t minimum = 0;
  std::uint32_t maximum = kNoMaximum;

  bool IsFree() const { return *this == StringShape(); }
  friend auto operator<=>(const StringShape&, const StringShape&) = default;
};

enum class TextSpelling { kJson, kRaw };

// The result of a bounded search in a shape.
struct TextSurvey {
  bool empty = false;
  bool finite = false;  // then `texts` has all of them
  std::vector<std::string> texts{};
};

// The expression of these texts, each in one spelling.
ExpressionId SpellLiterals(ExpressionPool& pool, const std::vector<std::string>& texts,
                           TextSpelling spelling);
// A text as a JSON string, with its quotes.
ExpressionId SpellQuoted(ExpressionPool& pool, std::string_view text);

// Writes tests into one pool in one spelling, and remembers what it wrote.
class TextWriter {
 public:
  // The pool must outlive the writer.
  TextWriter(ExpressionPool& pool, TextSpelling spelling) : pool_(pool), spelling_(spelling) {}

  ExpressionPool& pool() { return pool_; }
  TextSpelling spelling() const { return spelling_; }
  ExpressionId Spell(const CodePointSet& set);
  // One code point.
  ExpressionId AnyCodePoint();
  // The texts that match a regular expression as a whole, which must be valid.
  ExpressionId Whole(std::string_view regex);
  // The expression of an entry of StringPredicates, which `write` makes the first time.
  ExpressionId Entry(std::uint32_t entry, const std::function<ExpressionId()>& write);

 private:
  ExpressionPool& pool_;
  const TextSpelling spelling_;
  std::map<std::u32string, ExpressionId> sets_;
  std::map<std::uint32_t, ExpressionId> entries_;
};

// Writes an expression of texts in the writer's spelling.
using WriteTexts = ExpressionId (*)(TextWriter& writer);

class StringPredicates {
 public:
  // `meter`, which must outlive the tests, counts the work.
  explicit StringPredicates(WorkMeter& meter);
  ~StringPredicates();

  // A test that searches the text for the regular expression.
  ConstraintResult<StringPredicate> Pattern(std::string_view regex);
  // A test that matches the whole text with the regular expression of a format, which must be
  // valid.
  StringPredicate Format(std::string_view regex);
  // A test for the texts that `write` writes, the same in each spelling.
  StringPredicate Written(WriteTexts write);
  StringPredicate Literals(std::vector<std::string> texts);
  // The literals of a test, sorted, or nullptr.
  const std::vector<std::string>* FindLiterals(StringPredicate test) const;

  bool Matches(StringPredicate test, std::string_view text);
  bool Matches(const StringShape& shape, std::string_view text);
  // Sets of literals are filtered immediately. nullopt: plainly no text is in both.
  std::optional<StringShape> Intersect(const StringShape& a, const StringShape& b);
  // The texts outside the shape, as a union.
  static std::vector<StringShape> Complement(const StringShape& shape);
  // Lists the texts if there are at most `most`. A search that is given up reports neither empty
  // nor finite. Results are kept.
  const TextSurvey& Survey(const StringShape& shape, std::size_t most);

  // The texts in one spelling each; the bounds of the length only with `lengths`.
  ExpressionId Express(TextWriter& writer, const StringShape& shape, bool lengths) const;

 private:
  struct Entry;
  struct Surveyed;
  // The entry with its expression, in a pool of its own.
  Entry& Expressed(std::uint32_t entry);
  Entry& Compiled(std::uint32_t entry);
  StringPredicate Add(Entry entry);
  TextSurvey MakeSurvey(const StringShape& shape, std::size_t most);
  ExpressionId ExpressEntry(TextWriter& writer, std::uint32_t entry) const;

  WorkMeter& meter_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::unique_ptr<Surveyed> surveyed_;
  std::map<std::string, StringPredicate, std::less<>> patterns_;
  std::map<std::string, StringPredicate> formats_;
  std::map<WriteTexts, StringPredicate> written_;
  std::map<std::vector<std::string>, StringPredicate> literals_;
  std::map<std::pair<StringShape, std::size_t>, TextSurvey> surveys_;
};

}  // namespace fathom::constraint
