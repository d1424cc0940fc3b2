#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <utility>

#include "constraint/compiled_constraint.h"
#include "constraint/constraint.h"
#include "constraint/readers/gbnf.h"
#include "constraint/readers/regex.h"
#include "json/json_writer.h"

namespace fathom::constraint {
namespace {

// Each constraint keeps up to 32 MiB of masks; few of the compiled ones are in use at a time.
constexpr std::size_t kMaxConstraints = 256;
// A schema takes up to 8 bytes for a byte of its text (JsonValue); the cache has the text twice.
constexpr std::size_t kBytesPerKeyByte = 10;

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

class SpecCompiler {
 public:
  SpecCompiler(std::shared_ptr<const ConstraintVocabulary> vocabulary,
               std::shared_ptr<ConstraintMemory> memory, WorkPace* pace)
      : vocabulary_(std::move(vocabulary)),
        memory_(std::move(memory)),
        grammar_(std::make_unique<Grammar>()) {
    grammar_->meter.SetMemory(memory_);
    grammar_->meter.SetLimits(kCompileLimits);
    grammar_->meter.BeginWork(pace);
  }

  // n_key_bytes: the length of the text that the constraint depends on.
  ConstraintResult<std::shared_ptr<CompiledConstraint>> Compile(const ConstraintSpec& spec,
                                                                std::size_t n_key_bytes) {
    ConstraintResult<std::unique_ptr<Grammar>> grammar = Write(spec);
    if (!grammar) return tl::unexpected(std::move(grammar.error()));
    // Fails only if the pace ends it.
    const auto write_again = [vocabulary = vocabulary_, memory = memory_, spec](WorkPace* pace) {
      return SpecCompiler(vocabulary, memory, pace).Write(spec).value_or(nullptr);
    };
    MatcherLimits limits;
    limits.work.bytes = std::min(limits.work.bytes, memory_->most_at_once());
    auto compiled = std::make_shared<CompiledConstraint>(
        vocabulary_, *std::move(grammar), write_again,
        IsFree(spec) ? AnswerOpening::kFree : AnswerOpening::kGrammar, HasTools(spec), limits);
    if (ConstraintResult<void> finished = compiled->FinishCompiling(); !finished) {
      return tl::unexpected(std::move(finished.error()));
    }
    compiled->relaxed() = std::move(relaxed_);
    auto source = std::make_unique<ConstraintMemory::Account>(memory_);
    source->EndWork(n_key_bytes * kBytesPerKeyByte);
    compiled->KeepSource(std::move(source));
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
    if (grammar_->meter.HasEnded()) return EndError(grammar_->meter);
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
      return MakeConstraintError(ConstraintErrorCode::kUnsupportedSchema,
                                 "tools: this model has no token for tool calls");
    }
    return DsmlBlock(*grammar_, spec.tools.tools,
                     {.dsml = *dsml,
                      .dsml_text = "｜DSML｜",
                      .parallel = spec.tools.parallel,
                      .layout = spec.content.layout},
                     relaxed_);
  }

  const std::shared_ptr<const ConstraintVocabulary> vocabulary_;
  const std::shared_ptr<ConstraintMemory> memory_;
  std::unique_ptr<Grammar> grammar_;
  std::vector<std::string> relaxed_;
};

}  // namespace

// The constraints that were used last, by everything that they depend on.
class ConstraintCompiler::Cache {
 public:
  std::shared_ptr<CompiledConstraint> Find(const std::string& key) {
    const std::scoped_lock lock(mutex_);
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return entries_.front().compiled;
  }

  void Keep(const std::string& key, std::shared_ptr<CompiledConstraint> compiled) {
    std::list<Entry> dropped;  // destroyed without the lock
    const std::scoped_lock lock(mutex_);
    if (by_key_.contains(key)) return;
    entries_.push_front({.key = key, .compiled = std::move(compiled)});
    by_key_[key] = entries_.begin();
    if (entries_.size() > kMaxConstraints) Drop(std::prev(entries_.end()), dropped);
  }

  // Drops the constraint that was used longest ago among the ones that nobody uses; false if there
  // is none.
  bool DropIdle() {
    std::list<Entry> dropped;
    const std::scoped_lock lock(mutex_);
    for (auto at = entries_.end(); at != entries_.begin() && dropped.empty();) {
      --at;
      if (at->compiled.use_count() > 1) continue;
      Drop(at, dropped);
      break;
    }
    return !dropped.empty();
  }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<CompiledConstraint> compiled;
  };

  void Drop(std::list<Entry>::iterator at, std::list<Entry>& dropped) {
    by_key_.erase(at->key);
    dropped.splice(dropped.begin(), entries_, at);
  }

  std::mutex mutex_;
  std::list<Entry> entries_;  // the most recently used first
  std::map<std::string, std::list<Entry>::iterator> by_key_;
};

ConstraintCompiler::ConstraintCompiler(std::shared_ptr<const ConstraintVocabulary> vocabulary,
                                       std::size_t max_memory)
    : vocabulary_(std::move(vocabulary)),
      cache_(std::make_shared<Cache>()),
      // Answers may outlive the compiler, and with them the memory.
      memory_(std::make_shared<ConstraintMemory>(max_memory, [weak = std::weak_ptr<Cache>(cache_)] {
        const std::shared_ptr<Cache> cache = weak.lock();
        return cache != nullptr && cache->DropIdle();
      })) {}

std::size_t ConstraintCompiler::memory_used() const { return memory_->used(); }
std::size_t ConstraintCompiler::memory_limit() const { return memory_->limit(); }

ConstraintResult<std::shared_ptr<const Constraint>> ConstraintCompiler::Compile(
    const ConstraintSpec& spec, WorkPace* pace) {
  if (spec.content.kind == ContentConstraint::Kind::kNone &&
      spec.tools.kind == ToolConstraint::Kind::kNone) {
    return nullptr;
  }
  const std::string key = CacheKey(spec);
  std::shared_ptr<CompiledConstraint> compiled = cache_->Find(key);
  if (compiled == nullptr) {
    ConstraintResult<std::shared_ptr<CompiledConstraint>> made =
        SpecCompiler(vocabulary_, memory_, pace).Compile(spec, key.size());
    if (!made) return tl::unexpected(std::move(made.error()));
    compiled = *made;
    cache_->Keep(key, compiled);
  }
  Result<std::shared_ptr<const Constraint>> constraint =
      MakeConstraint(std::move(compiled), spec.in_reasoning, spec.prefill, pace);
  if (constraint) return *constraint;
  // The answer cannot begin.
  const ErrorCode reason = constraint.error().code;
  const auto code = reason == ErrorCode::kUnavailable ? ConstraintErrorCode::kStopped
                    : reason == ErrorCode::kResourceExhausted
                        ? ConstraintErrorCode::kTooLarge
                        : ConstraintErrorCode::kUnsatisfiableSchema;
  return MakeConstraintError(code, std::move(constraint.error().message));
}

}  // namespace fathom::constraint
