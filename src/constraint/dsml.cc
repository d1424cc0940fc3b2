#include "constraint/dsml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "constraint/dsml_names.h"
#include "constraint/grammar/automaton.h"
#include "constraint/readers/regex.h"
#include "json/json_pointer.h"

namespace fathom::constraint {
namespace {

// Marks of a rule (expression.h).
constexpr std::size_t kMaxMarks = 1024;
constexpr std::uint32_t kMaxNameCodePoints = 128;

// Any UTF-8 in which none of `forbidden` occurs.
ExpressionId TextWithout(ExpressionPool& pool, const std::vector<std::string>& forbidden) {
  const ExpressionId any = pool.Repeat(pool.Bytes(ByteSet::All()), 0, kNoMaximum);
  const ExpressionId with =
      pool.Concat({any, pool.AnyLiteral({forbidden.begin(), forbidden.end()}), any});
  return pool.And({pool.Repeat(Utf8(pool, AllCodePoints()), 0, kNoMaximum), pool.Not(with)});
}

// The texts of a regular expression in which none of `forbidden` occurs.
ConstraintResult<ExpressionId> RegexWithout(ExpressionPool& pool, std::string_view regex,
                                            const std::vector<std::string>& forbidden) {
  const ConstraintResult<ExpressionId> parsed = ParseRegex(pool, regex, {.anchored = true});
  if (!parsed) return parsed;
  return pool.And({*parsed, TextWithout(pool, forbidden)});
}

// False if no text matches. Searches in a pool of its own, because an automaton fixes the sets of
// bytes that its pool has; a search that becomes too long finds nothing wrong.
bool HasTextWithout(std::string_view regex, const std::vector<std::string>& forbidden,
                    WorkMeter& meter) {
  constexpr std::size_t kMaxStates = 10'000;
  ExpressionPool pool(&meter);
  const ConstraintResult<ExpressionId> text = RegexWithout(pool, regex, forbidden);
  if (!text) return true;
  Automaton automaton(pool, kMaxStates);
  return automaton.Start(*text) != kDeadState || automaton.exhausted();
}

// Builds the expressions of a block, from the values of parameters up to the whole.
class DsmlBuilder {
 public:
  DsmlBuilder(Grammar& grammar, const DsmlOptions& options, std::vector<std::string>& relaxed)
      : grammar_(grammar), pool_(grammar.pool), options_(options), relaxed_(relaxed) {}

  ConstraintResult<ExpressionId> Block(std::span<const ToolSchema> tools) {
    std::vector<ExpressionId> invokes;
    for (std::size_t i = 0; i < tools.size(); ++i) {
      ConstraintResult<ExpressionId> invoke = Invoke(tools[i], i);
      if (invoke) {
        invokes.push_back(*invoke);
      } else {
        Collect(i, std::move(invoke.error()));
      }
    }
    if (tools.empty()) {
      Collect(0, MakeConstraintError(ConstraintErrorCode::kUnsatisfiableSchema,
                                     "expected at least one tool to call, found none")
                     .value());
    }
    if (error_) return tl::unexpected<ConstraintError>(std::move(*error_));
    const ExpressionId invoke = pool_.Concat({Open("invoke name=\""), pool_.Or(invokes)});
    const ExpressionId more = options_.parallel
                                  ? pool_.Repeat(pool_.Concat({Text("\n"), invoke}), 0, kNoMaximum)
                                  : pool_.Empty();
    return pool_.Concat({Open("tool_calls>\n"), invoke, more, Text("\n"), Close("tool_calls>")});
  }

 private:
  // Adds the issues of a tool to the error of the block.
  void Collect(std::size_t index, ConstraintError error) {
    for (ConstraintIssue& issue : error.issues) {
      issue.pointer.insert(0, std::to_string(index));
    }
    if (!error_) {
      error.message = fmt::format("tool {}: {}", index, error.message);
      error_ = std::move(error);
      return;
    }
    for (ConstraintIssue& issue : error.issues) {
      if (error_->issues.size() < kMaxIssues) error_->issues.push_back(std::move(issue));
    }
  }

