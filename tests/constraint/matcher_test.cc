#include "constraint/grammar/matcher.h"

#include <string>
#include <utility>
#include <vector>

#include "tests/constraint/grammar_reader.h"

namespace fathom::constraint {
namespace {

TEST(Matcher, ReadsRecursiveRules) {
  GrammarReader reader = GrammarReader::FromGbnf(R"g(root ::= "(" root ")" root | "")g");
  for (const char* text : {"", "()", "(())()", "((()())())"})
    EXPECT_TRUE(reader.Accepts(text)) << text;
  for (const char* text : {"(", "(()", "()("}) {
    EXPECT_FALSE(reader.Accepts(text)) << text;
    EXPECT_TRUE(reader.Begins(text)) << text;
  }
  for (const char* text : {")", "())", "x"}) EXPECT_FALSE(reader.Begins(text)) << text;
}

TEST(Matcher, ReadsLeftRecursion) {
  GrammarReader reader = GrammarReader::FromGbnf(R"g(
root ::= sum
sum ::= sum "+" product | product
product ::= product "*" atom | atom
atom ::= [0-9]+ | "(" sum ")"
)g");
  for (const char* text : {"1", "1+2", "1+2*3", "(1+2)*(3+45)*6"}) {
    EXPECT_TRUE(reader.Accepts(text)) << text;
  }
  for (const char* text : {"+", "1++", "(1))", "1*+"}) EXPECT_FALSE(reader.Begins(text)) << text;
  EXPECT_FALSE(reader.Accepts("(1+2"));
}

TEST(Matcher, ReadsAmbiguousRules) {
  GrammarReader reader = GrammarReader::FromGbnf(R"g(root ::= root root | "a")g");
  EXPECT_FALSE(reader.Accepts(""));
  std::string text;
  for (int n = 1; n <= 64; ++n) {
    text += 'a';
    EXPECT_TRUE(reader.Accepts(text)) << n;
  }
  EXPECT_FALSE(reader.Begins(text + "b"));
}

TEST(Matcher, ReadsRulesThatMatchNothingInCycles) {
  GrammarReader reader = GrammarReader::FromGbnf(R"g(
root ::= a b "x" | root "y"
a ::= b | a a | ""
b ::= a | ""
)g");
  for (const char* text : {"x", "xy", "xyyy"}) EXPECT_TRUE(reader.Accepts(text)) << text;
  EXPECT_FALSE(reader.Begins("y"));
  EXPECT_FALSE(reader.Begins("xx"));
}

// A call at the end of a rule leaves no frame behind.
TEST(Matcher, KeepsRightRecursionFlat) {
  GrammarReader reader = GrammarReader::FromGbnf(R"g(root ::= "a" root | "b")g");
  MatcherState state = reader.Read("a");
  for (int i = 0; i < 10'000; ++i) {
    state = reader.ReadFrom(std::move(state), "a");
    ASSERT_EQ(state.leaves.size(), 1u);
  }
  EXPECT_TRUE(reader.ReadFrom(state, "b").accepts);
}

TEST(Matcher, BoundsTheDepth) {
  const MatcherLimits limits = {.max_depth = 10};
  GrammarReader reader = GrammarReader::FromGbnf(R"g(root ::= "(" root ")" | "x")g", limits);
  EXPECT_TRUE(reader.Accepts("((((x))))"));
  EXPECT_FALSE(reader.Begins(std::string(12, '(')));
  // The deepest text that may begin can be ended.
  std::string open;
  while (reader.Begins(open + "(")) open += '(';
  EXPECT_TRUE(reader.Accepts(open + "x" + std::string(open.size(), ')')));
}

TEST(Matcher, GivesUpWhereThereAreTooManyWays) {
  const MatcherLimits limits = {.max_leaves = 20};
  GrammarReader reader =
      GrammarReader::FromGbnf("root ::= \"(\" root \" \"? root? \")\" | \"x\" root?\n", limits);
  MatcherState state = reader.matcher().Begin();
  bool gave_up = false;
  for (int i = 0; i < 400 && !gave_up; ++i) {
    reader.matcher().Reset();
    MatcherState next;
    const bool steps = reader.matcher().Step(state, i % 2 == 0 ? '(' : 'x', next);
    gave_up = !steps && reader.matcher().TooComplex();
    if (!steps) break;
    state = std::move(next);
  }
  reader.matcher().Reset();
  EXPECT_FALSE(reader.matcher().TooComplex());
}

// Every place leads on to all those before it: the ways that are known already are counted too.
// Frames behind which the same may follow are one: a state is as large as what may follow.
TEST(Matcher, KeepsAmbiguousRulesSmall) {
  struct Case {
    const char* grammar;
    const char* text;  // repeated
  };
  const Case cases[] = {
      {R"g(root ::= root root | "a")g", "a"},
      {R"g(root ::= root root | "a" | "ab" | " ")g", "ab a "},
      {R"g(root ::= list
list ::= item list | item
item ::= "a" | list)g",
       "aa"},
      {R"g(root ::= sum
sum ::= sum "+" sum | sum "*" sum | [0-9]+)g",
       "12+3*"},
      {R"g(root ::= a a a "!"
a ::= b? [x-z]*
b ::= a "-" | "")g",
       "x-y--"},
      {R"g(root ::= x
x ::= y | "b" x | x "c"
y ::= x | "a")g",
       "bbbb"},
  };
  for (const Case& of : cases) {
    GrammarReader reader = GrammarReader::FromGbnf(of.grammar);
    MatcherState state = reader.Read(of.text);
    for (int i = 0; i < 500; ++i) {
      state = reader.ReadFrom(std::move(state), of.text);
      ASSERT_FALSE(reader.matcher().TooComplex()) << of.grammar << i;
      ASSERT_FALSE(state.IsDead()) << of.grammar << i;
      ASSERT_LE(state.leaves.size(), 24u) << of.grammar << i;
    }
  }
}

