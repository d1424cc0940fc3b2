#include <algorithm>

#include "constraint/readers/regex.h"
#include "constraint/schema/grammar_writer.h"

namespace fathom::constraint {
namespace {

ExpressionId MakeBlank(ExpressionPool& pool, JsonWhitespace whitespace) {
  const ByteSet space_or_tab = ByteSet::Of(' ') | ByteSet::Of('\t');
  const ExpressionId in_line = pool.Bytes(space_or_tab);
  switch (whitespace) {
    case JsonWhitespace::kFlexible: {
      constexpr std::uint32_t kMaxIndent = 96;
      const ExpressionId new_line =
          pool.Concat({pool.Optional(pool.Literal("\r")), pool.Literal("\n"),
                       pool.Repeat(in_line, 0, kMaxIndent)});
      return pool.Concat(pool.Repeat(in_line, 0, 2), pool.Optional(new_line));
    }
    case JsonWhitespace::kAny:
      return pool.Repeat(pool.Bytes(space_or_tab | ByteSet::Of('\r') | ByteSet::Of('\n')), 0,
                         kNoMaximum);
    case JsonWhitespace::kCompact:
    case JsonWhitespace::kPython:
      break;
  }
  return pool.Empty();
}

ExpressionId HexDigits(ExpressionPool& pool, std::uint32_t n) {
  return pool.Repeat(
      pool.Bytes(ByteSet::Range('0', '9') | ByteSet::Range('a', 'f') | ByteSet::Range('A', 'F')), n,
      n);
}

// \uXXXX: no half of a pair alone.
ExpressionId UnicodeEscape(ExpressionPool& pool) {
  const ByteSet d = ByteSet::Of('d') | ByteSet::Of('D');
  const ByteSet high = ByteSet::Of('8') | ByteSet::Of('9') | ByteSet::Of('a') | ByteSet::Of('b') |
                       ByteSet::Of('A') | ByteSet::Of('B');
  const ByteSet low = ByteSet::Range('c', 'f') | ByteSet::Range('C', 'F');
  const ByteSet not_d = ByteSet::Range('0', '9') | ByteSet::Range('a', 'c') |
                        ByteSet::Range('e', 'f') | ByteSet::Range('A', 'C') |
                        ByteSet::Range('E', 'F');
  const ExpressionId pair =
      pool.Concat({pool.Bytes(d), pool.Bytes(high), HexDigits(pool, 2), pool.Literal("\\u"),
                   pool.Bytes(d), pool.Bytes(low), HexDigits(pool, 2)});
  const ExpressionId d0_to_d7 =
      pool.Concat({pool.Bytes(d), pool.Bytes(ByteSet::Range('0', '7')), HexDigits(pool, 2)});
  return pool.Or({pool.Concat(pool.Bytes(not_d), HexDigits(pool, 3)), d0_to_d7, pair});
}

}  // namespace

JsonRules::JsonRules(Grammar& grammar, const JsonSchemaOptions& options, bool canonical)
    : grammar_(grammar),
      options_(options),
      is_canonical_(canonical),
      json_writer_(grammar.pool, TextSpelling::kJson),
      raw_writer_(grammar.pool, TextSpelling::kRaw) {
  const JsonWhitespace whitespace = options_.layout.whitespace;
  // Makes the bytes of {} now: objects may be written when the pool may get no new bytes any more.
  pool().Literal("{}");
  punctuation_.blank = MakeBlank(pool(), whitespace);
  if (whitespace == JsonWhitespace::kPython) {
    punctuation_.comma = pool().Literal(", ");
    punctuation_.colon = pool().Literal(": ");
    return;
  }
  const ExpressionId blank = punctuation_.blank;
  punctuation_.comma = pool().Concat({blank, pool().Literal(","), blank});
  punctuation_.colon = pool().Concat({blank, pool().Literal(":"), blank});
}

JsonRules& JsonRules::Canonical() {
  if (is_canonical_) return *this;
  if (!canonical_rules_) {
    JsonSchemaOptions options = options_;
    options.layout.key_order = JsonKeyOrder::kSchema;
    options.layout.whitespace = JsonWhitespace::kCompact;
    canonical_rules_ = std::make_unique<JsonRules>(grammar_, options, /*canonical=*/true);
  }
  return *canonical_rules_;
}

RuleId JsonRules::MakeRule(std::string_view name, ExpressionId body,
                           std::optional<CodePointCount> count, std::optional<RuleId> rule) {
  const CodePointCount bounds = count.value_or(CodePointCount());
  const auto [found, is_new] = rules_.try_emplace({body, bounds.minimum, bounds.maximum}, 0);
  if (is_new) found->second = rule ? *rule : grammar_.AddRule(std::string(name));
  const RuleId made = rule ? *rule : found->second;
  grammar_.rules[made].body = body;
  grammar_.rules[made].count = count;
  return made;
}

ExpressionId JsonRules::Shared(std::string_view name, ExpressionId body,
                               std::optional<CodePointCount> count, LetterKind call) {
  if (body == pool().Nothing()) return body;
  return pool().OneLetter({call, MakeRule(name, body, count)});
}

RuleId JsonRules::ObjectsRule(std::string_view name, std::unique_ptr<ObjectsBody> objects,
                              std::optional<RuleId> rule) {
  const auto [found, is_new] = object_rules_.try_emplace(objects->Key(), 0);
  if (is_new) found->second = rule ? *rule : grammar_.AddRule(std::string(name));
  if (is_new || rule) {
    Rule& made = grammar_.rules[rule ? *rule : found->second];
    made.body = objects->Facts(pool());
    made.later = std::move(objects);
  }
  return rule ? *rule : found->second;
}

bool JsonRules::IsForbidden(std::string_view text) const {
  return std::ranges::any_of(options_.forbidden, [&](const std::string& part) {
    return text.find(part) != std::string_view::npos;
  });
}

ExpressionId JsonRules::WithoutForbidden(ExpressionId texts) {
  if (options_.forbidden.empty()) return texts;
  if (!not_forbidden_) {
    const ExpressionId anything = pool().Repeat(pool().Bytes(ByteSet::All()), 0, kNoMaximum);
    std::vector<std::string_view> parts(options_.forbidden.begin(), options_.forbidden.end());
    not_forbidden_ =
        pool().Not(pool().Concat({anything, pool().AnyLiteral(std::move(parts)), anything}));
  }
  return pool().And({texts, *not_forbidden_});
}

ExpressionId JsonRules::AnyCharacter() {
  if (any_character_) return *any_character_;
  if (is_canonical_) {
    any_character_ = json_writer_.AnyCodePoint();
    return *any_character_;
  }
  const CodePointSet escaped = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  ByteSet short_escapes;
  for (const char c : std::string_view("\"\\/bfnrt")) {
    short_escapes = short_escapes | ByteSet::Of(static_cast<std::uint8_t>(c));
  }
  const ExpressionId escapes = pool().Or(
      {pool().Bytes(short_escapes), pool().Concat(pool().Literal("u"), UnicodeEscape(pool()))});
  any_character_ =
      pool().Or({Utf8(pool(), Complement(escaped)), pool().Concat(pool().Literal("\\"), escapes)});
  return *any_character_;
}

std::optional<std::vector<std::string>> JsonRules::AllowedLiterals(const StringPredicates& tests,
                                                                   const StringShape& shape) const {
  if (shape.tests.size() != 1 || shape.tests[0].negated) return std::nullopt;
  const std::vector<std::string>* literals = tests.FindLiterals(shape.tests[0]);
  if (literals == nullptr) return std::nullopt;
  std::vector<std::string> allowed;
  for (const std::string& text : *literals) {
    if (!IsForbidden(text)) allowed.push_back(text);
  }
  return allowed;
}

ExpressionId JsonRules::Quoted(ExpressionId text) {
  const ExpressionId quote = pool().Literal("\"");
  return pool().Concat({quote, text, quote});
}

ExpressionId JsonRules::AnyString() {
  const ExpressionId body = WithoutForbidden(pool().Repeat(AnyCharacter(), 0, kNoMaximum));
  return Shared("string", Quoted(body));
}

ExpressionId JsonRules::String(StringPredicates& tests, const StringShape& shape) {
  if (shape.tests.empty()) {
    if (shape.IsFree()) return AnyString();
    const ExpressionId body = WithoutForbidden(pool().Repeat(AnyCharacter(), 0, kNoMaximum));
    const CodePointCount count{.minimum = shape.minimum, .maximum = shape.maximum};
    return Quoted(Shared("characters", body, count));
  }
  // Up to so many literals are written into the body that uses them.
  constexpr std::size_t kFewLiterals = 64;
  if (shape.tests.size() == 1) {
    const auto known = literals_.find(shape.tests[0]);
    if (known != literals_.end()) return known->second;
  }
  if (const std::optional<std::vector<std::string>> literals = AllowedLiterals(tests, shape)) {
    const ExpressionId body = Quoted(SpellLiterals(pool(), *literals, TextSpelling::kJson));
    const ExpressionId value = literals->size() > kFewLiterals ? Shared("enum", body) : body;
    literals_.emplace(shape.tests[0], value);
    return value;
  }
  return Shared("string", Quoted(WithoutForbidden(tests.Express(json_writer_, shape, true))));
}

ExpressionId JsonRules::RawText(StringPredicates& tests, const StringShape& shape) {
  if (shape.tests.empty()) {
    if (!raw_text_) {
      const ExpressionId character = raw_writer_.AnyCodePoint();
      raw_text_ = WithoutForbidden(pool().Repeat(character, 0, kNoMaximum));
    }
    const ExpressionId body = *raw_text_;
    if (shape.IsFree()) return Shared("text", body);
    return Shared("text", body, CodePointCount{.minimum = shape.minimum, .maximum = shape.maximum});
  }
  if (const std::optional<std::vector<std::string>> literals = AllowedLiterals(tests, shape)) {
    return Shared("enum", SpellLiterals(pool(), *literals, TextSpelling::kRaw));
  }
  return Shared("text", WithoutForbidden(tests.Express(raw_writer_, shape, true)));
}

}  // namespace fathom::constraint
