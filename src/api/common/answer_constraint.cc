#include "api/common/answer_constraint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <set>
#include <utility>

#include "api/common/openai_rules.h"
#include "base/utf8.h"

namespace fathom::api {
namespace {

using CallKind = ToolConstraint::Kind;

// Longest pointer, keyword or reason of an error, in bytes: a schema may have keys of any length.
constexpr std::size_t kMaxIssueBytes = 500;

// The limits of choices: the most values of an enum, and the most bytes of a schema.
constexpr std::size_t kMaxChoiceTexts = 50'000;
constexpr std::size_t kMaxChoiceBytes = std::size_t{1} << 20;

bool HasForm(const ContentForm& form) {
  return form.constraint.kind != ContentConstraint::Kind::kNone;
}

bool IsStrictTool(const ToolSpec& tool) { return tool.strict || !tool.text_regex.empty(); }

// The compiler bounds schemas, expressions and grammars.
bool IsTooLarge(const ContentConstraint& content) {
  std::size_t n_bytes = 0;
  for (const std::string& choice : content.choices) n_bytes += choice.size();
  return content.choices.size() > kMaxChoiceTexts || n_bytes > kMaxChoiceBytes;
}

// Returns whether the request asks for a constraint on calls.
bool AsksForCalls(const CallableTools& callable) {
  return callable.is_required || callable.is_restricted ||
         std::any_of(callable.tools.begin(), callable.tools.end(), IsStrictTool);
}

// A part of a request with a schema, an expression or a grammar.
struct ConstraintSource {
  std::string path{};     // path in the request
  std::string pointer{};  // from the root of the schema, or a place in the text
};

// Finds the part of the request to which a pointer of the compiler belongs: pointers of the content
// begin with "content" or nothing, pointers of tools with "tools[2]" or "2".
class ConstraintSources {
 public:
  // `tools`: the tools of spec.tools.tools, in that order.
  ConstraintSources(const ConstraintSpec& spec, const ContentForm& form,
                    const std::vector<const ToolSpec*>& tools)
      : has_content_(spec.content.kind != ContentConstraint::Kind::kNone),
        form_(form),
        tools_(tools) {}

  ConstraintSource Find(std::string_view pointer) const {
    constexpr std::string_view kContent = "content";
    if (pointer.starts_with(kContent)) pointer.remove_prefix(kContent.size());
    if (std::optional<ConstraintSource> of_tool = FindTool(pointer)) return *std::move(of_tool);
    return {has_content_ ? form_.path : std::string("tools"), std::string(pointer)};
  }

 private:
  std::optional<ConstraintSource> FindTool(std::string_view pointer) const {
    constexpr std::string_view kTools = "tools[";
    std::string_view rest = pointer;
    if (rest.starts_with(kTools)) rest.remove_prefix(kTools.size());
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), index);
    if (error != std::errc() || index >= tools_.size()) return std::nullopt;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (pointer.starts_with(kTools)) {
      if (!rest.starts_with(']')) return std::nullopt;
      rest.remove_prefix(1);
    } else if (!rest.empty() && !rest.starts_with('/')) {
      return std::nullopt;  // a "line:column"
    }
    return ConstraintSource{tools_[index]->path, std::string(rest)};
  }

  const bool has_content_;
  const ContentForm& form_;
  const std::vector<const ToolSpec*>& tools_;
};

ApiError MakeConstraintError(ConstraintErrorCode code, const std::string& path,
                             std::string_view message, std::vector<ConstraintIssue> issues) {
  for (ConstraintIssue& issue : issues) {
    for (std::string* text : {&issue.pointer, &issue.keyword, &issue.reason}) {
      *text = ShortenedUtf8(*text, kMaxIssueBytes);
    }
  }
  ApiError error =
      MakeApiError(400, std::string(Name(code)),
                   fmt::format("{}: {}", path, ShortenedUtf8(message, kMaxIssueBytes)), path);
  error.issues = std::move(issues);
  return error;
}

// Returns the compiler's error in the names of the request, for the first part with an issue.
ApiError ToApiError(ConstraintError error, const ConstraintSources& sources) {
  const std::string first = error.issues.empty() ? "" : error.issues.front().pointer;
  const std::string path = sources.Find(first).path;
  std::vector<ConstraintIssue> issues;
  for (ConstraintIssue& issue : error.issues) {
    ConstraintSource source = sources.Find(issue.pointer);
    if (source.path != path || issues.size() >= kMaxIssues) continue;
    issue.pointer = std::move(source.pointer);
    issues.push_back(std::move(issue));
  }
  return MakeConstraintError(error.code, path, error.message, std::move(issues));
}

