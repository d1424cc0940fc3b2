#include "constraint/readers/regex.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "constraint/readers/regex_syntax.h"

namespace fathom::constraint {
namespace {

using RegexKind = RegexNode::Kind;

// Repetitions of a group with ^, $ or lookaheads are written out up to this maximum.
constexpr std::uint32_t kMaxUnrolled = 8;
constexpr std::size_t kMaxTranslations = 200'000;
constexpr std::size_t kMaxRegexExpressions = std::size_t{1} << 20;

// The texts that may follow from a position on.
struct RegexRest {
  ExpressionId any = 0;    // texts that match wherever the position is
  ExpressionId start = 0;  // more texts that match if it is the start of the whole text
};

// Builds the texts that a regular expression matches, from the end to the start.
class RegexTranslator {
 public:
  RegexTranslator(ExpressionPool& pool, const RegexSyntax& syntax, const RegexOptions& options)
      : pool_(pool),
        syntax_(syntax),
        options_(options),
        sets_(syntax.sets.size()),
        plain_(syntax.nodes.size()),
        n_expressions_before_(pool.n_expressions()) {
    const ExpressionId unit = options.spell(pool, AllCodePoints());
    pool.DeclareWithin(unit, unit);
    unit_ = unit;
    everything_ = pool.Repeat(unit, 0, kNoMaximum);
  }

  ConstraintResult<ExpressionId> Translate() {
    const ExpressionId after = options_.anchored ? pool_.Empty() : everything_;
    const RegexRest whole =
        Translate(syntax_.root, {after, pool_.Nothing()}, /*at_start=*/options_.anchored);
    if (error_) return tl::unexpected(*error_);
    const ExpressionId before = options_.anchored ? pool_.Empty() : everything_;
    return pool_.Or({pool_.Concat(before, whole.any), whole.start});
  }

 private:
  RegexRest Or(const RegexRest& a, const RegexRest& b) {
    return {pool_.Or({a.any, b.any}), pool_.Or({a.start, b.start})};
  }
  // The empty text, if it matches.
  ExpressionId OnlyEmpty(ExpressionId id) {
    return pool_.IsNullable(id) ? pool_.Empty() : pool_.Nothing();
  }
  RegexRest Nothing() const { return {pool_.Nothing(), pool_.Nothing()}; }

  RegexRest Fail(ConstraintErrorCode code, std::string_view reason) {
    if (!error_) {
      error_ = MakeConstraintError(code, fmt::format("regular expression: {}", reason)).value();
    }
    return Nothing();
  }

  bool TooLarge() {
    if (n_translations_ > kMaxTranslations) {
      Fail(ConstraintErrorCode::kTooLarge, "expected fewer repeated groups with ^, $ or (?");
    } else if (pool_.n_expressions() - n_expressions_before_ > kMaxRegexExpressions) {
      Fail(ConstraintErrorCode::kTooLarge,
           fmt::format("expected at most {} expressions, found more", kMaxRegexExpressions));
    }
    return error_.has_value();
  }

  ExpressionId Set(std::uint32_t index) {
    if (!sets_[index]) {
      const ExpressionId spelled = options_.spell(pool_, syntax_.sets[index]);
      pool_.DeclareWithin(spelled, unit_);
      sets_[index] = spelled;
    }
    return *sets_[index];
  }

  // The texts of a node without lookaheads, where ^ and $ match nowhere.
  ExpressionId Plain(std::uint32_t index) {
    if (TooLarge()) return pool_.Nothing();
    if (!plain_[index]) plain_[index] = MakePlain(syntax_.nodes[index]);
    return *plain_[index];
  }
  ExpressionId MakePlain(const RegexNode& node) {
    std::vector<ExpressionId> parts;
    for (const std::uint32_t child : node.children) parts.push_back(Plain(child));
    switch (node.kind) {
      case RegexKind::kSet:
        return Set(node.set);
      case RegexKind::kConcat:
        return pool_.Concat(parts);
      case RegexKind::kAlternation:
        return pool_.Or(parts);
      case RegexKind::kRepeat:
        return pool_.Repeat(parts[0], node.minimum, node.maximum);
      default:
        return pool_.Nothing();
    }
  }

