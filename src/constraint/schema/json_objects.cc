// Objects as expressions.
#include <algorithm>

#include "constraint/schema/grammar_writer.h"

namespace fathom {
namespace {

constexpr std::size_t kMaxUnorderedKeys = 256;
constexpr std::size_t kMaxCountedMembers = 2'000'000;  // properties, squared, times counts

std::uint32_t MaximumWithout(std::uint32_t maximum, std::uint32_t n) {
  return maximum == kNoMaximum ? kNoMaximum : maximum - std::min(maximum, n);
}

}  // namespace

ExpressionId GrammarWriter::Member(const PropertyShape& property) {
  ExpressionPool& pool = rules_.pool();
  if (rules_.IsForbidden(property.name)) return pool.Nothing();
  const ExpressionId value = Value(property.value);
  if (value == pool.Nothing()) return value;
  const ExpressionId quote = pool.Literal("\"");
  const ExpressionId parts[] = {quote, SpellLiterals(pool, {property.name}, TextSpelling::kJson),
                                quote, rules_.colon(), value};
  return pool.Concat(parts);
}

ExpressionId GrammarWriter::OtherMember(const ObjectPlan& plan) {
  ExpressionPool& pool = rules_.pool();
  std::vector<ExpressionId> members;
  for (const KeyClass& keys : plan.others) {
    const ExpressionId value = Value(keys.value);
    if (value == pool.Nothing()) continue;
    StringShape shape = keys.keys;
    if (!plan.excluded.empty()) {
      TextTest named = tests_.Literals(plan.excluded);
      named.negated = true;
      shape.tests.insert(std::upper_bound(shape.tests.begin(), shape.tests.end(), named), named);
    }
    const ExpressionId quote = pool.Literal("\"");
    const ExpressionId key[] = {
        quote, rules_.WithoutForbidden(tests_.Express(rules_.json_writer(), shape, true)), quote};
    // In canonical texts they have one order.
    const ExpressionId text = pool.Concat(key);
    const ExpressionId parts[] = {rules_.is_canonical() ? rules_.SharedAscending("key", text)
                                                        : rules_.SharedUnique("key", text),
                                  rules_.colon(), value};
    members.push_back(pool.Concat(parts));
  }
  return pool.Or(members);
}

ExpressionId GrammarWriter::Object(const ObjectPlan& plan) {
  ExpressionPool& pool = rules_.pool();
  if (plan.maximum == 0) {
    return plan.minimum == 0 ? rules_.Enclose("{}", pool.Nothing(), true) : pool.Nothing();
  }
  const bool any_order = rules_.options().layout.key_order == JsonKeyOrder::kAny &&
                         plan.properties.size() <= kMaxUnorderedKeys &&
                         plan.maximum == kNoMaximum && plan.minimum <= 1 &&
                         plan.minimum_others == 0;
  const ExpressionId members = any_order ? UnorderedMembers(plan) : OrderedMembers(plan);
  const bool may_be_empty =
      plan.minimum == 0 && plan.minimum_others == 0 &&
      std::none_of(plan.properties.begin(), plan.properties.end(),
                   [](const PropertyShape& property) { return property.required; });
  return rules_.Enclose("{}", members, may_be_empty);
}

// At least one member, in the order of the plan. By the number of members so far, from the last
// property to the first: what may follow.
ExpressionId GrammarWriter::OrderedMembers(const ObjectPlan& plan) {
  ExpressionPool& pool = rules_.pool();
  const auto n = static_cast<std::uint32_t>(plan.properties.size());
  const ExpressionId other = plan.others.empty() ? pool.Nothing() : OtherMember(plan);
  const auto n_required = static_cast<std::uint32_t>(
      std::count_if(plan.properties.begin(), plan.properties.end(),
                    [](const PropertyShape& property) { return property.required; }));
  const std::uint32_t minimum = plan.minimum <= n_required ? 0 : plan.minimum;
  const bool bounded = plan.maximum != kNoMaximum && (plan.maximum < n || other != pool.Nothing());
  const std::uint32_t maximum = bounded ? plan.maximum : kNoMaximum;
  // Members are counted up to `top`; one is enough where only the comma depends on them.
  const std::uint32_t top =
      bounded ? std::min(maximum, n) : std::min(std::max<std::uint32_t>(1, minimum), n + 1);
  const std::size_t work = top > 1 ? std::size_t{n} * n * top : n;
  if (work > kMaxCountedMembers) {
    report_.Fail(ConstraintErrorCode::kTooLarge, "", bounded ? "maxProperties" : "minProperties",
                 "expected fewer properties beside it");
    return pool.Nothing();
  }
  const ExpressionId next_other = pool.Concat(rules_.comma(), other);
  const auto others_after = [&](std::uint32_t count, ExpressionId first) {
    const std::uint32_t used = first == pool.Empty() ? count : count + 1;
    if (used > maximum) return pool.Nothing();
    std::uint32_t least = minimum > used ? minimum - used : 0;
    const std::uint32_t others_used = used - count;
    least =
        std::max(least, plan.minimum_others > others_used ? plan.minimum_others - others_used : 0);
    const std::uint32_t most = MaximumWithout(maximum, used);
    if (least > most) return pool.Nothing();
    return pool.Concat(first, pool.Repeat(next_other, least, most));
  };
  std::vector<ExpressionId> rest(top + 1);  // from 1
  for (std::uint32_t count = 1; count <= top; ++count) {
    rest[count] = others_after(count, pool.Empty());
  }
  std::vector<ExpressionId> first_choices;  // without a member so far
  if (other != pool.Nothing()) first_choices.push_back(others_after(0, other));
  for (std::uint32_t i = n; i-- > 0;) {
    const PropertyShape& property = plan.properties[i];
    const ExpressionId member = Member(property);
    const ExpressionId next_member = pool.Concat(rules_.comma(), member);
    if (report_.failed()) return pool.Nothing();
    if (property.required) first_choices.clear();
    first_choices.push_back(pool.Concat(member, rest[1]));
    std::vector<ExpressionId> before(rest);
    for (std::uint32_t count = 1; count <= top; ++count) {
      const bool may_have_more = !bounded || count < maximum;
      const std::uint32_t next = std::min(count + 1, top);
      if (next == count && may_have_more) {
        before[count] =
            pool.Concat(property.required ? next_member : pool.Optional(next_member), rest[count]);
        continue;
      }
      const ExpressionId choices[] = {
          may_have_more ? pool.Concat(next_member, rest[next]) : pool.Nothing(),
          property.required ? pool.Nothing() : rest[count]};
      before[count] = pool.Or(choices);
    }
    rest = std::move(before);
  }
  return pool.Or(first_choices);
}

// At least one member, in any order: each key is a mark.
ExpressionId GrammarWriter::UnorderedMembers(const ObjectPlan& plan) {
  ExpressionPool& pool = rules_.pool();
  std::vector<ExpressionId> members;
  std::vector<std::uint32_t> required;
  for (std::uint32_t i = 0; i < plan.properties.size(); ++i) {
    const ExpressionId member = Member(plan.properties[i]);
    if (plan.properties[i].required) {
      required.push_back(i);
      if (member == pool.Nothing()) return member;
    }
    members.push_back(pool.Concat(rules_.grammar().Mark(i), member));
  }
  if (!plan.others.empty()) members.push_back(OtherMember(plan));
  const ExpressionId member = pool.Or(members);
  const ExpressionId parts[] = {
      member, pool.Repeat(pool.Concat(rules_.comma(), member), 0, kNoMaximum),
      required.empty() ? pool.Empty() : rules_.grammar().Need(std::move(required))};
  // The marks belong to this object only.
  return pool.Concat(parts);
}

}  // namespace fathom