  // --- Pieces of markup ---
  ExpressionId Text(std::string_view text) { return pool_.Literal(text); }
  // The beginning of a tag, and of a tag that closes.
  ExpressionId Open(std::string_view name) {
    return pool_.Concat({Text("<"), grammar_.Token(options_.dsml), Text(name)});
  }
  ExpressionId Close(std::string_view name) {
    return pool_.Concat({Text("</"), grammar_.Token(options_.dsml), Text(name)});
  }

  // How a tag of DSML may begin in a value: the parser of answers (docs/spec/encoding.md 9.2) takes
  // the bars in both forms, twice, or not at all.
  static std::vector<std::string> Forbidden() {
    std::vector<std::string> beginnings;
    for (const std::string bracket : {"<", "</"}) {
      for (const std::string bars : {"", "｜", "|", "｜｜", "｜|", "|｜", "||"}) {
        beginnings.push_back(bracket + bars + "DSML");
      }
    }
    return beginnings;
  }

  // Any text without tags of DSML.
  ExpressionId RawText() {
    if (!raw_text_) raw_text_ = TextWithout(pool_, Forbidden());
    return *raw_text_;
  }

  JsonSchemaOptions SchemaOptions(bool strict) const {
    return {.layout = options_.layout,
            .strict = strict,
            .closed_objects = true,
            .forbidden = Forbidden()};
  }

  // Any JSON value without tags of DSML.
  ConstraintResult<ExpressionId> AnyJson() {
    if (any_json_) return *any_json_;
    JsonSchemaCompiler compiler(grammar_, SchemaOptions(false));
    ConstraintResult<ExpressionId> value = compiler.Value(JsonValue(true));
    if (value) any_json_ = *value;
    return value;
  }

  // --- Parameters ---
  // A parameter from after `name="K` to the end of its closer. Nothing() if it has no value.
  ExpressionId ParameterValue(const ToolParameter& parameter) {
    const ExpressionId text = parameter.text.value_or(pool_.Nothing());
    const ExpressionId json = parameter.json.value_or(pool_.Nothing());
    const auto [place, is_new] = values_.try_emplace({text, json});
    if (is_new) {
      const ExpressionId value =
          pool_.Or({pool_.Concat(Text("true\">"), text), pool_.Concat(Text("false\">"), json)});
      place->second = pool_.Concat({Text("\" string=\""), value, Close("parameter>")});
    }
    return place->second;
  }

  // Other names than the declared and excluded ones, each once.
  ExpressionId OtherNames(const ToolArguments& form) {
    const CodePointSet characters = Complement({{0, 0x1F}, {'"', '"'}, {'<', '<'}});
    std::vector<std::string_view> known(form.excluded.begin(), form.excluded.end());
    for (const ToolParameter& parameter : form.parameters) known.push_back(parameter.name);
    const ExpressionId any = pool_.Repeat(Utf8(pool_, characters), 1, kMaxNameCodePoints);
    const ExpressionId others = pool_.Not(pool_.AnyLiteral(known));
    const RuleId names = grammar_.AddRule("parameter name");
    grammar_.rules[names].body = known.empty() ? any : pool_.And({any, others});
    return grammar_.UniqueCall(names);
  }

