#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <utility>

#include "constraint/compiled_constraint.h"
#include "constraint/constraint.h"
#include "constraint/gbnf.h"
#include "constraint/regex.h"
#include "json/json_writer.h"

namespace fathom {
namespace {

// Each keeps up to 32 MiB of masks; few of the compiled constraints are in use at once.
constexpr std::size_t kMaxConstraints = 256;

void AddTo(std::string& key, std::string_view part) {
  key += std::to_string(part.size());
  key += ':';
  key += part;
}

void AddTo(std::string& key, const JsonLayout& layout) {
  key += static_cast<char>('0' + static_cast<int>(layout.whitespace));
  key += static_cast<char>('0' + static_cast<int>(layout.key_order));
}

// Everything that the compiled grammar depends on.
std::string CacheKey(const ConstraintSpec& spec) {
  const ContentConstraint& content = spec.content;
  std::string key;
  key += static_cast<char>('0' + static_cast<int>(content.kind));
  key += content.strict ? 's' : '-';
  key += content.closed_objects ? 'c' : '-';
  AddTo(key, content.layout);
  AddTo(key, WriteJson(content.schema));
  AddTo(key, content.text);
  for (const std::string& choice : content.choices) AddTo(key, choice);
  key += static_cast<char>('0' + static_cast<int>(spec.tools.kind));
  key += spec.tools.parallel ? 'p' : '-';
  for (const ToolSchema& tool : spec.tools.tools) {
    key += tool.strict ? 's' : tool.has_required ? 'r' : '-';
    AddTo(key, tool.name);
    AddTo(key, WriteJson(tool.parameters));
    AddTo(key, tool.raw_parameter ? "r" + *tool.raw_parameter : "");
    AddTo(key, tool.raw_regex);
  }
  return key;
}

ConstraintError MakeConstraintError(ConstraintErrorCode code, std::string message) {
  return {.code = code, .message = message, .issues = {{.reason = message}}};
}

// Why an answer cannot begin.
ConstraintErrorCode CodeOfBeginning(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUnavailable:
      return ConstraintErrorCode::kStopped;
    case ErrorCode::kResourceExhausted:
      return ConstraintErrorCode::kTooLarge;
    default:
      return ConstraintErrorCode::kUnsatisfiableSchema;
  }
}

class SpecCompiler {
 public:
  SpecCompiler(std::shared_ptr<const VocabularyTables> vocabulary, WorkPace* pace)
      : vocabulary_(std::move(vocabulary)), grammar_(std::make_unique<Grammar>()) {
    grammar_->meter.SetLimits(kCompileLimits);
    grammar_->meter.SetPace(pace);
  }

  ConstraintResult<std::shared_ptr<CompiledConstraint>> Compile(const ConstraintSpec& spec) {
    ConstraintResult<std::unique_ptr<Grammar>> grammar = Write(spec);
    if (!grammar) return tl::unexpected(std::move(grammar.error()));
    // Fails only if the pace ends it.
    const auto write_again = [vocabulary = vocabulary_, spec](WorkPace* pace) {
      return SpecCompiler(vocabulary, pace).Write(spec).value_or(nullptr);
    };
    auto compiled = std::make_shared<CompiledConstraint>(
        vocabulary_, *std::move(grammar), write_again,
        IsFree(spec) ? AnswerOpening::kFree : AnswerOpening::kGrammar, HasTools(spec));
    if (std::optional<ConstraintError> end = compiled->FindEnd()) {
      return tl::unexpected(*std::move(end));
    }
    if (compiled->IsUnsatisfiable()) {
      return tl::unexpected(MakeConstraintError(ConstraintErrorCode::kUnsatisfiableSchema,
                                                "the constraint allows no text at all"));
    }
    compiled->relaxed() = std::move(relaxed_);
    return compiled;
  }

 private:
  static bool HasTools(const ConstraintSpec& spec) {
    return spec.tools.kind != ToolConstraint::Kind::kNone;
  }
  // True if the calls follow text.
  static bool IsFree(const ConstraintSpec& spec) {
    return spec.content.kind == ContentConstraint::Kind::kNone &&
           spec.tools.kind == ToolConstraint::Kind::kAuto;
  }

  ConstraintResult<std::unique_ptr<Grammar>> Write(const ConstraintSpec& spec) {
    std::vector<ExpressionId> answers;
    if (spec.content.kind != ContentConstraint::Kind::kNone &&
        spec.tools.kind != ToolConstraint::Kind::kRequired) {
      ConstraintResult<ExpressionId> content = Content(spec.content);
      if (!content) return tl::unexpected(std::move(content.error()));
      answers.push_back(*content);
    }
    if (HasTools(spec)) {
      ConstraintResult<ExpressionId> block = Block(spec);
      if (!block) return tl::unexpected(std::move(block.error()));
      answers.push_back(
          IsFree(spec) ? *block : grammar_->pool.Concat(grammar_->pool.Literal("\n\n"), *block));
    }
    grammar_->start = grammar_->pool.Or(answers);
    if (grammar_->meter.HasEnded()) return tl::unexpected(EndError(grammar_->meter));
    return std::move(grammar_);
  }

