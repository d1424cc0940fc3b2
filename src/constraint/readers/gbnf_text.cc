#include "constraint/readers/gbnf_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/utf8.h"
#include "constraint/readers/gbnf_cursor.h"
#include "constraint/readers/gbnf_symbols.h"

namespace fathom::constraint {
namespace {

using Kind = GbnfStep::Kind;

// Operators nest as deep as groups, and each suffix (* + ? {}) adds a level.
constexpr int kHeightPerGroup = 2;

// Reads the rules from left to right. The groups that are open are on a stack of their own.
class GbnfReader {
 public:
  GbnfReader(std::string_view source, const GbnfOptions& options)
      : source_(source), cursor_(source), options_(options) {}

  ConstraintResult<GbnfText> Read() {
    cursor_.SkipBlanks(true);
    while (!cursor_.AtEnd() && !cursor_.failed()) ReadRule();
    if (cursor_.failed()) return cursor_.Error();
    return Resolve();
  }

 private:
  // A group whose ")" is still to come, or the body of a rule.
  struct Group {
    std::size_t offset = 0;            // the offset of its "("
    std::uint32_t n_alternatives = 0;  // alternatives that are complete
    std::uint32_t n_parts = 0;         // symbols of the alternative that is being read
    int height = 0;                    // nested operators of the highest symbol
  };

  // The rule with this name; a new one if the source has not named it before.
  std::uint32_t RuleNamed(std::string_view name, std::size_t offset) {
    const auto [place, is_new] =
        names_.emplace(name, static_cast<std::uint32_t>(text_.rules.size()));
    if (is_new) text_.rules.push_back({.name = name, .offset = offset});
    if (text_.rules.size() > options_.max_rules) {
      cursor_.FailAt(offset, ConstraintErrorCode::kTooLarge,
                     fmt::format("expected at most {} rules", options_.max_rules));
    }
    return place->second;
  }

  // name ::= alternatives
  void ReadRule() {
    const std::size_t offset = cursor_.offset();
    const std::string_view name = cursor_.ReadName();
    if (name.empty()) return cursor_.Expected("the name of a rule");
    cursor_.SkipBlanks(false);
    if (!cursor_.Take("::=")) {
      return cursor_.Expected(
          fmt::format("::= behind the name {}", ShortenedUtf8(name, kQuotedBytes)));
    }
    const std::uint32_t rule = RuleNamed(name, offset);
    if (!text_.rules[rule].body.empty()) {
      return cursor_.FailAt(offset, ConstraintErrorCode::kInvalidGrammar,
                            fmt::format("expected one definition of {}, found another one",
                                        ShortenedUtf8(name, kQuotedBytes)));
    }
    text_.rules[rule].offset = offset;
    ReadBody();
    text_.rules[rule].body = std::move(steps_);
    steps_.clear();
  }

  void ReadBody() {
    groups_.assign(1, Group{.offset = cursor_.offset()});
    may_repeat_ = false;
    cursor_.SkipBlanks(true);
    while (!cursor_.failed()) {
      if (cursor_.AtEnd() || cursor_.AtNewline()) {
        if (EndsRule()) break;
      } else {
        ReadSymbol();
      }
      cursor_.SkipBlanks(groups_.size() > 1);
    }
    groups_.clear();
  }

  // True at the end of a line outside of groups, or of the source. Continues with the next
  // alternative where the next line begins with "|".
  bool EndsRule() {
    if (groups_.size() > 1) {
      cursor_.Expected(fmt::format(") of the group that begins at {}",
                                   GbnfPlace(source_, groups_.back().offset)));
      return true;
    }
    cursor_.SkipBlanks(true);
    if (!cursor_.AtEnd() && cursor_.Peek() == '|') return false;
    CloseAlternatives();
    return true;
  }

  void ReadSymbol() {
    switch (cursor_.Peek()) {
      case '"':
        return ReadLiteral();
      case '[':
        return ReadClass();
      case '.':
        cursor_.Skip(1);
        return AddClass(".", AllCodePoints());
      case '<':
      case '!':
        return ReadToken();
      case '(':
        return OpenGroup();
      case ')':
        return CloseGroup();
      case '|':
        cursor_.Skip(1);
        EndAlternative();
        return cursor_.SkipBlanks(true);
      case '*':
      case '+':
      case '?':
      case '{':
        return ReadRepeat();
      default:
        break;
    }
    const std::size_t offset = cursor_.offset();
    const std::string_view name = cursor_.ReadName();
    if (name.empty()) {
      if (groups_.size() == 1) return cursor_.Expected("a symbol, | or the end of the line");
      return cursor_.Expected(fmt::format("a symbol, | or ) of the group that begins at {}",
                                          GbnfPlace(source_, groups_.back().offset)));
    }
    AddSymbol({Kind::kRule, RuleNamed(name, offset), static_cast<std::uint32_t>(offset)});
  }

  void AddSymbol(GbnfStep step) {
    steps_.push_back(step);
    EndItem(0);
  }
  // The topmost expression is a symbol of the group; a suffix may follow.
  void EndItem(int height) {
    Group& group = groups_.back();
    ++group.n_parts;
    group.height = std::max(group.height, height);
    item_height_ = height;
    may_repeat_ = true;
  }