  // Parameters of any declared names, from the first tag to the closer of the call.
  //
  // A mark precedes a whole parameter, and Need precedes the closer: after the first byte of either
  // it would be too late to find that nothing may follow.
  ExpressionId Body(const ToolArguments& form) {
    const ExpressionId open = Open("parameter name=\"");
    std::vector<ExpressionId> parameters;
    std::vector<std::uint32_t> required;
    for (const ToolParameter& parameter : form.parameters) {
      const auto mark = static_cast<std::uint32_t>(parameters.size());
      if (parameter.required) required.push_back(mark);
      parameters.push_back(pool_.Concat(
          {grammar_.Mark(mark), open, Text(parameter.name), ParameterValue(parameter)}));
      // A required parameter without values makes the form impossible.
      if (parameter.required && parameters.back() == pool_.Nothing()) return pool_.Nothing();
    }
    if (form.others) {
      parameters.push_back(pool_.Concat({open, OtherNames(form), ParameterValue(*form.others)}));
    }
    return Calls(pool_.Or(parameters), std::move(required), kNoMaximum);
  }

  // Builds the body for more names than there are marks, where all parameters have equal values.
  ExpressionId BodyOfManyNames(const ToolArguments& form) {
    std::vector<std::string_view> declared;
    for (const ToolParameter& parameter : form.parameters) declared.push_back(parameter.name);
    const RuleId names = grammar_.AddRule("parameter name");
    grammar_.rules[names].body = pool_.AnyLiteral(declared);
    const ExpressionId parameter =
        pool_.Concat({Open("parameter name=\""), grammar_.UniqueCall(names),
                      ParameterValue(form.parameters.front())});
    return Calls(parameter, {}, static_cast<std::uint32_t>(declared.size()));
  }

  // At most `most` parameters on lines of their own, and the closer of the call.
  ExpressionId Calls(ExpressionId parameter, std::vector<std::uint32_t> required,
                     std::uint32_t most) {
    const ExpressionId newline = Text("\n");
    const ExpressionId close = Close("invoke>");
    if (parameter == pool_.Nothing()) return pool_.Concat({newline, close});
    const ExpressionId more = pool_.Repeat(pool_.Concat({newline, parameter}), 0,
                                           most == kNoMaximum ? kNoMaximum : most - 1);
    if (required.empty()) {
      return pool_.Concat({pool_.Optional(pool_.Concat({parameter, more})), newline, close});
    }
    const ExpressionId need = grammar_.Need(std::move(required));
    return pool_.Concat({parameter, more, newline, need, close});
  }

  // --- Tools ---
  // A call of the tool from after `invoke name="`.
  ConstraintResult<ExpressionId> Invoke(const ToolSchema& tool, std::size_t index) {
    if (!IsMarkupToolName(tool.name, options_.dsml_text)) {
      return MakeConstraintError(
          ConstraintErrorCode::kInvalidSchema,
          fmt::format("expected a name without quotes, brackets and control characters, found {}",
                      ShortenedUtf8(tool.name, kQuotedBytes)),
          "name");
    }
    ConstraintResult<std::vector<ToolArguments>> forms = Forms(tool, index);
    if (!forms) return tl::unexpected(std::move(forms.error()));
    std::vector<ExpressionId> bodies;
    for (const ToolArguments& form : *forms) {
      const bool has_too_many = form.parameters.size() > kMaxMarks;
      const ExpressionId body = has_too_many ? BodyOfManyNames(form) : Body(form);
      if (body == pool_.Nothing()) continue;
      const RuleId rule = grammar_.AddRule("call of " + tool.name);
      grammar_.rules[rule].body = body;
      bodies.push_back(grammar_.Call(rule));
    }
    if (bodies.empty()) {
      return MakeConstraintError(ConstraintErrorCode::kUnsatisfiableSchema,
                                 "expected arguments that the schema allows, found none");
    }
    return pool_.Concat({Text(tool.name), Text("\">\n"), pool_.Or(bodies)});
  }

  ConstraintResult<std::vector<ToolArguments>> Forms(const ToolSchema& tool, std::size_t index) {
    if (tool.raw_parameter) return RawForm(tool);
    if (tool.parameters.IsNull()) return std::vector<ToolArguments>(1);
    return tool.strict ? StrictForms(tool, index) : MarkupForm(tool);
  }

