#include "constraint/schema/string_predicates.h"

#include <algorithm>

#include "base/character_count.h"
#include "constraint/grammar/automaton.h"
#include "constraint/lists.h"
#include "constraint/readers/regex.h"
#include "json/json_writer.h"

namespace fathom::constraint {
namespace {

// Keeps a survey within the work that a schema may take.
constexpr std::size_t kMaxSurveyStates = 4'000;
constexpr std::size_t kMaxSurveyed = std::size_t{8} << 20;  // bytes that are kept for later surveys

RegexOptions OptionsFor(TextWriter& writer, bool whole) {
  constexpr std::size_t kMaxFormatBytes = 1 << 20;  // the bound of our own expressions
  RegexOptions options{.anchored = whole};
  if (whole) options.max_bytes = kMaxFormatBytes;
  // The options are used while the writer lives.
  options.spell = [&writer](ExpressionPool&, const CodePointSet& set) { return writer.Spell(set); };
  return options;
}

}  // namespace

ExpressionId SpellLiterals(ExpressionPool& pool, const std::vector<std::string>& texts,
                           TextSpelling spelling) {
  std::vector<std::string> spelled = texts;
  for (std::size_t i = 0; i < texts.size() && spelling == TextSpelling::kJson; ++i) {
    spelled[i].clear();
    AppendJsonEscaped(texts[i], &spelled[i]);
  }
  // The limits of schemas count a choice for each list.
  return pool.Or({pool.AnyLiteral({spelled.begin(), spelled.end()})});
}

ExpressionId SpellQuoted(ExpressionPool& pool, std::string_view text) {
  std::string quoted = "\"";
  AppendJsonEscaped(text, &quoted);
  return pool.Literal(quoted + "\"");
}

struct StringPredicates::Entry {
  std::string regex{};
  bool whole = false;
  std::vector<std::string> literals{};
  bool is_literals = false;
  WriteTexts write = nullptr;
  // Made for Matches.
  std::unique_ptr<ExpressionPool> pool{};
  std::unique_ptr<Automaton> automaton{};
  ExpressionId expression = 0;
  std::optional<StateId> start{};
};

// The pool of all surveys.
struct StringPredicates::Surveyed {
  explicit Surveyed(WorkMeter& meter) : pool(&meter) {}
  ExpressionPool pool;
  TextWriter writer{pool, TextSpelling::kRaw};
};

StringPredicates::StringPredicates(WorkMeter& meter) : meter_(meter) {}
StringPredicates::~StringPredicates() = default;

ExpressionId TextWriter::Spell(const CodePointSet& set) {
  std::u32string key;
  for (const CodePointRange& range : set) {
    key += range.first;
    key += range.last;
  }
  const auto [found, is_new] = sets_.try_emplace(std::move(key), 0);
  if (is_new) {
    found->second = spelling_ == TextSpelling::kJson ? SpellInJson(pool_, set) : Utf8(pool_, set);
  }
  return found->second;
}

ExpressionId TextWriter::AnyCodePoint() { return Spell(AllCodePoints()); }

ExpressionId TextWriter::Whole(std::string_view regex) {
  const ConstraintResult<ExpressionId> parsed =
      ParseRegex(pool_, regex, OptionsFor(*this, /*whole=*/true));
  return parsed ? *parsed : pool_.Nothing();
}

ExpressionId TextWriter::Entry(std::uint32_t entry, const std::function<ExpressionId()>& write) {
  const auto known = entries_.find(entry);
  if (known != entries_.end()) return known->second;
  return entries_.emplace(entry, write()).first->second;
}

StringPredicate StringPredicates::Add(Entry entry) {
  entries_.push_back(std::make_unique<Entry>(std::move(entry)));
  return {.entry = static_cast<std::uint32_t>(entries_.size() - 1)};
}

ConstraintResult<StringPredicate> StringPredicates::Pattern(std::string_view regex) {
  const auto found = patterns_.find(regex);
  if (found != patterns_.end()) return found->second;
  auto pool = std::make_unique<ExpressionPool>(&meter_);
  TextWriter writer(*pool, TextSpelling::kRaw);
  const ConstraintResult<ExpressionId> parsed =
      ParseRegex(*pool, regex, OptionsFor(writer, /*whole=*/false));
  if (!parsed) return tl::unexpected<ConstraintError>(parsed.error());
  const StringPredicate test =
      Add({.regex = std::string(regex), .pool = std::move(pool), .expression = *parsed});
  patterns_.emplace(regex, test);
  return test;
}

StringPredicate StringPredicates::Format(std::string_view regex) {
  const auto [place, is_new] = formats_.try_emplace(std::string(regex));
  if (is_new) place->second = Add({.regex = std::string(regex), .whole = true});
  return place->second;
}

StringPredicate StringPredicates::Written(WriteTexts write) {
  const auto [place, is_new] = written_.try_emplace(write);
  if (is_new) place->second = Add({.write = write});
  return place->second;
}

StringPredicate StringPredicates::Literals(std::vector<std::string> texts) {
  SortUnique(texts);
  const auto [place, is_new] = literals_.try_emplace(texts);
  if (is_new) place->second = Add({.literals = std::move(texts), .is_literals = true});
  return place->second;
}

const std::vector<std::string>* StringPredicates::FindLiterals(StringPredicate test) const {
  const Entry& entry = *entries_[test.entry];
  return entry.is_literals ? &entry.literals : nullptr;
}

StringPredicates::Entry& StringPredicates::Expressed(std::uint32_t id) {
  Entry& entry = *entries_[id];
  if (!entry.pool) {
    entry.pool = std::make_unique<ExpressionPool>(&meter_);
    TextWriter writer(*entry.pool, TextSpelling::kRaw);
    entry.expression = ExpressEntry(writer, id);
  }
  return entry;
}

StringPredicates::Entry& StringPredicates::Compiled(std::uint32_t id) {
  Entry& entry = Expressed(id);
  if (entry.start) return entry;
  entry.automaton = std::make_unique<Automaton>(*entry.pool, kMaxSurveyStates);
  entry.start = entry.automaton->Start(entry.expression);
  return entry;
}

bool StringPredicates::Matches(StringPredicate test, std::string_view text) {
  if (const auto* literals = FindLiterals(test)) {
    return std::binary_search(literals->begin(), literals->end(), text) != test.negated;
  }
  const Entry& entry = Compiled(test.entry);
  StateId state = *entry.start;
  for (const char c : text) {
    if (state == kDeadState) break;
    state = entry.automaton->Next(state, static_cast<std::uint8_t>(c));
  }
  return entry.automaton->Accepts(state) != test.negated;
}

bool StringPredicates::Matches(const StringShape& shape, std::string_view text) {
  const std::size_t length = CountCharacters(text);
  if (length < shape.minimum || length > shape.maximum) return false;
  return std::ranges::all_of(shape.tests,
                             [&](StringPredicate test) { return Matches(test, text); });
}

std::optional<StringShape> StringPredicates::Intersect(const StringShape& a, const StringShape& b) {
  StringShape both{.minimum = std::max(a.minimum, b.minimum),
                   .maximum = std::min(a.maximum, b.maximum)};
  if (both.minimum > both.maximum) return std::nullopt;
  std::set_union(a.tests.begin(), a.tests.end(), b.tests.begin(), b.tests.end(),
                 std::back_inserter(both.tests));
  for (const StringPredicate test : both.tests) {
    const std::vector<std::string>* literals = test.negated ? nullptr : FindLiterals(test);
    if (literals == nullptr) continue;
    if (both.tests.size() == 1 && both.minimum == 0 && both.maximum == kNoMaximum) return both;
    std::vector<std::string> kept;
    for (const std::string& text : *literals) {
      if (Matches(both, text)) kept.push_back(text);
    }
    if (kept.empty()) return std::nullopt;
    return StringShape{.tests = {Literals(std::move(kept))}};
  }
  for (const StringPredicate test : both.tests) {
    const StringPredicate other{.entry = test.entry, .negated = !test.negated};
    if (std::binary_search(both.tests.begin(), both.tests.end(), other)) return std::nullopt;
  }
  return both;
}

std::vector<StringShape> StringPredicates::Complement(const StringShape& shape) {
  std::vector<StringShape> rest;
  for (const StringPredicate test : shape.tests) {
    rest.push_back({.tests = {{.entry = test.entry, .negated = !test.negated}}});
  }
  if (shape.minimum > 0) rest.push_back({.maximum = shape.minimum - 1});
  if (shape.maximum != kNoMaximum) rest.push_back({.minimum = shape.maximum + 1});
  return rest;
}

const TextSurvey& StringPredicates::Survey(const StringShape& shape, std::size_t most) {
  const auto [known, is_new] = surveys_.try_emplace({shape, most});
  if (is_new) known->second = MakeSurvey(shape, most);
  return known->second;
}

TextSurvey StringPredicates::MakeSurvey(const StringShape& shape, std::size_t most) {
  TextSurvey survey;
  for (const StringPredicate test : shape.tests) {
    if (test.negated || FindLiterals(test) == nullptr) continue;
    for (const std::string& text : *FindLiterals(test)) {
      if (Matches(shape, text)) survey.texts.push_back(text);
    }
    survey.empty = survey.texts.empty();
    survey.finite = survey.texts.size() <= most;
    return survey;
  }
  if (shape.minimum > kMaxSurveyStates) return survey;
  const auto search = [&](ExpressionPool& pool, ExpressionId all) {
    Automaton automaton(pool, kMaxSurveyStates);
    const StateId start = automaton.Start(all);
    survey.empty = start == kDeadState && !automaton.exhausted();
    survey.finite = survey.empty || (most > 0 && automaton.ListTexts(start, most, survey.texts) &&
                                     !automaton.exhausted());
    if (!survey.finite) survey.texts.clear();
  };
  const bool has_bounds = shape.minimum > 0 || shape.maximum != kNoMaximum;
  if (shape.tests.size() == 1 && !shape.tests[0].negated && !has_bounds) {
    Entry& entry = Expressed(shape.tests[0].entry);
    // The pool serves one automaton at a time, and the next one starts with a limit of its own.
    entry.automaton.reset();
    entry.start.reset();
    search(*entry.pool, entry.expression);
  } else {
    // Most surveys combine the same few tests with others.
    if (!surveyed_ || surveyed_->pool.memory() > kMaxSurveyed) {
      surveyed_ = std::make_unique<Surveyed>(meter_);
    }
    const ExpressionId all = Express(surveyed_->writer, shape, true);
    search(surveyed_->pool, all);
  }
  return survey;
}

ExpressionId StringPredicates::ExpressEntry(TextWriter& writer, std::uint32_t id) const {
  const Entry& entry = *entries_[id];
  return writer.Entry(id, [&] {
    if (entry.is_literals) return SpellLiterals(writer.pool(), entry.literals, writer.spelling());
    if (entry.write != nullptr) return entry.write(writer);
    const ConstraintResult<ExpressionId> parsed =
        ParseRegex(writer.pool(), entry.regex, OptionsFor(writer, entry.whole));
    return parsed ? *parsed : writer.pool().Nothing();  // Pattern has parsed it before
  });
}

ExpressionId StringPredicates::Express(TextWriter& writer, const StringShape& shape,
                                       bool lengths) const {
  ExpressionPool& pool = writer.pool();
  std::vector<ExpressionId> all;
  bool bounded = false;  // some part restricts the texts to the spelling
  for (const StringPredicate test : shape.tests) {
    const ExpressionId entry = ExpressEntry(writer, test.entry);
    all.push_back(test.negated ? pool.Not(entry) : entry);
    bounded |= !test.negated;
  }
  if (lengths && (shape.minimum > 0 || shape.maximum != kNoMaximum)) {
    all.push_back(pool.Repeat(writer.AnyCodePoint(), shape.minimum, shape.maximum));
    bounded = true;
  }
  if (!bounded) all.push_back(pool.Repeat(writer.AnyCodePoint(), 0, kNoMaximum));
  return pool.And(all);
}

}  // namespace fathom::constraint
