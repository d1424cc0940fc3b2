// Constraint: restricts the tokens of an answer to a schema, a grammar or calls of tools, from the
// end of the reasoning to the end of the answer (docs/spec/constrained.md 1.3, 1.4, 3).
//
//   ConstraintState state = *constraint->Begin();
//   Result<TokenMask> mask = constraint->Mask(state);       // choose a token of the mask
//   state = *constraint->Advance(state, token);
//
// A state is a value: copying it is a snapshot, and an older copy is a rollback. Masks are a pure
// function of constraint and state; caches change their time only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "constraint/constraint_error.h"
#include "constraint/dsml.h"
#include "constraint/masks/vocabulary.h"
#include "constraint/schema/json_schema.h"
#include "constraint/work_pace.h"

namespace fathom::constraint {

// The tokens that may come next: bit t % 64 of word t / 64 stands for token t. Shared and constant.
class TokenMask {
 public:
  TokenMask() = default;
  TokenMask(std::shared_ptr<const std::vector<std::uint64_t>> words, std::int64_t n_allowed)
      : words_(std::move(words)), n_allowed_(n_allowed) {}

  // Without a mask every token is allowed.
  bool AllowsAll() const { return words_ == nullptr; }
  bool Allows(Token token) const {
    if (words_ == nullptr) return true;
    const auto t = static_cast<std::size_t>(token);
    return (*words_)[t / 64] >> (t % 64) & 1;
  }
  std::span<const std::uint64_t> words() const {
    return words_ == nullptr ? std::span<const std::uint64_t>() : std::span(*words_);
  }
  std::int64_t n_allowed() const { return n_allowed_; }

 private:
  std::shared_ptr<const std::vector<std::uint64_t>> words_;
  std::int64_t n_allowed_ = 0;
};

// The position after the tokens of an answer so far. A value.
class ConstraintState {
 public:
  struct Impl;
  ConstraintState() = default;
  explicit ConstraintState(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl* get() const { return impl_.get(); }

 private:
  std::shared_ptr<const Impl> impl_;
};

// The form of the content of an answer.
struct ContentConstraint {
  enum class Kind { kNone, kJsonObject, kJsonSchema, kRegex, kChoice, kGbnf };
  Kind kind = Kind::kNone;
  JsonValue schema{};                  // kJsonSchema
  std::string text{};                  // kRegex, kGbnf
  std::vector<std::string> choices{};  // kChoice: one of these texts
  bool strict = false;                 // kJsonSchema: every keyword is enforced
  bool closed_objects = false;         // kJsonSchema: undeclared properties only where allowed
  JsonLayout layout{};
};

struct ToolConstraint {
  enum class Kind {
    kNone,      // nothing is enforced about calls
    kAuto,      // text, and perhaps a block of calls
    kRequired,  // a block of calls
  };
  Kind kind = Kind::kNone;
  std::vector<ToolSchema> tools{};
  bool parallel = true;  // several calls in a block
};

struct ConstraintSpec {
  ContentConstraint content{};
  ToolConstraint tools{};
  bool in_reasoning = false;  // the prompt ends inside the reasoning, which </think> ends
  std::string prefill{};      // the beginning of the answer's content, which is in the prompt
};

// A compiled constraint. All methods may be called from many threads; calls on one constraint wait
// for each other.
class Constraint {
 public:
  virtual ~Constraint() = default;

  // The state after the prompt (and its prefill).
  virtual ConstraintState Begin() const = 0;
  // The mask has at least one token. Errors: kResourceExhausted: the grammar is too ambiguous here
  // (constraint_too_complex); kUnavailable: `pace`, which may be null, has ended the work.
  virtual Result<TokenMask> Mask(const ConstraintState& state, WorkPace* pace = nullptr) const = 0;
  // The state after one more token. Errors: kInvalidArgument: the mask has no such token; the
  // errors of Mask.
  virtual Result<ConstraintState> Advance(const ConstraintState& state, Token token,
                                          WorkPace* pace = nullptr) const = 0;
  // The state after more text, read byte by byte: every division of the text into tokens leads to
  // this state. Errors as Advance.
  virtual Result<ConstraintState> AdvanceText(const ConstraintState& state,
                                              std::string_view text) const = 0;
  // True if the answer may end here.
  virtual bool CanEnd(const ConstraintState& state) const = 0;

  // The parts of the request that are not enforced: JSON pointers of keywords, each with the prefix
  // "content" or "tools[i]"; may be empty.
  virtual const std::vector<std::string>& relaxed() const = 0;
};

class ConstraintMemory;

// Compiles constraints, and keeps the most recently used ones by their text and options. Any
// thread.
class ConstraintCompiler {
 public:
  // `max_memory`: the memory of all constraints, in bytes (constraint_memory.h).
  explicit ConstraintCompiler(std::shared_ptr<const ConstraintVocabulary> vocabulary,
                              std::size_t max_memory = std::size_t{2} << 30);

  // Returns null if the spec constrains nothing. Error (kStopped): `pace`, which may be null, has
  // ended the work.
  ConstraintResult<std::shared_ptr<const Constraint>> Compile(const ConstraintSpec& spec,
                                                              WorkPace* pace = nullptr);

  // In bytes.
  std::size_t memory_used() const;
  std::size_t memory_limit() const;

 private:
  class Cache;
  const std::shared_ptr<const ConstraintVocabulary> vocabulary_;
  const std::shared_ptr<Cache> cache_;
  const std::shared_ptr<ConstraintMemory> memory_;
};

}  // namespace fathom::constraint
