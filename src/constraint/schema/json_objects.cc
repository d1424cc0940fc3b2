// Objects of a plan, to be written as expressions.
#include <algorithm>

#include "constraint/schema/grammar_writer.h"

namespace fathom::constraint {
namespace {

constexpr std::size_t kMaxUnorderedKeys = 256;
constexpr std::size_t kMaxCountedMembers = 2'000'000;  // properties, squared, times counts

}  // namespace

ExpressionId GrammarWriter::OtherMember(const ObjectPlan& plan,
                                        const std::vector<KeyClass>& others) {
  ExpressionPool& pool = rules_.pool();
  std::vector<ExpressionId> members;
  for (const KeyClass& keys : others) {
    const ExpressionId value = Value(keys.value);
    if (value == pool.Nothing()) continue;
    StringShape shape = keys.keys;
    if (!plan.excluded.empty()) {
      StringPredicate named = tests_.Literals(plan.excluded);
      named.negated = true;
      shape.tests.insert(std::upper_bound(shape.tests.begin(), shape.tests.end(), named), named);
    }
    const ExpressionId text =
        rules_.Quoted(rules_.WithoutForbidden(tests_.Express(rules_.json_writer(), shape, true)));
    // In canonical texts these keys have one order.
    const ExpressionId key =
        rules_.Shared("key", text, std::nullopt,
                      rules_.is_canonical() ? LetterKind::kAscendingCall : LetterKind::kUniqueCall);
    members.push_back(pool.Concat({key, rules_.punctuation().colon, value}));
  }
  return pool.Or(members);
}

std::optional<LazyObject> GrammarWriter::Object(const ObjectPlan& plan) {
  ExpressionPool& pool = rules_.pool();
  LazyObject draft{.other = pool.Nothing(),
                   .minimum = plan.minimum,
                   .maximum = plan.maximum,
                   .minimum_others = plan.minimum_others};
  if (plan.maximum == 0) return plan.minimum == 0 ? std::optional(draft) : std::nullopt;
  draft.any_order = rules_.options().layout.key_order == JsonKeyOrder::kAny &&
                    plan.properties.size() <= kMaxUnorderedKeys && plan.maximum == kNoMaximum &&
                    plan.minimum <= 1 && plan.minimum_others == 0 && plan.wanted.empty();
  if (!plan.others.empty()) draft.other = OtherMember(plan, plan.others);
  for (const std::vector<KeyClass>& keys : plan.wanted) {
    draft.wanted.push_back(OtherMember(plan, keys));
  }
  for (const PropertyShape& property : plan.properties) {
    const bool is_forbidden = rules_.IsForbidden(property.name);
    const ExpressionId value = is_forbidden ? pool.Nothing() : Value(property.value);
    if (report_.failed() || (property.required && value == pool.Nothing())) return std::nullopt;
    draft.members.push_back(
        {.key = SpellQuoted(pool, property.name), .value = value, .required = property.required});
  }
  const std::size_t n = draft.members.size();
  const std::size_t top = draft.CountedTo(pool);
  if (!draft.any_order && top > 1 && n * n * top > kMaxCountedMembers) {
    report_.Fail(ConstraintErrorCode::kTooLarge, "",
                 draft.IsBounded(pool) ? "maxProperties" : "minProperties",
                 "expected fewer properties beside it");
    return std::nullopt;
  }
  return draft;
}

}  // namespace fathom::constraint
