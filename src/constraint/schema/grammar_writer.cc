#include "constraint/schema/grammar_writer.h"

#include <algorithm>

namespace fathom::constraint {
namespace {

constexpr int kMaxWritingDepth = 150;  // nested containers; deeper ones are postponed
constexpr std::size_t kMaxGrammarExpressions = 3'000'000;
constexpr std::size_t kEmptinessCost = 200;  // in steps of merging

}  // namespace

GrammarWriter::GrammarWriter(JsonRules& rules, SchemaReader& reader, StringPredicates& tests,
                             SchemaReport& report)
    : rules_(rules),
      reader_(reader),
      tests_(tests),
      report_(report),
      planner_(
          reader, tests, report,
          {.closed_objects = rules.options().closed_objects, .canonical = rules.is_canonical()}) {}

ExpressionId GrammarWriter::Literals(const ValueSet& values) {
  std::vector<std::string_view> texts;
  if (values.null) texts.push_back("null");
  if (values.true_value) texts.push_back("true");
  if (values.false_value) texts.push_back("false");
  return rules_.pool().AnyLiteral(std::move(texts));
}

ExpressionId GrammarWriter::Scalars(GoalId goal, bool strings) {
  const ValueSet& values = reader_.Resolve(goal);
  if (report_.failed()) return rules_.pool().Nothing();
  std::vector<ExpressionId> choices = {Literals(values)};
  std::vector<ExpressionId> numbers;
  for (const NumberShape& shape : values.numbers) {
    if (!report_.Spend(1)) break;
    if (!IsEmptyShape(shape, report_.meter()))
      numbers.push_back(NumberText(rules_.pool(), shape, rules_.is_canonical()));
  }
  choices.push_back(rules_.Shared("number", rules_.pool().Or(numbers)));
  for (const StringShape& shape : values.strings) {
    if (!strings) break;
    const bool bounded = shape.minimum > 0 || shape.maximum != kNoMaximum;
    const bool may_be_empty = shape.tests.size() > 1 || (bounded && !shape.tests.empty());
    if (may_be_empty && report_.Spend(kEmptinessCost) && tests_.Survey(shape, 0).empty) continue;
    choices.push_back(rules_.String(tests_, shape));
  }
  return rules_.pool().Or(choices);
}

ExpressionId GrammarWriter::Value(GoalId goal) {
  if (const auto known = values_.find(goal); known != values_.end()) return known->second;
  const ExpressionId value = rules_.pool().Or({Scalars(goal, true), ContainerValue(goal)});
  if (report_.meter().HasEnded()) report_.NoteEnd(reader_.Pointer(goal));
  if (rules_.pool().n_expressions() > kMaxGrammarExpressions) {
    report_.Fail(ConstraintErrorCode::kTooLarge, reader_.Pointer(goal), "",
                 "expected a schema with a smaller grammar");
  }
  if (containers_[goal].value) values_.emplace(goal, value);
  return value;
}

ExpressionId GrammarWriter::ValueButStrings(GoalId goal) {
  return rules_.pool().Or({Scalars(goal, false), ContainerValue(goal)});
}

std::optional<ExpressionId> GrammarWriter::RawStrings(GoalId goal) {
  std::vector<ExpressionId> choices;
  for (const StringShape& shape : reader_.Resolve(goal).strings) {
    if (!shape.tests.empty() && report_.Spend(kEmptinessCost) && tests_.Survey(shape, 0).empty) {
      continue;
    }
    choices.push_back(rules_.RawText(tests_, shape));
  }
  const ExpressionId all = rules_.pool().Or(choices);
  if (all == rules_.pool().Nothing()) return std::nullopt;
  return all;
}

GrammarWriter& GrammarWriter::Canonical() {
  if (rules_.is_canonical()) return *this;
  if (!canonical_) {
    canonical_ = std::make_unique<GrammarWriter>(rules_.Canonical(), reader_, tests_, report_);
  }
  return *canonical_;
}

ExpressionId GrammarWriter::UniqueValue(GoalId goal) {
  return rules_.Shared("unique", Canonical().Value(goal), std::nullopt, LetterKind::kUniqueCall);
}

ExpressionId GrammarWriter::ContainerValue(GoalId goal) {
  Containers& containers = containers_[goal];
  if (containers.value) return *containers.value;
  const ValueSet& values = reader_.Resolve(goal);
  if (report_.failed() || (values.arrays.empty() && values.objects.empty())) {
    containers.value = rules_.pool().Nothing();
    return *containers.value;
  }
  if (containers.writing || depth_ >= kMaxWritingDepth) {
    if (!containers.rule) containers.rule = rules_.grammar().AddRule("value");
    if (!containers.writing) {
      containers.writing = true;
      postponed_.push_back(goal);
    }
    return rules_.grammar().Call(*containers.rule);
  }
  containers.writing = true;
  ++depth_;
  const ExpressionId value = WriteContainers(goal);
  --depth_;
  containers.value = value;
  return value;
}

void GrammarWriter::Finish() {
  while (!postponed_.empty() && !report_.failed()) {
    const GoalId goal = postponed_.back();
    postponed_.pop_back();
    Containers& containers = containers_[goal];
    WriteContainers(goal);
    containers.value = rules_.grammar().Call(*containers.rule);
  }
  if (canonical_) canonical_->Finish();
}

ExpressionId GrammarWriter::WriteContainers(GoalId goal) {
  const ValueSet& values = reader_.Resolve(goal);
  std::vector<ExpressionId> choices;
  std::vector<LazyObject> drafts;
  for (const ArrayShape& shape : values.arrays) {
    if (report_.failed()) break;
    if (const auto plan = planner_.PlanArray(shape, goal)) choices.push_back(Array(*plan));
  }
  const std::vector<ObjectShape> objects =
      rules_.is_canonical() ? planner_.InOneOrder(goal) : values.objects;
  for (const ObjectShape& shape : objects) {
    if (report_.failed()) break;
    for (const ObjectPlan& plan : planner_.PlanObject(shape, goal)) {
      std::optional<LazyObject> draft = Object(plan);
      if (!draft) continue;
      if (ObjectsBody::CanHold(rules_.pool(), *draft)) {
        drafts.push_back(*std::move(draft));
      } else {
        choices.push_back(WriteObject(rules_.grammar(), rules_.punctuation(), *draft));
      }
    }
  }
  if (!ObjectsBody::AreMany(drafts)) {
    for (const LazyObject& draft : drafts) {
      choices.push_back(WriteObject(rules_.grammar(), rules_.punctuation(), draft));
    }
    drafts.clear();
  }
  const ExpressionId written = rules_.pool().Or(choices);
  const std::optional<RuleId> rule = containers_[goal].rule;
  if (!drafts.empty()) {
    return rules_.grammar().Call(rules_.ObjectsRule(
        "value", std::make_unique<ObjectsBody>(rules_.punctuation(), written, std::move(drafts)),
        rule));
  }
  if (written == rules_.pool().Nothing()) return written;
  return rules_.grammar().Call(rules_.MakeRule("value", written, std::nullopt, rule));
}

}  // namespace fathom::constraint
