// LazyObject: an object of a schema before it is written as an expression.
//
// A large object is a long expression, and an answer reaches few of a schema's objects. So a rule
// of objects keeps what its expression is made of, and is written when the matcher first enters it
// (RuleBody). Until then a short expression gives the facts that other rules need: which rules it
// calls, and which of them every text calls.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "constraint/grammar/grammar.h"

namespace fathom::constraint {

// The expressions between keys, values and members.
struct JsonPunctuation {
  ExpressionId blank = 0;  // where RFC 8259 allows white space
  ExpressionId comma = 0;  // between members or items
  ExpressionId colon = 0;  // between a key and its value
};

struct MemberDraft {
  ExpressionId key = 0;    // with its quotes
  ExpressionId value = 0;  // Nothing(): the member may not occur
  bool required = false;
};

struct LazyObject {
  std::vector<MemberDraft> members{};  // in the order of keys
  ExpressionId other = 0;              // a member with another key; Nothing(): there is none
  std::uint32_t minimum = 0;           // bounds of the number of members
  std::uint32_t maximum = kNoMaximum;
  std::uint32_t minimum_others = 0;
  bool any_order = false;
  // ObjectPlan::wanted; the first entry is Nothing().
  std::vector<ExpressionId> wanted{};

  // The number of members up to which the expression counts: 1 where only commas depend on it.
  std::uint32_t CountedTo(const ExpressionPool& pool) const;
  bool IsBounded(const ExpressionPool& pool) const;
};

// "{}" or "[]" around members or items, or nothing in between if may_be_empty.
ExpressionId Enclose(ExpressionPool& pool, ExpressionId blank, std::string_view brackets,
                     ExpressionId members, bool may_be_empty);
// The whole expression of the objects.
ExpressionId WriteObject(Grammar& grammar, const JsonPunctuation& punctuation,
                         const LazyObject& draft);

// The body of a rule: some objects, and an expression that is written already.
class ObjectsBody : public RuleBody {
 public:
  ObjectsBody(const JsonPunctuation& punctuation, ExpressionId written,
              std::vector<LazyObject> objects)
      : punctuation_(punctuation), written_(written), objects_(std::move(objects)) {}

  // True if the object does not count its members.
  static bool CanHold(const ExpressionPool& pool, const LazyObject& draft);
  // True if the objects have so many members that they are written later.
  static bool AreMany(const std::vector<LazyObject>& objects);

  ExpressionId Write(Grammar& grammar) const override;
  void Replace(const std::vector<ExpressionId>& replaced) override;
  // A stand-in for Write(), for rule_facts: it calls the same rules, and has texts wherever Write()
  // has; its texts call at least the rules that the texts of Write() call.
  ExpressionId Facts(ExpressionPool& pool) const;
  // Equal for bodies with equal expressions.
  std::vector<std::uint32_t> Key() const;

 private:
  const JsonPunctuation punctuation_;
  ExpressionId written_;
  std::vector<LazyObject> objects_;
};

}  // namespace fathom::constraint
