#include "constraint/readers/regex_syntax.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

#include "constraint/grammar/expression.h"
#include "constraint/readers/regex_reader.h"

namespace fathom::constraint {
namespace {

using RegexKind = RegexNode::Kind;
using NodeIndex = std::uint32_t;

constexpr std::size_t kMaxRanges = 200'000;  // some 300 times \p{L}

class RegexParser {
 public:
  RegexParser(std::string_view text, int max_depth) : reader_(text), max_depth_(max_depth) {}

  ConstraintResult<RegexSyntax> Parse() {
    const NodeIndex root = Alternation(0);
    if (!reader_.AtEnd()) reader_.FailInvalid(reader_.offset(), "expected the end");
    if (reader_.failed()) return tl::unexpected(reader_.error());
    syntax_.root = root;
    return std::move(syntax_);
  }

 private:
  struct Count {
    std::uint32_t minimum = 1;
    std::uint32_t maximum = 1;
  };

  NodeIndex Add(RegexNode node) {
    for (const NodeIndex child : node.children) {
      node.has_anchors |= syntax_.nodes[child].has_anchors;
      node.has_lookaheads |= syntax_.nodes[child].has_lookaheads;
    }
    syntax_.nodes.push_back(std::move(node));
    return static_cast<NodeIndex>(syntax_.nodes.size() - 1);
  }

  NodeIndex AddSet(CodePointSet set) {
    n_ranges_ += set.size();
    if (n_ranges_ > kMaxRanges) {
      reader_.FailTooLarge(
          fmt::format("expected classes of at most {} ranges together, found more", kMaxRanges));
    }
    const auto [known, is_new] =
        index_of_set_.try_emplace(std::move(set), static_cast<std::uint32_t>(syntax_.sets.size()));
    if (is_new) syntax_.sets.push_back(known->first);
    return Add({.kind = RegexKind::kSet, .set = known->second});
  }

  NodeIndex AddCodePoint(char32_t code_point) {
    return AddSet(MakeCodePointSet({{code_point, code_point}}));
  }

  // A node of several children, or the only child itself.
  NodeIndex Join(RegexKind kind, std::vector<NodeIndex> children) {
    if (children.size() == 1) return children[0];
    bool zero_width = true;
    for (const NodeIndex child : children) zero_width &= syntax_.nodes[child].zero_width;
    return Add({.kind = kind, .zero_width = zero_width, .children = std::move(children)});
  }

  NodeIndex Alternation(int depth) {
    if (depth > max_depth_) {
      reader_.FailTooLarge(
          fmt::format("expected at most {} nested groups, found more", max_depth_));
      return Add({});
    }
    std::vector<NodeIndex> branches;
    do {
      std::vector<NodeIndex> parts;
      while (!reader_.AtEnd() && reader_.Peek() != '|' && reader_.Peek() != ')') {
        parts.push_back(Part(depth));
      }
      branches.push_back(Join(RegexKind::kConcat, std::move(parts)));
    } while (reader_.Take('|'));
    return Join(RegexKind::kAlternation, std::move(branches));
  }

  // An atom with its quantifier.
  NodeIndex Part(int depth) {
    const std::size_t begin = reader_.offset();
    const NodeIndex atom = Atom(depth);
    const std::size_t end = reader_.offset();
    const std::optional<Count> count = Quantifier();
    if (!count) return atom;
    const RegexNode& node = syntax_.nodes[atom];
    if (node.kind == RegexKind::kStart || node.kind == RegexKind::kEnd) {
      if (end == begin + 1) reader_.FailInvalid(end, "expected no quantifier after ^ or $");
    }
    reader_.Take('?');  // lazy: the same texts
    const std::size_t after = reader_.offset();
    if (Quantifier()) reader_.FailInvalid(after, "expected no quantifier after a quantifier");
    return Add({.kind = RegexKind::kRepeat,
                .zero_width = node.zero_width,
                .minimum = count->minimum,
                .maximum = count->maximum,
                .children = {atom}});
  }

  std::optional<Count> Quantifier() {
    const std::size_t begin = reader_.offset();
    if (reader_.Take('*')) return Count{0, kNoMaximum};
    if (reader_.Take('+')) return Count{1, kNoMaximum};
    if (reader_.Take('?')) return Count{0, 1};
    if (!reader_.Take('{')) return std::nullopt;
    const std::optional<std::uint32_t> minimum = reader_.TakeNumber();
    const bool comma = reader_.Take(',');
    const std::optional<std::uint32_t> maximum = comma ? reader_.TakeNumber() : minimum;
    if (!reader_.Take('}') || (!minimum && !maximum)) {
      reader_.GoBackTo(begin);
      return std::nullopt;
    }
    if (!minimum) {
      reader_.FailUnsupported(begin, "a quantifier without a minimum, which ECMA-262 lacks");
      return std::nullopt;
    }
    const Count count = {*minimum, maximum.value_or(kNoMaximum)};
    if (count.minimum > count.maximum) {
      reader_.FailInvalid(begin, "expected a minimum of at most the maximum");
      return std::nullopt;
    }
    return count;
  }

