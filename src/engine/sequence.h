// Sequence: one choice of a request, from its prompt to its end.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "engine/constraint_path.h"
#include "engine/prompt_lookup.h"
#include "engine/request.h"
#include "engine/sampler.h"
#include "engine/stop_strings.h"
#include "engine/stream_state.h"
#include "kv_cache/block_key.h"
#include "kv_cache/prefix_cache.h"

namespace fathom::engine {

using Clock = std::chrono::steady_clock;

inline double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The state that the choices of a request share. Engine thread only, except `stream`.
struct RequestState {
  Request request;
  std::uint64_t seed = 0;
  std::int64_t id = 0;      // increases in the order of arrival
  std::int64_t max_tokens;  // limit of each choice, from the request, the context and the memory
  std::shared_ptr<StreamState> stream;
  int n_unfinished = 0;  // unfinished choices, including choices that have not begun
  bool cancelled = false;
  bool failed = false;
  RequestStats stats;
  // Grows while the prompt is read (RequestStats::prompt_logprobs); null: not requested.
  std::shared_ptr<std::vector<TokenLogprobs>> prompt_logprobs;
  std::optional<Error> prompt_error;  // error of a log-probability; every choice ends with it
  Clock::time_point submitted;
  std::optional<Clock::time_point> started;      // time of the first step
  std::optional<Clock::time_point> first_token;  // time of the first token of any choice
  Clock::time_point last_token;
};

enum class SequencePhase {
  kWaiting,  // waits for a slot and memory
  kLoading,  // blocks are being read from the disk
  kRunning,  // has a slot
  kFinished,
};

// A sequence has tokens (the prompt and the generated ones); the caches hold `computed` of them. If
// more than one token is left to compute, the sequence reads its prompt (or, after a preemption,
// its earlier tokens); if one is left, the sequence decodes; if none is left, the next token is
// being computed. There is no other difference.
struct Sequence {
  Sequence(RequestState& owner, std::uint32_t choice_index);

  RequestState& request;
  std::uint32_t choice = 0;
  SequencePhase phase = SequencePhase::kWaiting;
  std::vector<Token> tokens;
  std::int64_t n_prompt = 0;
  std::int64_t computed = 0;
  std::int32_t slot = -1;
  std::vector<Token> drafts;  // tokens drafted after the last one, to be verified
  PromptLookup lookup;        // index of `tokens`, up to the last lookup
  // The length of the match after which the drafts were looked up; 0: the drafter proposed them.
  std::int64_t n_matching = 0;
  // The drafter's confidence in each draft, if it has any; the chance that all drafts are right;
  // and whether drafting stopped because the next draft was likely to be wrong.
  std::vector<float> draft_confidences;
  double draft_chance = 1;
  bool drafts_are_cut = false;
  // Masks after the tokens, and after the latest drafts. Null: no constraint, or a sequence that
  // ends before its first token.
  std::unique_ptr<ConstraintPath> constraint;
  // The mask of the next token was late: the last token is computed again once the mask is ready
  // (docs/spec/constrained.md 3.4).
  bool sits_out = false;
  StopStrings stops;
  // The position of the newest token relative to the part of the answer in which `stops` are
  // searched.
  enum class StopStretch { kBefore, kInside, kBehind };
  StopStretch stop_stretch = StopStretch::kInside;
  std::vector<BlockKey> keys;  // keys of the whole blocks of `tokens`
  PrefixChain chain;
  // The draft head's key of the last computed position is missing until the next token is known.
  bool draft_key_waits = false;
  // A pass in pieces computes the sequence: it keeps its slot and blocks until the pass has ended,
  // even if it finishes before.
  bool is_in_pass = false;
  int n_steps = 0;  // running steps whose plans point here: keep the sequence until it is 0

  std::int64_t size() const { return static_cast<std::int64_t>(tokens.size()); }
  std::int64_t n_generated() const { return size() - n_prompt; }
  std::int64_t n_left() const { return size() - computed; }
  // Returns the first row of the prompt whose log-probabilities are not yet known; n_prompt - 1 if
  // the sequence need not score any (more).
  std::int64_t FirstUnscored() const;
  bool IsDecoding() const { return n_left() == 1 && n_generated() > 0; }
  bool AwaitsToken() const { return n_left() == 0; }
  bool HasMask() const { return constraint == nullptr || constraint->IsReady(); }
  bool CanChoose() const { return !sits_out || HasMask(); }
  bool IsFinished() const { return phase == SequencePhase::kFinished; }
  SamplingParameters Sampling() const;  // with the number of this choice
};

// Appends a sampled token and its event to the stream. Returns true if the token is the last.
// `logprobs` is used if the request asked for log-probabilities.
bool AppendToken(Sequence& sequence, Token token, const TokenLogprobs& logprobs,
                 SamplerState& sampler, const TokenBytes& token_bytes);

// Ends the sequence without another token, with an event for the reader.
void EndWithoutToken(Sequence& sequence, FinishReason reason,
                     const std::optional<Error>& error = std::nullopt);

}  // namespace fathom::engine