TEST(Matcher, CountsWaysThatAreKnown) {
  GrammarReader reader = GrammarReader::FromGbnf(R"g(root ::= root root root | "a")g");
  MatcherState state = reader.matcher().Begin();
  int n = 0;
  for (MatcherState next; reader.matcher().Step(state, 'a', next); ++n) {
    reader.matcher().Reset();
    state = std::move(next);
  }
  EXPECT_TRUE(reader.matcher().TooComplex());
  EXPECT_GT(n, 200);
  EXPECT_LT(n, 500);
}

TEST(Matcher, LeavesOutRulesWithoutTexts) {
  auto grammar = std::make_unique<Grammar>();
  ExpressionPool& pool = grammar->pool;
  const RuleId endless = grammar->AddRule("endless");
  grammar->rules[endless].body = pool.Concat(pool.Literal("("), grammar->Call(endless));
  const ExpressionId both[] = {pool.Concat(pool.Literal("a"), grammar->Call(endless)),
                               pool.Literal("ab")};
  grammar->start = pool.Or(both);
  GrammarReader reader(std::move(grammar));
  EXPECT_TRUE(reader.Accepts("ab"));
  EXPECT_FALSE(reader.Begins("a("));
}

// Members in any order, each once, the first and the third needed.
std::unique_ptr<Grammar> Members() {
  auto grammar = std::make_unique<Grammar>();
  ExpressionPool& pool = grammar->pool;
  std::vector<ExpressionId> members;
  for (std::uint32_t i = 0; i < 3; ++i) {
    members.push_back(pool.Concat(grammar->Mark(i), pool.Literal(std::string(1, "abc"[i]) + ";")));
  }
  grammar->start = pool.Concat(
      std::vector<ExpressionId>{pool.Literal("{"), pool.Repeat(pool.Or(members), 0, kNoMaximum),
                                grammar->Need({0, 2}), pool.Literal("}")});
  return grammar;
}

TEST(Matcher, CountsMarksOnceAndNeedsThem) {
  GrammarReader reader(Members());
  for (const char* text : {"{a;c;}", "{c;a;}", "{b;c;a;}", "{a;b;c;}"}) {
    EXPECT_TRUE(reader.Accepts(text)) << text;
  }
  for (const char* text : {"{}", "{a;}", "{a;a", "{a;b;b", "{a;c;d"}) {
    EXPECT_FALSE(reader.Begins(text)) << text;
  }
}