  NodeIndex Atom(int depth) {
    const std::size_t begin = reader_.offset();
    if (reader_.Take('(')) return Group(begin, depth);
    if (reader_.Take('[')) return AddSet(Class(begin));
    if (reader_.Take('^'))
      return Add({.kind = RegexKind::kStart, .has_anchors = true, .zero_width = true});
    if (reader_.Take('$'))
      return Add({.kind = RegexKind::kEnd, .has_anchors = true, .zero_width = true});
    if (reader_.Take('.')) {
      return AddSet(Complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
    }
    if (reader_.Take('\\')) {
      RegexReader::Escape escape = reader_.TakeEscape(/*in_class=*/false);
      return escape.code_point ? AddCodePoint(*escape.code_point) : AddSet(std::move(escape.set));
    }
    if (Quantifier()) {
      reader_.FailInvalid(begin, "expected something before the quantifier");
      return Add({});
    }
    return AddCodePoint(reader_.failed() ? 0 : reader_.TakeCodePoint());
  }

  NodeIndex Group(std::size_t begin, int depth) {
    std::optional<bool> negative_lookahead;
    if (reader_.Take('?')) {
      if (reader_.Take("=")) {
        negative_lookahead = false;
      } else if (reader_.Take("!")) {
        negative_lookahead = true;
      } else if (reader_.Take("<=") || reader_.Take("<!")) {
        reader_.FailUnsupported(begin, "a look-behind");
      } else if (reader_.Take("<") || reader_.Take("P<")) {
        const std::optional<std::string_view> name = reader_.TakeUntil('>');
        if (!name || name->empty()) reader_.FailInvalid(begin, "expected the name of the group");
      } else if (reader_.AtEnd()) {
        reader_.FailInvalid(begin, "expected what kind of group follows (?");
      } else if (!reader_.Take(":")) {
        reader_.FailUnsupported(begin, "a group other than (?:), (?=), (?!) and (?<name>)");
      }
    }
    const NodeIndex inside = Alternation(depth + 1);
    if (!reader_.Take(')')) reader_.FailInvalid(begin, "expected ) to end the group");
    if (!negative_lookahead) return inside;
    return Add({.kind = RegexKind::kLookahead,
                .negative = *negative_lookahead,
                .has_lookaheads = true,
                .zero_width = true,
                .children = {inside}});
  }

  // Reads a class after its [.
  CodePointSet Class(std::size_t begin) {
    const bool negated = reader_.Take('^');
    std::vector<CodePointRange> ranges;
    const auto add = [&](const RegexReader::Escape& member) {
      if (member.code_point) {
        ranges.push_back({*member.code_point, *member.code_point});
      } else {
        ranges.insert(ranges.end(), member.set.begin(), member.set.end());
      }
    };
    while (!reader_.AtEnd() && reader_.Peek() != ']') {
      const std::size_t at = reader_.offset();
      const RegexReader::Escape first = ClassMember();
      const std::size_t dash = reader_.offset();
      if (!reader_.Take('-') || reader_.AtEnd() || reader_.Peek() == ']') {
        if (!reader_.failed()) reader_.GoBackTo(dash);
        add(first);
        continue;
      }
      const RegexReader::Escape last = ClassMember();
      if (!first.code_point || !last.code_point) {  // a set on one side: - is itself
        add(first);
        ranges.push_back({'-', '-'});
        add(last);
      } else if (*first.code_point > *last.code_point) {
        reader_.FailInvalid(at, "expected a range of code points in ascending order");
      } else {
        ranges.push_back({*first.code_point, *last.code_point});
      }
    }
    if (!reader_.Take(']')) reader_.FailInvalid(begin, "expected ] to end the class");
    CodePointSet set = MakeCodePointSet(std::move(ranges));
    return negated ? Complement(set) : set;
  }

  RegexReader::Escape ClassMember() {
    if (reader_.Take('\\')) return reader_.TakeEscape(/*in_class=*/true);
    return {.set = {}, .code_point = reader_.TakeCodePoint()};
  }

  RegexReader reader_;
  int max_depth_;
  RegexSyntax syntax_;
  std::map<CodePointSet, std::uint32_t> index_of_set_;
  std::size_t n_ranges_ = 0;
};

}  // namespace

ConstraintResult<RegexSyntax> ParseRegexSyntax(std::string_view text, int max_depth) {
  return RegexParser(text, max_depth).Parse();
}

}  // namespace fathom::constraint
