#include "constraint/readers/code_points.h"

#include <algorithm>

#include "constraint/lists.h"

namespace fathom::constraint {
namespace {

constexpr char32_t kFirstSurrogate = 0xD800;
constexpr char32_t kLastSurrogate = 0xDFFF;

}  // namespace

CodePointSet MakeCodePointSet(std::vector<CodePointRange> ranges) {
  std::ranges::sort(ranges, {}, &CodePointRange::first);
  CodePointSet set;
  const auto add = [&](char32_t first, char32_t last) {
    if (first > last) return;
    if (!set.empty() && first <= set.back().last + 1) {
      set.back().last = std::max(set.back().last, last);
    } else {
      set.push_back({first, last});
    }
  };
  for (const CodePointRange& range : ranges) {
    add(range.first, std::min<char32_t>(range.last, kFirstSurrogate - 1));
    add(std::max<char32_t>(range.first, kLastSurrogate + 1), std::min(range.last, kMaxCodePoint));
  }
  return set;
}

CodePointSet AllCodePoints() { return MakeCodePointSet({{0, kMaxCodePoint}}); }

CodePointSet Complement(const CodePointSet& set) {
  std::vector<CodePointRange> gaps;
  char32_t next = 0;
  for (const CodePointRange& range : set) {
    if (range.first > next) gaps.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kMaxCodePoint) gaps.push_back({next, kMaxCodePoint});
  return MakeCodePointSet(std::move(gaps));
}

CodePointSet Union(const CodePointSet& a, const CodePointSet& b) {
  std::vector<CodePointRange> ranges = a;
  AddAll(ranges, b);
  return MakeCodePointSet(std::move(ranges));
}

CodePointSet Intersection(const CodePointSet& a, const CodePointSet& b) {
  CodePointSet common;
  for (std::size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    const char32_t first = std::max(a[i].first, b[k].first);
    const char32_t last = std::min(a[i].last, b[k].last);
    if (first <= last) common.push_back({first, last});
    ++(a[i].last < b[k].last ? i : k);
  }
  return common;
}

bool Contains(const CodePointSet& set, char32_t code_point) {
  const auto after = std::ranges::upper_bound(set, code_point, {}, &CodePointRange::first);
  return after != set.begin() && std::prev(after)->last >= code_point;
}

}  // namespace fathom::constraint
