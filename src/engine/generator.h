// Generator: one prompt in, one answer out, token by token.
//
//   Generator generator(model, {.eos_tokens = {1}, .token_bytes = bytes});
//   Result<GenerationResult> result =
//       generator.Generate(prompt, parameters, {.on_token = [&](const TokenEvent& event) {
//         Show(event.text);
//         return true;
//       }});
#ifndef FATHOM_ENGINE_GENERATOR_H_
#define FATHOM_ENGINE_GENERATOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "engine/language_model.h"
#include "engine/request.h"
#include "engine/sampler.h"
#include "engine/stop_strings.h"
#include "model/batch.h"

namespace fathom {

// The bytes of a token as they stand in the text; the view must live until the next call.
using TokenBytes = std::function<std::string_view(Token)>;
// Called once per generated token, from the thread of Generate. False cancels.
using TokenCallback = std::function<bool(const TokenEvent&)>;

struct GeneratorOptions {
  std::int32_t sequence = 0;  // slot in the model's caches; nobody else may use it
  std::vector<Token> eos_tokens;
  TokenBytes token_bytes;  // empty: events have no text, and stop strings are an error
};

struct GenerationControl {
  TokenCallback on_token;                     // may be empty
  const std::atomic<bool>* cancel = nullptr;  // looked at between prefill chunks and tokens
};

struct GenerationTimings {
  std::int64_t prompt_tokens = 0;
  std::int64_t reused_tokens = 0;     // of the prompt, found in the cache and not computed
  std::int64_t generated_tokens = 0;  // the first of them comes from the prefill
  double prefill_seconds = 0;         // prompt tokens - reused tokens
  double decode_seconds = 0;          // sampling, callbacks, and generated tokens - 1 steps
};

struct GenerationResult {
  std::vector<Token> tokens;  // all that were generated, with the one that ended the answer
  FinishReason finish = FinishReason::kLength;
  std::optional<std::size_t> stop_string;  // index of the one found, for kStopString
  std::string unreported_text;             // held back for stop strings when it was cancelled
  std::uint64_t seed = 0;                  // the one used: given or drawn
  GenerationTimings timings;
};

// Remembers which tokens its slot of the cache holds: a prompt that extends them, or differs in no
// more than the newest rollback_tokens, continues there; any other starts anew. Either way the
// answer is the same. Uses the model, which must outlive it. One thread at a time; only
// GenerationControl::cancel may be set from elsewhere.
class Generator {
 public:
  Generator(LanguageModel& model, GeneratorOptions options);

  // Errors: parameters out of range; an empty prompt, one longer than the context, a token outside
  // the vocabulary; stop strings without token_bytes; logits that are not finite. The model and the
  // cache stay usable. The context limits prompt and answer together: the answer ends with kLength.
  // Cancelled before the first token: a result without tokens.
  Result<GenerationResult> Generate(std::span<const Token> prompt,
                                    const SamplingParameters& parameters,
                                    const GenerationControl& control = {});

  // What the cache holds: the prompt and all generated tokens but the last.
  std::span<const Token> cached_tokens() const { return cached_; }

 private:
  Status CheckRequest(std::span<const Token> prompt, const SamplingParameters& parameters) const;
  std::int64_t ReusableTokens(std::span<const Token> prompt) const;
  Status Run(std::int64_t position, std::span<const Token> tokens);
  Result<bool> Prefill(std::span<const Token> prompt, std::int64_t first,
                       const std::atomic<bool>* cancel);
  Status Decode(std::int64_t max_tokens, const GenerationControl& control, StopStrings& stops,
                GenerationResult& result);
  Result<Token> SampleNext(std::int64_t position);
  // Tells the caller about the newest token of `result`; sets result.finish if it is the last.
  // Returns false if generation ends here.
  bool Report(std::int64_t max_tokens, const TokenCallback& on_token, StopStrings& stops,
              GenerationResult& result);

  LanguageModel& model_;
  const GeneratorOptions options_;
  const ModelLimits limits_;
  Batch batch_;
  SamplerState state_;
  Sampler sampler_;
  TokenLogprobs logprobs_;
  std::vector<Token> cached_;
  std::string text_;  // of the event being reported
  // The largest number of positions the slot held since it was started: going back is counted from
  // there, because those positions have overwritten older ones.
  std::int64_t high_water_ = 0;
};

}  // namespace fathom

#endif  // FATHOM_ENGINE_GENERATOR_H_