  void ReadLiteral() {
    const std::size_t begin = text_.literals.size();
    ReadGbnfLiteral(cursor_, text_.literals);
    AddSymbol({Kind::kLiteral, static_cast<std::uint32_t>(begin),
               static_cast<std::uint32_t>(text_.literals.size() - begin)});
  }

  void ReadClass() {
    const std::size_t begin = cursor_.offset();
    CodePointSet set = ReadGbnfClass(cursor_);
    if (cursor_.failed()) return;
    AddClass(cursor_.TextFrom(begin), std::move(set));
  }
  void AddClass(std::string_view spelling, CodePointSet set) {
    const auto [place, is_new] =
        classes_.emplace(spelling, static_cast<std::uint32_t>(text_.classes.size()));
    if (is_new) text_.classes.push_back(std::move(set));
    AddSymbol({Kind::kClass, place->second, 0});
  }

  void ReadToken() {
    const bool is_negated = cursor_.Take("!");
    const std::optional<Token> token = ReadGbnfToken(cursor_, options_);
    if (!token) return;
    AddSymbol(
        {is_negated ? Kind::kOtherToken : Kind::kToken, static_cast<std::uint32_t>(*token), 0});
  }

  void ReadRepeat() {
    if (!may_repeat_) {
      return cursor_.Expected("a symbol or a group to repeat");
    }
    const std::size_t offset = cursor_.offset();
    const std::optional<GbnfRepeat> repeat = ReadGbnfRepeat(cursor_, groups_.size() > 1);
    if (!repeat) return;
    steps_.push_back({Kind::kRepeat, repeat->minimum, repeat->maximum});
    SetHeight(offset, item_height_ + 1);
    groups_.back().height = std::max(groups_.back().height, item_height_);
  }

  void SetHeight(std::size_t offset, int height) {
    item_height_ = height;
    if (height <= kHeightPerGroup * options_.max_depth) return;
    cursor_.FailAt(offset, ConstraintErrorCode::kTooLarge,
                   fmt::format("expected at most {} groups and repetitions within each other",
                               kHeightPerGroup * options_.max_depth));
  }

  void OpenGroup() {
    if (groups_.size() > static_cast<std::size_t>(options_.max_depth)) {
      return cursor_.FailAt(
          cursor_.offset(), ConstraintErrorCode::kTooLarge,
          fmt::format("expected at most {} groups within each other", options_.max_depth));
    }
    groups_.push_back({.offset = cursor_.offset()});
    cursor_.Skip(1);
    may_repeat_ = false;
  }

  void CloseGroup() {
    if (groups_.size() == 1) return cursor_.Expected("a symbol, | or the end of the line");
    const std::size_t offset = cursor_.offset();
    cursor_.Skip(1);
    const int height = groups_.back().height + 1;
    CloseAlternatives();
    groups_.pop_back();
    EndItem(height);
    SetHeight(offset, height);
  }

  void EndAlternative() {
    Group& group = groups_.back();
    if (group.n_parts != 1) steps_.push_back({Kind::kConcat, group.n_parts, 0});
    group.n_parts = 0;
    ++group.n_alternatives;
    may_repeat_ = false;
  }
  void CloseAlternatives() {
    EndAlternative();
    const std::uint32_t n = groups_.back().n_alternatives;
    if (n > 1) steps_.push_back({Kind::kOr, n, 0});
  }

  // Checks that all names are defined and that there is a root.
  ConstraintResult<GbnfText> Resolve() {
    std::vector<ConstraintIssue> issues;
    const auto root = names_.find("root");
    if (root == names_.end()) {
      issues.push_back(GbnfIssue(source_, 0, "expected a rule with the name root, found none"));
    }
    for (const GbnfRule& rule : text_.rules) {
      if (!rule.body.empty() || issues.size() == kMaxIssues) continue;
      issues.push_back(GbnfIssue(source_, rule.offset,
                                 fmt::format("expected a definition of the rule {}, found none",
                                             ShortenedUtf8(rule.name, kQuotedBytes))));
    }
    if (!issues.empty()) return GbnfError(ConstraintErrorCode::kInvalidGrammar, std::move(issues));
    text_.root = root->second;
    return std::move(text_);
  }

  const std::string_view source_;
  GbnfCursor cursor_;
  const GbnfOptions& options_;
  GbnfText text_;
  std::unordered_map<std::string_view, std::uint32_t> names_;
  std::map<std::string_view, std::uint32_t> classes_;  // by spelling

  // The rule that is being read.
  std::vector<GbnfStep> steps_;
  std::vector<Group> groups_;
  bool may_repeat_ = false;  // a symbol or a group ends here
  int item_height_ = 0;      // nested operators of that symbol
};

}  // namespace

ConstraintResult<GbnfText> ReadGbnf(std::string_view source, const GbnfOptions& options) {
  if (source.size() > options.max_bytes) {
    return GbnfError(ConstraintErrorCode::kTooLarge,
                     {{.pointer = "1:1",
                       .reason = fmt::format("expected at most {} bytes, found {}",
                                             options.max_bytes, source.size())}});
  }
  if (const auto broken = FindInvalidUtf8(source)) {
    return GbnfError(ConstraintErrorCode::kInvalidGrammar,
                     {GbnfIssue(source, *broken, "expected UTF-8, found other bytes")});
  }
  return GbnfReader(source, options).Read();
}

}  // namespace fathom::constraint
