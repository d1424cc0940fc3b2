// Random GBNF grammars, against an evaluation of what they were written from.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "constraint/readers/gbnf.h"
#include "tests/constraint/grammar_reader.h"
#include "tests/constraint/naive_recognizer.h"

namespace fathom::constraint {
namespace {

// A part of a rule.
struct Node {
  enum class Kind { kText, kClass, kRule, kConcat, kOr, kRepeat };
  Kind kind = Kind::kText;
  std::string text{};  // kText, and kClass: the characters that match
  std::size_t rule = 0;
  std::size_t minimum = 0;  // kRepeat; the maximum is this and two more, or there is none
  bool has_maximum = false;
  std::vector<Node> parts{};
};

Node RandomNode(std::size_t n_rules, int depth) {
  Node node;
  const int kind = *rc::gen::inRange(0, depth > 0 ? 6 : 3);
  node.kind = static_cast<Node::Kind>(kind);
  switch (node.kind) {
    case Node::Kind::kText:
      node.text = *rc::gen::elementOf(std::vector<std::string>{"", "a", "b", "ab", "ba"});
      break;
    case Node::Kind::kClass:
      node.text = *rc::gen::elementOf(std::vector<std::string>{"a", "b", "ab"});
      break;
    case Node::Kind::kRule:
      node.rule = *rc::gen::inRange<std::size_t>(0, n_rules);
      break;
    case Node::Kind::kRepeat:
      node.minimum = *rc::gen::inRange<std::size_t>(0, 3);
      node.has_maximum = *rc::gen::arbitrary<bool>();
      node.parts.push_back(RandomNode(n_rules, depth - 1));
      break;
    default:
      for (int n = *rc::gen::inRange(1, 4); n > 0; --n) {
        node.parts.push_back(RandomNode(n_rules, depth - 1));
      }
  }
  return node;
}

std::string Name(std::size_t rule) { return rule == 0 ? "root" : fmt::format("r-{}", rule); }

std::string Written(const Node& node) {
  std::string text;
  switch (node.kind) {
    case Node::Kind::kText:
      return "\"" + node.text + "\"";
    case Node::Kind::kClass:
      return "[" + node.text + "]";
    case Node::Kind::kRule:
      return Name(node.rule);
    case Node::Kind::kRepeat:
      text = Written(node.parts[0]) + "{" + std::to_string(node.minimum) + ",";
      return text + (node.has_maximum ? std::to_string(node.minimum + 2) : "") + "}";
    default:
      for (const Node& part : node.parts) {
        if (!text.empty()) text += node.kind == Node::Kind::kOr ? " | " : " ";
        text += Written(part);
      }
      return "(" + text + ")";
  }
}

// Where each rule may end, by where it begins: grows until nothing is new.
class Evaluation {
 public:
  explicit Evaluation(const std::vector<Node>& rules) : rules_(rules) {}

  bool Accepts(std::string_view text) {
    text_ = text;
    ends_.clear();
    do {
      changed_ = false;
      for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
        for (std::size_t begin = 0; begin <= text.size(); ++begin) {
          for (const std::size_t end : Ends(rules_[rule], begin)) {
            changed_ = ends_[{rule, begin}].insert(end).second || changed_;
          }
        }
      }
    } while (changed_);
    return ends_[{0, 0}].contains(text.size());
  }

 private:
  using Places = std::set<std::size_t>;

  Places Ends(const Node& node, std::size_t begin) {
    switch (node.kind) {
      case Node::Kind::kText:
        if (!text_.substr(begin).starts_with(node.text)) return {};
        return {begin + node.text.size()};
      case Node::Kind::kClass:
        if (begin == text_.size() || node.text.find(text_[begin]) == std::string::npos) return {};
        return {begin + 1};
      case Node::Kind::kRule:
        return ends_[{node.rule, begin}];
      case Node::Kind::kOr: {
        Places ends;
        for (const Node& part : node.parts) ends.merge(Ends(part, begin));
        return ends;
      }
      case Node::Kind::kConcat: {
        Places places = {begin};
        for (const Node& part : node.parts) places = EndsFrom(part, places);
        return places;
      }
      case Node::Kind::kRepeat:
        return RepeatEnds(node, begin);
    }
    return {};
  }