// Returns a path for a header: printable ASCII, other bytes as %XX.
std::string HeaderText(std::string_view path) {
  std::string text;
  for (const char c : path.substr(0, kMaxIssueBytes)) {
    if (c > ' ' && c < 0x7f && c != ',' && c != '%') {
      text += c;
    } else {
      text += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return text;
}

ToolConstraint MakeToolConstraint(const CallableTools& callable, bool all_are_strict,
                                  std::vector<const ToolSpec*>* tools) {
  ToolConstraint constraint = {.kind = callable.is_required ? CallKind::kRequired : CallKind::kAuto,
                               .parallel = callable.parallel};
  std::set<std::string_view> names;
  for (const ToolSpec& tool : callable.tools) {
    if (!names.insert(tool.name).second) continue;
    const Result<JsonValue> function = ParseJson(tool.function_json);
    const JsonValue* parameters = function ? function->Find("parameters") : nullptr;
    ToolSchema schema = {.name = tool.name,
                         .parameters = parameters == nullptr ? JsonValue() : *parameters,
                         .strict = tool.strict || tool.is_published || all_are_strict,
                         .has_required = callable.is_required,
                         .raw_regex = tool.text_regex};
    if (!tool.text_parameter.empty()) schema.raw_parameter = tool.text_parameter;
    constraint.tools.push_back(std::move(schema));
    tools->push_back(&tool);
  }
  return constraint;
}

std::optional<ApiError> CheckOpenAiRules(const ConstraintSpec& spec, const ContentForm& form,
                                         const std::vector<const ToolSpec*>& tools) {
  const auto check = [](const JsonValue& schema,
                        const std::string& path) -> std::optional<ApiError> {
    std::vector<ConstraintIssue> issues = BrokenOpenAiRules(schema);
    if (issues.empty()) return std::nullopt;
    const std::string message =
        fmt::format("{}: {}", issues.front().keyword, issues.front().reason);
    return MakeConstraintError(ConstraintErrorCode::kInvalidSchema, path, message,
                               std::move(issues));
  };
  if (spec.content.kind == ContentConstraint::Kind::kJsonSchema && spec.content.strict) {
    if (std::optional<ApiError> error = check(spec.content.schema, form.path)) return error;
  }
  for (std::size_t i = 0; i < spec.tools.tools.size(); ++i) {
    const ToolSchema& tool = spec.tools.tools[i];
    if (!tool.strict || tool.raw_parameter || tools[i]->is_published) continue;
    if (std::optional<ApiError> error = check(tool.parameters, tools[i]->path)) return error;
  }
  return std::nullopt;
}

using Compiled = ConstraintResult<std::shared_ptr<const Constraint>>;

bool IsStopped(const Compiled& compiled) {
  return !compiled && compiled.error().code == ConstraintErrorCode::kStopped;
}

tl::unexpected<ApiError> AbandonedError() {
  return UnexpectedApiError({ErrorCode::kUnavailable, "the request was abandoned"});
}

// Returns the field of the request that asks for a constraint.
std::string FieldThatAsks(const ContentForm& form, const CallableTools& callable) {
  if (HasForm(form)) return form.field;
  if (callable.is_required || callable.is_restricted) return "tool_choice";
  const auto strict = std::find_if(callable.tools.begin(), callable.tools.end(), IsStrictTool);
  return strict == callable.tools.end() ? "tools" : strict->path;
}

}  // namespace

ApiResult<AnswerConstraint> MakeAnswerConstraint(const ContentForm& form, const AnswerFrame& frame,
                                                 const ConstraintRules& rules,
                                                 const CompileConstraint& compile,
                                                 const Caller& caller) {
  const CallableTools& callable = frame.callable;
  const AnswerStart& start = frame.start;
  const bool all_are_strict = rules.tool_grammar == ToolGrammar::kStrict;
  const bool is_asked =
      HasForm(form) || AsksForCalls(callable) || (all_are_strict && !callable.tools.empty());
  const bool is_off = rules.tool_grammar == ToolGrammar::kOff || !compile;
  if (!is_asked && (callable.tools.empty() || is_off)) return AnswerConstraint();
  if (start.has_calls && HasForm(form)) {
    return tl::unexpected<ApiError>(MakeConstraintError(
        ConstraintErrorCode::kUnsatisfiableSchema, "messages",
        "an answer whose calls have begun has no form", {{.reason = "the answer has calls"}}));
  }
  if (start.has_calls) return AnswerConstraint();  // calls end the answer
  if (!compile) {
    return UnexpectedApiError(
        {ErrorCode::kUnsupported, fmt::format("{}: this server cannot hold answers to a form",
                                              FieldThatAsks(form, callable))});
  }
  ConstraintSpec spec = {.in_reasoning = start.in_reasoning, .prefill = start.prefill};
  std::vector<const ToolSpec*> tools;
  if (!callable.tools.empty()) {
    spec.tools = MakeToolConstraint(callable, all_are_strict, &tools);
  }
  // An answer that is a block of calls has no content.
  if (!callable.is_required) spec.content = form.constraint;
  spec.content.layout = form.constraint.layout;
  if (rules.openai) {
    std::optional<ApiError> error = CheckOpenAiRules(spec, form, tools);
    if (error) return tl::unexpected<ApiError>(*std::move(error));
  }
  if (IsTooLarge(spec.content)) {
    return tl::unexpected<ApiError>(MakeConstraintError(
        ConstraintErrorCode::kTooLarge, form.path,
        fmt::format("expected at most {} choices of {} bytes in all, found more", kMaxChoiceTexts,
                    kMaxChoiceBytes),
        {{.reason = "too many or too long choices"}}));
  }
  const auto start_time = std::chrono::steady_clock::now();
  Compiled compiled = compile(spec, caller);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start_time;
  if (IsStopped(compiled)) return AbandonedError();
  if (!compiled && !is_asked) return AnswerConstraint{.relaxed = {"tools"}};
  const ConstraintSources sources(spec, form, tools);
  if (!compiled && !spec.prefill.empty()) {
    ConstraintError error = std::move(compiled.error());
    spec.prefill.clear();
    compiled = compile(spec, caller);
    if (IsStopped(compiled)) return AbandonedError();
    if (compiled) {
      return tl::unexpected<ApiError>(
          MakeConstraintError(error.code, "messages", error.message, std::move(error.issues)));
    }
  }
  if (!compiled) return tl::unexpected<ApiError>(ToApiError(std::move(compiled.error()), sources));
  AnswerConstraint constraint = {.constraint = *std::move(compiled), .seconds = time.count()};
  if (constraint.constraint == nullptr) return constraint;
  for (const std::string& pointer : constraint.constraint->relaxed()) {
    const ConstraintSource source = sources.Find(pointer);
    constraint.relaxed.push_back(HeaderText(source.path + source.pointer));
  }
  return constraint;
}

}  // namespace fathom::api