  // The texts from where the node begins, if `rest` follows it. `at_start`: the node is at the
  // start of the whole text for sure.
  RegexRest Translate(std::uint32_t index, const RegexRest& rest, bool at_start) {
    ++n_translations_;
    if (TooLarge()) return Nothing();
    const RegexNode& node = syntax_.nodes[index];
    if (!node.has_anchors && !node.has_lookaheads) {
      const ExpressionId plain = Plain(index);
      return {pool_.Concat(plain, rest.any),
              pool_.IsNullable(plain) ? rest.start : pool_.Nothing()};
    }
    switch (node.kind) {
      case RegexKind::kConcat:
        return TranslateConcat(node, rest, at_start);
      case RegexKind::kAlternation: {
        std::vector<ExpressionId> any;
        std::vector<ExpressionId> start;
        for (const std::uint32_t child : node.children) {
          const RegexRest branch = Translate(child, rest, at_start);
          any.push_back(branch.any);
          start.push_back(branch.start);
        }
        return {pool_.Or(any), pool_.Or(start)};
      }
      case RegexKind::kRepeat:
        return TranslateRepeat(node, rest, at_start);
      case RegexKind::kStart:
        return {pool_.Nothing(), pool_.Or({rest.any, rest.start})};
      case RegexKind::kEnd:
        return {OnlyEmpty(rest.any), OnlyEmpty(rest.start)};
      case RegexKind::kLookahead:
        return TranslateLookahead(node, rest, at_start);
      default:
        return Nothing();
    }
  }

  RegexRest TranslateConcat(const RegexNode& node, RegexRest rest, bool at_start) {
    std::vector<bool> starts;
    for (const std::uint32_t child : node.children) {
      starts.push_back(at_start);
      const RegexNode& part = syntax_.nodes[child];
      at_start = part.zero_width && (at_start || part.kind == RegexKind::kStart);
    }
    for (std::size_t i = node.children.size(); i-- > 0;) {
      rest = Translate(node.children[i], rest, starts[i]);
    }
    return rest;
  }

  RegexRest TranslateLookahead(const RegexNode& node, const RegexRest& rest, bool at_start) {
    const RegexRest ahead = Translate(node.children[0], {everything_, pool_.Nothing()}, at_start);
    const bool only_any = ahead.start == pool_.Nothing();
    const ExpressionId all_ahead = pool_.Or({ahead.any, ahead.start});
    const ExpressionId all_rest = pool_.Or({rest.any, rest.start});
    if (!node.negative) {
      const bool more_at_start = !only_any || rest.start != pool_.Nothing();
      return {pool_.And({ahead.any, rest.any}),
              more_at_start ? pool_.And({all_ahead, all_rest}) : pool_.Nothing()};
    }
    if (at_start) return {pool_.Nothing(), pool_.And({pool_.Not(all_ahead), all_rest})};
    if (!only_any) {
      return Fail(ConstraintErrorCode::kUnsupportedSchema,
                  "expected what is supported, found ^ within (?!) that is not behind a ^");
    }
    const ExpressionId refused = pool_.Not(ahead.any);
    return {pool_.And({refused, rest.any}),
            rest.start == pool_.Nothing() ? rest.start : pool_.And({refused, rest.start})};
  }

  // Translates the repetition of a child with ^, $ or lookaheads.
  RegexRest TranslateRepeat(const RegexNode& node, const RegexRest& rest, bool at_start) {
    const RegexNode& child = syntax_.nodes[node.children[0]];
    const std::uint32_t maximum =
        child.zero_width ? std::min<std::uint32_t>(node.maximum, 1) : node.maximum;
    const std::uint32_t minimum = std::min(node.minimum, maximum);
    if (maximum <= kMaxUnrolled) {
      RegexRest made = rest;
      for (std::uint32_t i = maximum; i-- > 0;) {
        made = Translate(node.children[0], made, at_start && i == 0);
        if (i >= minimum) made = Or(made, rest);
      }
      return made;
    }
    if (!child.has_lookaheads) return RepeatAnchored(node, rest);
    return RepeatTempered(node, rest);
  }