  ConstraintResult<ExpressionId> Content(const ContentConstraint& content) {
    ExpressionPool& pool = grammar_->pool;
    switch (content.kind) {
      case ContentConstraint::Kind::kNone:
        break;
      case ContentConstraint::Kind::kJsonObject:
      case ContentConstraint::Kind::kJsonSchema:
        return Json(content);
      case ContentConstraint::Kind::kRegex:
        return ParseRegex(pool, content.text, {.anchored = true});
      case ContentConstraint::Kind::kChoice:
        return pool.AnyLiteral({content.choices.begin(), content.choices.end()});
      case ContentConstraint::Kind::kGbnf: {
        const ConstraintResult<void> parsed = ParseGbnf(
            *grammar_, content.text,
            {.find_token = [this](std::string_view text) { return vocabulary_->Find(text); },
             .vocab_size = vocabulary_->vocab_size()});
        if (!parsed) return tl::unexpected(parsed.error());
        return grammar_->start;
      }
    }
    return pool.Nothing();
  }

  ConstraintResult<ExpressionId> Json(const ContentConstraint& content) {
    JsonSchemaCompiler compiler(*grammar_, {.layout = content.layout,
                                            .strict = content.strict,
                                            .closed_objects = content.closed_objects});
    if (content.kind == ContentConstraint::Kind::kJsonObject) return compiler.AnyObject();
    ConstraintResult<ExpressionId> value = compiler.Value(content.schema);
    for (const std::string& pointer : compiler.relaxed()) relaxed_.push_back("content" + pointer);
    return value;
  }

  ConstraintResult<ExpressionId> Block(const ConstraintSpec& spec) {
    const std::optional<Token> dsml = vocabulary_->meaningful().dsml;
    if (!dsml) {
      return tl::unexpected(MakeConstraintError(ConstraintErrorCode::kUnsupportedSchema,
                                                "tools: this model has no token for tool calls"));
    }
    return DsmlBlock(*grammar_, spec.tools.tools,
                     {.dsml = *dsml,
                      .dsml_text = "｜DSML｜",
                      .parallel = spec.tools.parallel,
                      .layout = spec.content.layout},
                     relaxed_);
  }

  const std::shared_ptr<const VocabularyTables> vocabulary_;
  std::unique_ptr<Grammar> grammar_;
  std::vector<std::string> relaxed_;
};

}  // namespace

struct ConstraintCompiler::Impl {
  struct Entry {
    std::string key;
    std::shared_ptr<CompiledConstraint> compiled;
    std::size_t memory = 0;  // when it was last asked
  };

  std::shared_ptr<CompiledConstraint> Find(const std::string& key) {
    const std::scoped_lock lock(mutex);
    const auto found = by_key.find(key);
    if (found == by_key.end()) return nullptr;
    entries.splice(entries.begin(), entries, found->second);
    return entries.front().compiled;
  }

  // Keeps a constraint, and drops those that were used longest ago while there is too much.
  void Keep(const std::string& key, std::shared_ptr<CompiledConstraint> compiled) {
    std::list<Entry> dropped;  // destroyed without the lock
    const std::scoped_lock lock(mutex);
    if (by_key.contains(key)) return;
    entries.push_front({.key = key, .compiled = std::move(compiled)});
    by_key[key] = entries.begin();
    std::size_t memory = 0;
    std::size_t n = 0;
    auto at = entries.begin();
    for (; at != entries.end(); ++at, ++n) {
      // A mask may be computed for long; the memory is known from before then.
      at->memory = at->compiled->MemoryAtOnce().value_or(at->memory);
      memory += at->memory;
      if (n > 0 && (memory > max_memory || n >= kMaxConstraints)) break;
    }
    for (auto old = at; old != entries.end(); ++old) by_key.erase(old->key);
    dropped.splice(dropped.begin(), entries, at, entries.end());
  }

  std::shared_ptr<const VocabularyTables> vocabulary;
  std::size_t max_memory = 0;
  std::mutex mutex;
  std::list<Entry> entries;  // the last used first
  std::map<std::string, std::list<Entry>::iterator> by_key;
};

ConstraintCompiler::ConstraintCompiler(std::shared_ptr<const ConstraintVocabulary> vocabulary,
                                       std::size_t max_memory)
    : impl_(std::make_unique<Impl>()) {
  impl_->vocabulary = std::static_pointer_cast<const VocabularyTables>(std::move(vocabulary));
  impl_->max_memory = max_memory;
}

ConstraintCompiler::~ConstraintCompiler() = default;

ConstraintResult<std::shared_ptr<const Constraint>> ConstraintCompiler::Compile(
    const ConstraintSpec& spec, WorkPace* pace) {
  if (spec.content.kind == ContentConstraint::Kind::kNone &&
      spec.tools.kind == ToolConstraint::Kind::kNone) {
    return nullptr;
  }
  const std::string key = CacheKey(spec);
  std::shared_ptr<CompiledConstraint> compiled = impl_->Find(key);
  if (compiled == nullptr) {
    ConstraintResult<std::shared_ptr<CompiledConstraint>> made =
        SpecCompiler(impl_->vocabulary, pace).Compile(spec);
    if (!made) return tl::unexpected(std::move(made.error()));
    compiled = *made;
    impl_->Keep(key, compiled);
  }
  Result<std::shared_ptr<const Constraint>> constraint =
      MakeConstraint(std::move(compiled), spec.in_reasoning, spec.prefill, pace);
  if (!constraint) {
    return tl::unexpected(MakeConstraintError(CodeOfBeginning(constraint.error().code),
                                              std::move(constraint.error().message)));
  }
  return *constraint;
}

}  // namespace fathom
