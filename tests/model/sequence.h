// Sequences run piece by piece through a model, alone or in company, with all their logits kept.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/model.h"

namespace fathom::testing {

// Tokens and the logits they give: what is computed twice is overwritten.
struct Sequence {
  Sequence(const ModelConfig& config, std::int32_t slot_to_use, std::vector<Token> tokens_to_run);

  std::int64_t left() const { return static_cast<std::int64_t>(tokens.size()) - done; }

  std::int32_t slot;
  std::vector<Token> tokens;
  std::int64_t done = 0;          // positions computed so far
  std::vector<float> logits;      // [tokens, vocab]
  std::vector<float> mtp_logits;  // [tokens - 1, vocab]
};

// The next n_tokens of a sequence.
struct Piece {
  Sequence* sequence;
  std::int64_t n_tokens;
};

// Whether the MTP head is given the token behind a piece, or waits for it: see DraftKept.
enum class NextToken { kKnown, kUnknown };

// One Forward of all pieces, and one of the drafter if the model has it. Fails the calling
// test on an error.
void Step(Model& model, const std::vector<Piece>& pieces, NextToken next = NextToken::kKnown);

// As Step, in pieces: `between` is called before each layer.
void StepInPieces(Model& model, const std::vector<Piece>& pieces,
                  const std::function<void()>& between);

// One call of the drafter of the newest positions of these sequences, from their kept streams.
void DraftKept(Model& model, const std::vector<Sequence*>& sequences);

// Runs all tokens from position 0, divided into `chunks`; the last chunk size repeats.
Sequence RunAlone(Model& model, const std::vector<Token>& tokens,
                  const std::vector<std::int64_t>& chunks);

// Returns the same tokens for the same seed, on every machine.
std::vector<Token> RandomTokens(const ModelConfig& config, std::int64_t count, std::uint32_t seed);

// Fails the calling test, naming the first difference, unless the logits of the first n positions
// (and n - 1 of the MTP head) are the same bytes.
void ExpectSameBits(const Sequence& expected, const Sequence& actual, std::int64_t n,
                    const std::string& what);

}  // namespace fathom::testing