  // One of the repetitions may be the first of the text, by ^, and one the last, by $.
  RegexRest RepeatAnchored(const RegexNode& node, const RegexRest& rest) {
    const std::uint32_t child = node.children[0];
    const ExpressionId plain = Plain(child);
    const RegexRest empty = Translate(child, {pool_.Empty(), pool_.Nothing()}, false);
    // Repetitions without text count towards `minimum` too.
    const auto times = [&](std::uint32_t fewer, bool has_empty) {
      const std::uint32_t minimum = has_empty ? 0 : std::max(node.minimum, fewer) - fewer;
      const std::uint32_t maximum = node.maximum == kNoMaximum ? kNoMaximum : node.maximum - fewer;
      return pool_.Repeat(plain, minimum, maximum);
    };
    const bool empty_anywhere = pool_.IsNullable(plain);
    const bool empty_at_end = pool_.IsNullable(empty.any);
    const bool empty_at_start = empty_at_end || pool_.IsNullable(empty.start);

    const RegexRest last = Translate(child, {OnlyEmpty(rest.any), pool_.Nothing()}, false);
    const ExpressionId any = pool_.Or({pool_.Concat(times(0, empty_anywhere), rest.any),
                                       pool_.Concat(times(1, empty_at_end), last.any)});
    const ExpressionId behind_first = pool_.Or({pool_.Concat(times(1, empty_at_start), rest.any),
                                                pool_.Concat(times(2, empty_at_start), last.any)});
    const RegexRest first = Translate(child, {behind_first, pool_.Nothing()}, false);
    const bool may_be_empty = node.minimum == 0 || empty_anywhere || empty_at_start;
    // At the start of the text the only repetition may also be the last.
    const ExpressionId only = node.minimum <= 1 || empty_at_start ? last.start : pool_.Nothing();
    const ExpressionId left_out = may_be_empty ? rest.start : pool_.Nothing();
    return {any, pool_.Or({pool_.Or({first.start, only}), left_out})};
  }

  // ((?!p)c)* to the end of the text: nowhere before the end does p match.
  RegexRest RepeatTempered(const RegexNode& node, const RegexRest& rest) {
    const RegexNode& child = syntax_.nodes[node.children[0]];
    const auto unsupported = [&] {
      return Fail(ConstraintErrorCode::kUnsupportedSchema,
                  "expected what is supported, found a repeated group with a lookahead");
    };
    if (rest.any != pool_.Empty() || child.kind != RegexKind::kConcat ||
        child.children.size() != 2) {
      return unsupported();
    }
    const RegexNode& ahead = syntax_.nodes[child.children[0]];
    const RegexNode& code_point = syntax_.nodes[child.children[1]];
    if (ahead.kind != RegexKind::kLookahead || !ahead.negative ||
        code_point.kind != RegexKind::kSet) {
      return unsupported();
    }
    const RegexRest refused = Translate(ahead.children[0], {everything_, pool_.Nothing()}, false);
    if (refused.start != pool_.Nothing()) return unsupported();
    const ExpressionId before_end = pool_.And({refused.any, pool_.Repeat(unit_, 1, kNoMaximum)});
    const ExpressionId somewhere = pool_.Concat(everything_, before_end);
    const ExpressionId counted = pool_.Repeat(Set(code_point.set), node.minimum, node.maximum);
    return {pool_.And({counted, pool_.Not(somewhere)}),
            node.minimum == 0 ? rest.start : pool_.Nothing()};
  }

  ExpressionPool& pool_;
  const RegexSyntax& syntax_;
  const RegexOptions& options_;
  ExpressionId unit_ = 0;        // any code point
  ExpressionId everything_ = 0;  // any text
  std::vector<std::optional<ExpressionId>> sets_;
  std::vector<std::optional<ExpressionId>> plain_;
  std::size_t n_translations_ = 0;
  std::size_t n_expressions_before_ = 0;
  std::optional<ConstraintError> error_;
};

}  // namespace

ConstraintResult<ExpressionId> ParseRegex(ExpressionPool& pool, std::string_view text,
                                          const RegexOptions& options) {
  if (text.size() > options.max_bytes) {
    return MakeConstraintError(
        ConstraintErrorCode::kTooLarge,
        fmt::format("regular expression: expected at most {} bytes, found {}", options.max_bytes,
                    text.size()));
  }
  if (const std::optional<std::size_t> broken = FindInvalidUtf8(text)) {
    return MakeConstraintError(
        ConstraintErrorCode::kInvalidSchema,
        fmt::format("regular expression: expected UTF-8, found other bytes at byte {}", *broken));
  }
  const ConstraintResult<RegexSyntax> syntax = ParseRegexSyntax(text, options.max_depth);
  if (!syntax) return tl::unexpected(syntax.error());
  return RegexTranslator(pool, *syntax, options).Translate();
}

}  // namespace fathom::constraint