TEST(Matcher, RefusesRepeatedTextsOfUniqueCalls) {
  auto grammar = std::make_unique<Grammar>();
  ExpressionPool& pool = grammar->pool;
  const RuleId word = grammar->AddRule("word");
  grammar->rules[word].body = pool.Concat(
      pool.Repeat(pool.Bytes(ByteSet::Range('a', 'z')), 1, kNoMaximum), pool.Literal("."));
  grammar->start =
      pool.Concat(pool.Repeat(grammar->UniqueCall(word), 0, kNoMaximum), pool.Literal("!"));
  GrammarReader reader(std::move(grammar));
  for (const char* text : {"!", "a.!", "a.ab.b.!", "ab.a.abc.!"})
    EXPECT_TRUE(reader.Accepts(text)) << text;
  EXPECT_TRUE(reader.Begins("ab.ab"));
  EXPECT_FALSE(reader.Begins("ab.ab."));
  EXPECT_FALSE(reader.Begins("ab.a.ab."));
}

// A text that can only repeat an earlier one is not begun.
TEST(Matcher, LeavesUniqueTextsThatAreUsedUp) {
  auto grammar = std::make_unique<Grammar>();
  ExpressionPool& pool = grammar->pool;
  const RuleId word = grammar->AddRule("word");
  grammar->rules[word].body = pool.AnyLiteral({"ab.", "ac.", "d."});
  grammar->start = pool.Repeat(grammar->UniqueCall(word), 0, 3);
  GrammarReader reader(std::move(grammar));
  EXPECT_TRUE(reader.Accepts("ac.d.ab."));
  EXPECT_FALSE(reader.Begins("ab.ac.a"));
  EXPECT_FALSE(reader.Begins("d.d"));
  EXPECT_TRUE(reader.Begins("ab.a"));
  EXPECT_FALSE(reader.Begins("ab.ab"));
}

// The text of a unique call is that of all rules within it, at any depth.
TEST(Matcher, ComparesUniqueTextsAcrossRules) {
  auto grammar = std::make_unique<Grammar>();
  ExpressionPool& pool = grammar->pool;
  const RuleId list = grammar->AddRule("list");
  const RuleId word = grammar->AddRule("word");
  grammar->rules[word].body = pool.AnyLiteral({"a", "b", "cd"});
  const ExpressionId item[] = {grammar->Call(word), grammar->Call(list)};
  const ExpressionId parts[] = {pool.Literal("["),
                                pool.Repeat(pool.Concat(pool.Or(item), pool.Literal(",")), 0, 2),
                                pool.Literal("]")};
  grammar->rules[list].body = pool.Concat(parts);
  const RuleId unique = grammar->AddRule("unique");
  grammar->rules[unique].body = grammar->Call(list);
  grammar->start =
      pool.Concat(pool.Repeat(grammar->UniqueCall(unique), 0, kNoMaximum), pool.Literal("!"));
  GrammarReader reader(std::move(grammar));
  for (const char* text : {"[][a,]!", "[a,][[a,],][[a,],b,]!", "[cd,a,][cd,b,]!"}) {
    EXPECT_TRUE(reader.Accepts(text)) << text;
  }
  EXPECT_TRUE(reader.Begins("[a,[b,],][a,[b,"));
  EXPECT_FALSE(reader.Begins("[a,[b,],][a,[b,]"));
  EXPECT_FALSE(reader.Begins("[][]"));
}

// A text within nested rules that could only repeat an earlier one is not begun.
TEST(Matcher, LeavesUniqueTextsThatAreUsedUpWithinRules) {
  auto grammar = std::make_unique<Grammar>();
  ExpressionPool& pool = grammar->pool;
  const RuleId word = grammar->AddRule("word");
  grammar->rules[word].body = pool.AnyLiteral({"x", "yz"});
  const RuleId pair = grammar->AddRule("pair");
  const ExpressionId parts[] = {pool.Literal("("), grammar->Call(word), pool.Literal(":"),
                                grammar->Call(word), pool.Literal(")")};
  grammar->rules[pair].body = pool.Concat(parts);
  grammar->start = pool.Concat(
      grammar->UniqueCall(pair),
      pool.Repeat(pool.Concat(pool.Literal(","), grammar->UniqueCall(pair)), 0, kNoMaximum));
  GrammarReader reader(std::move(grammar));
  const std::string three = "(x:x),(x:yz),(yz:x)";
  EXPECT_TRUE(reader.Accepts(three));
  EXPECT_TRUE(reader.Accepts(three + ",(yz:yz)"));
  EXPECT_FALSE(reader.Begins(three + ",(x"));
  EXPECT_TRUE(reader.Begins("(x:x),(x:"));
  EXPECT_FALSE(reader.Begins("(x:x),(x:x"));
  EXPECT_FALSE(reader.Begins(three + ",(yz:yz),"));
}