  Places EndsFrom(const Node& node, const Places& begins) {
    Places ends;
    for (const std::size_t begin : begins) ends.merge(Ends(node, begin));
    return ends;
  }

  Places RepeatEnds(const Node& node, std::size_t begin) {
    Places places = {begin};
    for (std::size_t i = 0; i < node.minimum; ++i) places = EndsFrom(node.parts[0], places);
    Places ends = places;
    // Without a maximum: a text has as many parts that are not empty as it has characters.
    const std::size_t n_more = node.has_maximum ? 2 : text_.size();
    for (std::size_t i = 0; i < n_more; ++i) {
      places = EndsFrom(node.parts[0], places);
      ends.insert(places.begin(), places.end());
    }
    return ends;
  }

  const std::vector<Node>& rules_;
  std::string_view text_{};
  std::map<std::pair<std::size_t, std::size_t>, Places> ends_{};
  bool changed_ = false;
};

// All texts of a and b with at most four letters.
std::vector<std::string> SmallTexts() {
  std::vector<std::string> texts = {""};
  for (std::size_t i = 0; i < 15; ++i) {
    texts.push_back(texts[i] + "a");
    texts.push_back(texts[i] + "b");
  }
  return texts;
}

// Some rules, and the same as GBNF.
std::vector<Node> RandomRules(std::string& source) {
  std::vector<Node> rules(*rc::gen::inRange<std::size_t>(1, 4));
  for (std::size_t i = 0; i < rules.size(); ++i) {
    rules[i] = RandomNode(rules.size(), 3);
    source += Name(i) + " ::= " + Written(rules[i]) + "\n";
  }
  return rules;
}

TEST(GbnfProperties, TextsOfRandomGrammars) {
  const std::vector<std::string> texts = SmallTexts();
  const bool passed = rc::check([&] {
    std::string source;
    const std::vector<Node> rules = RandomRules(source);
    Grammar grammar;
    const ConstraintResult<void> parsed = ParseGbnf(grammar, source, {});
    testing::NaiveRecognizer recognizer(grammar);
    Evaluation evaluation(rules);
    for (const std::string& text : texts) {
      const bool expected = evaluation.Accepts(text);
      const bool accepted = parsed && recognizer.Accepts(text);
      if (expected != accepted) {
        RC_FAIL(fmt::format("\"{}\": expected {}\n{}{}", text, expected, source,
                            parsed ? "" : parsed.error().message));
      }
    }
  });
  EXPECT_TRUE(passed);
}

// The matcher accepts the same texts. A text begins if it is the beginning of an accepted one; the
// converse holds for the texts here that another letter may follow.
TEST(GbnfProperties, MatcherOfRandomGrammars) {
  const std::vector<std::string> texts = SmallTexts();
  const bool passed = rc::check([&] {
    std::string source;
    const std::vector<Node> rules = RandomRules(source);
    auto grammar = std::make_unique<Grammar>();
    if (!ParseGbnf(*grammar, source, {})) return;
    GrammarReader reader(std::move(grammar));
    Evaluation evaluation(rules);
    for (const std::string& text : texts) {
      const MatcherState state = reader.Read(text);
      const bool goes_on = reader.Begins(text + "a") || reader.Begins(text + "b");
      if (state.accepts != evaluation.Accepts(text))
        RC_FAIL("\"" + text + "\": accepts\n" + source);
      if (state.IsDead() == (state.accepts || goes_on)) {
        RC_FAIL("\"" + text + "\": a state that leads nowhere\n" + source);
      }
    }
  });
  EXPECT_TRUE(passed);
}

}  // namespace
}  // namespace fathom::constraint
