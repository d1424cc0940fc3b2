#include "constraint/readers/spelling.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace fathom::constraint {
namespace {

constexpr ByteSet kContinuation = ByteSet::Range(0x80, 0xBF);

enum class Coverage { kNone, kPart, kAll };

Coverage FindCoverage(const CodePointSet& set, char32_t first, char32_t last) {
  const auto range = std::ranges::lower_bound(set, first, {}, &CodePointRange::last);
  if (range == set.end() || range->first > last) return Coverage::kNone;
  return range->first <= first && range->last >= last ? Coverage::kAll : Coverage::kPart;
}

// Bytes, by what follows them.
class ByteBranches {
 public:
  void Add(std::uint8_t byte, ExpressionId rest) {
    const auto known = std::ranges::find(branches_, rest, &Branch::rest);
    if (known == branches_.end()) {
      branches_.push_back({ByteSet::Of(byte), rest});
    } else {
      known->bytes = known->bytes | ByteSet::Of(byte);
    }
  }
  ExpressionId Join(ExpressionPool& pool) const {
    std::vector<ExpressionId> alternatives;
    for (const Branch& branch : branches_) {
      alternatives.push_back(pool.Concat(pool.Bytes(branch.bytes), branch.rest));
    }
    return pool.Or(alternatives);
  }

 private:
  struct Branch {
    ByteSet bytes;
    ExpressionId rest;
  };
  std::vector<Branch> branches_;
};

// The last `n` bytes of the code points of a block that are in the set. The block begins at
// `first`, and its code points have all other bytes in common.
ExpressionId LastBytes(ExpressionPool& pool, const CodePointSet& set, char32_t first, int n) {
  if (n == 0) return Contains(set, first) ? pool.Empty() : pool.Nothing();
  const Coverage coverage = FindCoverage(set, first, first + (char32_t{1} << (6 * n)) - 1);
  if (coverage == Coverage::kNone) return pool.Nothing();
  if (coverage == Coverage::kAll) {
    const auto times = static_cast<std::uint32_t>(n);
    const std::vector<ExpressionId> bytes(times, pool.Bytes(kContinuation));
    return pool.Concat(bytes);
  }
  ByteBranches branches;
  for (char32_t i = 0; i < 64; ++i) {
    const ExpressionId rest = LastBytes(pool, set, first + (i << (6 * (n - 1))), n - 1);
    if (rest != pool.Nothing()) branches.Add(static_cast<std::uint8_t>(0x80 + i), rest);
  }
  return branches.Join(pool);
}

// Code points by the number of bytes that follow the first one.
struct Utf8Form {
  std::uint8_t first_lead, last_lead;
  std::uint8_t lead_bits;
  int n_following;
  CodePointRange range;
};
constexpr std::array<Utf8Form, 4> kUtf8Forms = {{{0x00, 0x7F, 0x7F, 0, {0, 0x7F}},
                                                 {0xC2, 0xDF, 0x1F, 1, {0x80, 0x7FF}},
                                                 {0xE0, 0xEF, 0x0F, 2, {0x800, 0xFFFF}},
                                                 {0xF0, 0xF4, 0x07, 3, {0x10000, 0x10FFFF}}}};

// A character that follows \ in JSON, and what both stand for.
constexpr std::array<std::pair<char32_t, char>, 7> kJsonEscapes = {
    {{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}}};

CodePointSet RawInJson() { return Complement({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}); }

}  // namespace

ExpressionId Utf8(ExpressionPool& pool, const CodePointSet& set) {
  ByteBranches branches;
  for (const Utf8Form& form : kUtf8Forms) {
    const CodePointSet part = Intersection(set, {form.range});
    if (part.empty()) continue;
    for (unsigned lead = form.first_lead; lead <= form.last_lead; ++lead) {
      const char32_t first = static_cast<char32_t>(lead & form.lead_bits) << (6 * form.n_following);
      const ExpressionId rest = LastBytes(pool, part, first, form.n_following);
      if (rest != pool.Nothing()) branches.Add(static_cast<std::uint8_t>(lead), rest);
    }
  }
  return branches.Join(pool);
}

ExpressionId SpellInJson(ExpressionPool& pool, const CodePointSet& set) {
  std::vector<ExpressionId> alternatives = {Utf8(pool, Intersection(set, RawInJson()))};
  ByteSet short_escapes;
  CodePointSet others = Intersection(set, {{0, 0x1F}});
  for (const auto& [code_point, letter] : kJsonEscapes) {
    if (!Contains(set, code_point)) continue;
    short_escapes = short_escapes | ByteSet::Of(static_cast<std::uint8_t>(letter));
    others = Intersection(others, Complement({{code_point, code_point}}));
  }
  const ExpressionId backslash = pool.Literal("\\");
  alternatives.push_back(pool.Concat(backslash, pool.Bytes(short_escapes)));
  for (const char32_t high : {0u, 1u}) {
    ByteSet digits;
    for (char32_t low = 0; low < 16; ++low) {
      if (!Contains(others, 16 * high + low)) continue;
      digits = digits | ByteSet::Of(static_cast<std::uint8_t>("0123456789abcdef"[low]));
    }
    alternatives.push_back(
        pool.Concat(pool.Literal(high == 0 ? "\\u000" : "\\u001"), pool.Bytes(digits)));
  }
  return pool.Or(alternatives);
}

}  // namespace fathom::constraint