  ConstraintResult<std::vector<ToolArguments>> RawForm(const ToolSchema& tool) {
    ExpressionId text = RawText();
    if (!tool.raw_regex.empty()) {
      const ConstraintResult<ExpressionId> regex = RegexWithout(pool_, tool.raw_regex, Forbidden());
      if (!regex) return tl::unexpected(regex.error());
      if (!HasTextWithout(tool.raw_regex, Forbidden(), grammar_.meter)) {
        return MakeConstraintError(ConstraintErrorCode::kUnsatisfiableSchema,
                                   "expected a regular expression that some text without tags "
                                   "matches, found one that none does");
      }
      text = *regex;
    }
    ToolArguments form;
    form.parameters.push_back({.name = *tool.raw_parameter, .required = true, .text = text});
    return std::vector<ToolArguments>{std::move(form)};
  }

  ConstraintResult<std::vector<ToolArguments>> MarkupForm(const ToolSchema& tool) {
    const ConstraintResult<ExpressionId> json = AnyJson();
    if (!json) return tl::unexpected(json.error());
    ToolArguments form;
    const MarkupNames names = NamesForMarkup(tool.parameters);
    const ToolParameter any{.text = RawText(), .json = *json};
    std::set<std::string_view> required;
    if (tool.has_required) required = RequiredInMarkup(tool.parameters);
    for (const std::string& name : names.declared) {
      if (!IsMarkupParameterName(name, options_.dsml_text)) continue;
      form.parameters.push_back(any);
      form.parameters.back().name = name;
      form.parameters.back().required = required.contains(name);
    }
    if (names.has_others) form.others = any;
    // `others` takes the declared names, too: of so many names, none is required.
    if (names.has_others && form.parameters.size() > kMaxMarks) form.parameters.clear();
    return std::vector<ToolArguments>{std::move(form)};
  }

  ConstraintResult<std::vector<ToolArguments>> StrictForms(const ToolSchema& tool,
                                                           std::size_t index) {
    // One compiler for all tools, so that they share rules.
    if (!strict_compiler_) strict_compiler_.emplace(grammar_, SchemaOptions(true));
    ConstraintResult<std::vector<ToolArguments>> forms =
        strict_compiler_->Arguments(tool.parameters);
    if (!forms) return forms;
    for (const std::string& pointer : strict_compiler_->TakeRelaxed()) {
      relaxed_.push_back(fmt::format("tools[{}]{}", index, pointer));
    }
    for (const ToolArguments& form : *forms) {
      if (form.parameters.size() > kMaxMarks) {
        return MakeConstraintError(ConstraintErrorCode::kTooLarge,
                                   fmt::format("expected at most {} parameters, found {}",
                                               kMaxMarks, form.parameters.size()),
                                   "properties");
      }
      for (const ToolParameter& parameter : form.parameters) {
        if (IsMarkupParameterName(parameter.name, options_.dsml_text)) continue;
        return MakeConstraintError(ConstraintErrorCode::kUnsupportedSchema,
                                   "expected a short name without quotes and control characters",
                                   "properties",
                                   "/properties/" + EscapedPointerStep(parameter.name));
      }
    }
    return forms;
  }

  Grammar& grammar_;
  ExpressionPool& pool_;
  const DsmlOptions& options_;
  std::vector<std::string>& relaxed_;
  std::optional<ConstraintError> error_{};
  std::optional<ExpressionId> raw_text_{};
  std::optional<ExpressionId> any_json_{};
  std::optional<JsonSchemaCompiler> strict_compiler_{};
  std::map<std::pair<ExpressionId, ExpressionId>, ExpressionId> values_{};  // by text and JSON
};

}  // namespace

ConstraintResult<ExpressionId> DsmlBlock(Grammar& grammar, std::span<const ToolSchema> tools,
                                         const DsmlOptions& options,
                                         std::vector<std::string>& relaxed) {
  return DsmlBuilder(grammar, options, relaxed).Block(tools);
}

}  // namespace fathom::constraint