TEST(Matcher, OrdersTextsOfAscendingCalls) {
  auto grammar = std::make_unique<Grammar>();
  ExpressionPool& pool = grammar->pool;
  const RuleId word = grammar->AddRule("word");
  grammar->rules[word].body =
      pool.Concat(pool.Repeat(pool.Bytes(ByteSet::Range('a', 'c')), 1, 2), pool.Literal("."));
  grammar->start =
      pool.Concat(pool.Repeat(grammar->AscendingCall(word), 0, kNoMaximum), pool.Literal("!"));
  GrammarReader reader(std::move(grammar));
  for (const char* text : {"!", "a.ab.b.!", "aa.ab.cc.!", "c.cc.!"}) {
    EXPECT_TRUE(reader.Accepts(text)) << text;
  }
  for (const char* text : {"b.a", "ab.a.", "ab.ab.", "ab.aa", "cc.c"}) {
    EXPECT_FALSE(reader.Begins(text)) << text;
  }
  EXPECT_TRUE(reader.Begins("ab.a"));
  EXPECT_FALSE(reader.Begins("ac.a"));
}

// A comma stands between the end of one unique call and the begin of the next one.
TEST(Matcher, NotesUniqueCallsBehindOthers) {
  auto grammar = std::make_unique<Grammar>();
  ExpressionPool& pool = grammar->pool;
  const RuleId word = grammar->AddRule("word");
  grammar->rules[word].body = pool.Concat(
      pool.Repeat(pool.Bytes(ByteSet::Range('a', 'z')), 1, kNoMaximum), pool.Literal("."));
  const ExpressionId item = grammar->UniqueCall(word);
  grammar->start =
      pool.Concat(item, pool.Repeat(pool.Concat(pool.Literal(","), item), 0, kNoMaximum));
  GrammarReader reader(std::move(grammar));
  Matcher& matcher = reader.matcher();
  const MatcherState state = reader.Read("ab.,c");
  std::vector<FrameRef> frames;
  matcher.Record(&frames);
  MatcherState behind;
  MatcherState next;
  ASSERT_TRUE(matcher.Step(state, '.', behind));
  EXPECT_FALSE(matcher.TakeReadsNewTexts());
  ASSERT_TRUE(matcher.Step(behind, ',', next));
  EXPECT_TRUE(matcher.TakeReadsNewTexts());
  matcher.Record(nullptr);
}

TEST(Matcher, CountsCodePoints) {
  auto grammar = std::make_unique<Grammar>();
  ExpressionPool& pool = grammar->pool;
  const RuleId text = grammar->AddRule("text");
  const ExpressionId units[] = {pool.Bytes(ByteSet::Range('a', 'z')), pool.Literal("\\n"),
                                pool.Literal("\xC3\xA4")};
  grammar->rules[text].body = pool.Repeat(pool.Or(units), 0, kNoMaximum);
  grammar->rules[text].count = CodePointCount{.minimum = 2, .maximum = 4};
  grammar->start = pool.Concat(
      std::vector<ExpressionId>{pool.Literal("\""), grammar->Call(text), pool.Literal("\"")});
  GrammarReader reader(std::move(grammar));
  for (const char* good : {"\"ab\"", "\"\\n\\n\\na\"", "\"\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\""}) {
    EXPECT_TRUE(reader.Accepts(good)) << good;
  }
  for (const char* bad : {"\"\"", "\"a\"", "\"abcde", "\"\\na\\na\xC3"}) {
    EXPECT_FALSE(reader.Begins(bad)) << bad;
  }
}

TEST(Matcher, OlderStatesAreRollbacks) {
  GrammarReader reader =
      GrammarReader::FromGbnf(R"g(root ::= "[" (root ("," root)*)? "]" | [0-9]+)g");
  const std::string text = "[1,[2,[],[34,5]],6]";
  std::vector<MatcherState> states = {reader.matcher().Begin()};
  for (const char c : text) states.push_back(reader.ReadFrom(states.back(), std::string(1, c)));
  for (std::size_t i = 0; i <= text.size(); ++i) {
    EXPECT_TRUE(reader.ReadFrom(states[i], text.substr(i)).accepts) << i;
    EXPECT_TRUE(reader.ReadFrom(states[i], text.substr(i)).accepts) << i;
  }
}

}  // namespace
}  // namespace fathom::constraint
