#include "constraint/schema/lazy_object.h"

#include <algorithm>

#include "base/check.h"
#include "constraint/lists.h"

namespace fathom::constraint {
namespace {

// A single object with at most so many members is written immediately.
constexpr std::size_t kFewMembers = 4;

std::uint32_t MaximumWithout(std::uint32_t maximum, std::uint32_t n) {
  return maximum == kNoMaximum ? kNoMaximum : maximum - std::min(maximum, n);
}

ExpressionId WriteMember(ExpressionPool& pool, const JsonPunctuation& punctuation,
                         const MemberDraft& member) {
  if (member.value == pool.Nothing()) return member.value;
  return pool.Concat({member.key, punctuation.colon, member.value});
}

// By the set of demands that are left: the members that may follow others, each after a comma.
std::vector<ExpressionId> WriteWanted(ExpressionPool& pool, const JsonPunctuation& punctuation,
                                      const LazyObject& draft) {
  const ExpressionId others =
      pool.Repeat(pool.Concat(punctuation.comma, draft.other), 0, kNoMaximum);
  std::vector<ExpressionId> rest = {others};
  for (std::size_t left = 1; left < draft.wanted.size(); ++left) {
    std::vector<ExpressionId> choices;
    for (std::size_t met = 1; met <= left; ++met) {
      if ((met & left) != met) continue;
      choices.push_back(pool.Concat({punctuation.comma, draft.wanted[met], rest[left & ~met]}));
    }
    rest.push_back(pool.Concat(others, pool.Or(choices)));
  }
  return rest;
}

// The other members of an object with demands, the first of them without a comma.
ExpressionId WriteWantedFirst(ExpressionPool& pool, const LazyObject& draft,
                              const std::vector<ExpressionId>& rest) {
  const std::size_t all = draft.wanted.size() - 1;
  std::vector<ExpressionId> choices = {pool.Concat(draft.other, rest[all])};
  for (std::size_t met = 1; met <= all; ++met) {
    choices.push_back(pool.Concat(draft.wanted[met], rest[all & ~met]));
  }
  return pool.Or(choices);
}

// Writes at least one member, in the order of the draft. Goes from the last property to the first,
// and keeps, by the number of members so far, what may follow.
ExpressionId WriteOrdered(ExpressionPool& pool, const JsonPunctuation& punctuation,
                          const LazyObject& draft) {
  const std::size_t n_required = CountRequired(draft.members);
  const std::uint32_t minimum = draft.minimum <= n_required ? 0 : draft.minimum;
  const bool bounded = draft.IsBounded(pool);
  const std::uint32_t maximum = bounded ? draft.maximum : kNoMaximum;
  const std::uint32_t top = draft.CountedTo(pool);
  const ExpressionId other = draft.other;
  const ExpressionId next_other = pool.Concat(punctuation.comma, other);
  const auto others_after = [&](std::uint32_t count, ExpressionId first) {
    const std::uint32_t used = first == pool.Empty() ? count : count + 1;
    if (used > maximum) return pool.Nothing();
    std::uint32_t least = minimum > used ? minimum - used : 0;
    const std::uint32_t others_used = used - count;
    least = std::max(least,
                     draft.minimum_others > others_used ? draft.minimum_others - others_used : 0);
    const std::uint32_t most = MaximumWithout(maximum, used);
    if (least > most) return pool.Nothing();
    return pool.Concat(first, pool.Repeat(next_other, least, most));
  };
  std::vector<ExpressionId> rest(top + 1);  // by count, from 1
  for (std::uint32_t count = 1; count <= top; ++count) {
    rest[count] = others_after(count, pool.Empty());
  }
  std::vector<ExpressionId> first_choices;  // without a member so far
  if (!draft.wanted.empty()) {              // such objects do not count their members
    const std::vector<ExpressionId> wanted = WriteWanted(pool, punctuation, draft);
    std::fill(rest.begin() + 1, rest.end(), wanted.back());
    first_choices.push_back(WriteWantedFirst(pool, draft, wanted));
  } else if (other != pool.Nothing()) {
    first_choices.push_back(others_after(0, other));
  }
  std::vector<ExpressionId> before(rest);
  for (std::size_t i = draft.members.size(); i-- > 0;) {
    const bool required = draft.members[i].required;
    const ExpressionId member = WriteMember(pool, punctuation, draft.members[i]);
    const ExpressionId next_member = pool.Concat(punctuation.comma, member);
    if (required) first_choices.clear();
    first_choices.push_back(pool.Concat(member, rest[1]));
    for (std::uint32_t count = 1; count <= top; ++count) {
      const bool may_have_more = !bounded || count < maximum;
      const std::uint32_t next = std::min(count + 1, top);
      if (next == count && may_have_more) {
        before[count] =
            pool.Concat(required ? next_member : pool.Optional(next_member), rest[count]);
        continue;
      }
      before[count] =
          pool.Or({may_have_more ? pool.Concat(next_member, rest[next]) : pool.Nothing(),
                   required ? pool.Nothing() : rest[count]});
    }
    std::swap(rest, before);
  }
  return pool.Or(first_choices);
}

// Writes at least one member, in any order: each key is a mark.
ExpressionId WriteUnordered(Grammar& grammar, const JsonPunctuation& punctuation,
                            const LazyObject& draft) {
  ExpressionPool& pool = grammar.pool;
  std::vector<ExpressionId> members;
  std::vector<std::uint32_t> required;
  for (std::uint32_t i = 0; i < draft.members.size(); ++i) {
    const ExpressionId member = WriteMember(pool, punctuation, draft.members[i]);
    if (draft.members[i].required) {
      required.push_back(i);
      if (member == pool.Nothing()) return member;
    }
    members.push_back(pool.Concat(grammar.Mark(i), member));
  }
  members.push_back(draft.other);
  const ExpressionId member = pool.Or(members);
  // The marks belong to this object only.
  return pool.Concat({member, pool.Repeat(pool.Concat(punctuation.comma, member), 0, kNoMaximum),
                      required.empty() ? pool.Empty() : grammar.Need(std::move(required))});
}

void AddToKey(std::vector<std::uint32_t>& key, const LazyObject& draft) {
  key.insert(key.end(),
             {static_cast<std::uint32_t>(draft.members.size()), draft.other, draft.minimum,
              draft.maximum, draft.minimum_others, draft.any_order ? 1u : 0u,
              static_cast<std::uint32_t>(draft.wanted.size())});
  AddAll(key, draft.wanted);
  for (const MemberDraft& member : draft.members) {
    key.insert(key.end(), {member.key, member.value, member.required ? 1u : 0u});
  }
}

}  // namespace

bool LazyObject::IsBounded(const ExpressionPool& pool) const {
  return maximum != kNoMaximum && (maximum < members.size() || other != pool.Nothing());
}

std::uint32_t LazyObject::CountedTo(const ExpressionPool& pool) const {
  const auto n = static_cast<std::uint32_t>(members.size());
  if (IsBounded(pool)) return std::min(maximum, n);
  const std::uint32_t least = minimum <= CountRequired(members) ? 0 : minimum;
  return std::min(std::max<std::uint32_t>(1, least), n + 1);
}

ExpressionId Enclose(ExpressionPool& pool, ExpressionId blank, std::string_view brackets,
                     ExpressionId members, bool may_be_empty) {
  ExpressionId inside = pool.Concat(members, blank);
  if (may_be_empty) {
    inside = pool.Optional(inside);
  } else if (inside == pool.Nothing()) {
    return inside;
  }
  return pool.Concat(
      {pool.Literal(brackets.substr(0, 1)), blank, inside, pool.Literal(brackets.substr(1))});
}

ExpressionId WriteObject(Grammar& grammar, const JsonPunctuation& punctuation,
                         const LazyObject& draft) {
  ExpressionPool& pool = grammar.pool;
  const ExpressionId members = draft.any_order ? WriteUnordered(grammar, punctuation, draft)
                                               : WriteOrdered(pool, punctuation, draft);
  const bool may_be_empty = draft.minimum == 0 && draft.minimum_others == 0 &&
                            draft.wanted.empty() && CountRequired(draft.members) == 0;
  return Enclose(pool, punctuation.blank, "{}", members, may_be_empty);
}

bool ObjectsBody::CanHold(const ExpressionPool& pool, const LazyObject& draft) {
  return !draft.IsBounded(pool) && draft.CountedTo(pool) == 1;
}

bool ObjectsBody::AreMany(const std::vector<LazyObject>& objects) {
  std::size_t n_members = 0;
  for (const LazyObject& draft : objects) n_members += draft.members.size();
  return n_members + objects.size() > kFewMembers + 1;
}

ExpressionId ObjectsBody::Write(Grammar& grammar) const {
  const int n_classes = grammar.pool.n_byte_classes();
  std::vector<ExpressionId> choices = {written_};
  for (const LazyObject& draft : objects_) {
    choices.push_back(WriteObject(grammar, punctuation_, draft));
  }
  Check(grammar.pool.n_byte_classes() == n_classes, "expected no new sets of bytes");
  return grammar.pool.Or(choices);
}

void ObjectsBody::Replace(const std::vector<ExpressionId>& replaced) {
  written_ = replaced[written_];
  for (LazyObject& draft : objects_) {
    draft.other = replaced[draft.other];
    for (ExpressionId& wanted : draft.wanted) wanted = replaced[wanted];
    for (MemberDraft& member : draft.members) member.value = replaced[member.value];
  }
}

ExpressionId ObjectsBody::Facts(ExpressionPool& pool) const {
  std::vector<ExpressionId> choices = {written_};
  for (const LazyObject& draft : objects_) {
    std::vector<ExpressionId> required;
    std::vector<ExpressionId> values = {draft.other};
    for (const MemberDraft& member : draft.members) {
      if (member.required) {
        required.push_back(member.value);
      } else if (pool.HasLetters(member.value)) {
        values.push_back(member.value);
      }
    }
    if (draft.minimum_others > 0) required.push_back(draft.other);
    for (std::size_t demand = 1; demand < draft.wanted.size(); demand *= 2) {
      std::vector<ExpressionId> ways;  // the ways to meet the demand
      for (std::size_t set = 0; set < draft.wanted.size(); ++set) {
        if ((set & demand) != 0) ways.push_back(draft.wanted[set]);
      }
      required.push_back(pool.Or(ways));
    }
    // A text needs one of the values if nothing is required.
    const bool needs_one = required.empty() && draft.minimum > 0;
    const bool has_plain = std::ranges::any_of(draft.members, [&](const MemberDraft& member) {
      return member.value != pool.Nothing() && !pool.HasLetters(member.value);
    });
    if (needs_one && has_plain) values.push_back(pool.Empty());
    SortUnique(required);
    const ExpressionId any = pool.Or(values);
    required.push_back(needs_one ? any : pool.Repeat(any, 0, kNoMaximum));
    choices.push_back(pool.Concat(required));
  }
  return pool.Or(choices);
}

std::vector<std::uint32_t> ObjectsBody::Key() const {
  std::vector<std::uint32_t> key = {written_};
  for (const LazyObject& draft : objects_) AddToKey(key, draft);
  return key;
}

}  // namespace fathom::constraint
