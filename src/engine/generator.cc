#include "engine/generator.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"

namespace fathom {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool IsSet(const std::atomic<bool>* flag) {
  return flag != nullptr && flag->load(std::memory_order_relaxed);
}

Result<std::uint64_t> ChooseSeed(const std::optional<std::uint64_t>& seed) {
  if (seed) return *seed;
  std::uint64_t drawn = 0;
  if (getentropy(&drawn, sizeof(drawn)) != 0) {
    return MakeError(ErrorCode::kIo,
                     "seed: none given, and the operating system has no random numbers");
  }
  return drawn;
}

}  // namespace

Generator::Generator(LanguageModel& model, GeneratorOptions options)
    : model_(model),
      options_(std::move(options)),
      limits_(model.Limits()),
      state_(limits_.vocab_size),
      sampler_(limits_.vocab_size) {
  Check(options_.sequence >= 0 && options_.sequence < limits_.max_sequences, "a slot of the model");
  Check(limits_.max_batch_tokens >= 1, "a batch takes a token");
  batch_.Reserve(limits_.max_batch_tokens, 1);
  cached_.reserve(static_cast<std::size_t>(limits_.max_context));
  logprobs_.top.reserve(kMaxTopLogprobs);
}

Result<GenerationResult> Generator::Generate(std::span<const Token> prompt,
                                             const SamplingParameters& parameters,
                                             const GenerationControl& control) {
  const Status valid = CheckRequest(prompt, parameters);
  if (!valid) return Unexpected(valid.error());
  const Result<std::uint64_t> seed = ChooseSeed(parameters.seed);
  if (!seed) return Unexpected(seed.error());

  const auto n_prompt = static_cast<std::int64_t>(prompt.size());
  const std::int64_t max_tokens =
      std::min(parameters.max_tokens.value_or(std::numeric_limits<std::int64_t>::max()),
               limits_.max_context - n_prompt);
  GenerationResult result;
  result.seed = *seed;
  result.tokens.reserve(static_cast<std::size_t>(max_tokens));
  result.timings.prompt_tokens = n_prompt;
  result.timings.reused_tokens = ReusableTokens(prompt);
  state_.Begin(parameters, *seed, prompt, options_.eos_tokens);
  StopStrings stops(parameters.stop_strings);

  const Clock::time_point start = Clock::now();
  const Result<bool> complete = Prefill(prompt, result.timings.reused_tokens, control.cancel);
  if (!complete) return Unexpected(complete.error());
  result.timings.prefill_seconds = SecondsSince(start);
  if (!*complete) {
    result.finish = FinishReason::kCancelled;
    return result;
  }
  const Clock::time_point decode_start = Clock::now();
  const Status decoded = Decode(max_tokens, control, stops, result);
  if (!decoded) return Unexpected(decoded.error());
  result.timings.decode_seconds = SecondsSince(decode_start);
  result.timings.generated_tokens = static_cast<std::int64_t>(result.tokens.size());
  result.stop_string = stops.matched();
  if (result.finish == FinishReason::kCancelled) result.unreported_text = stops.Flush();
  return result;
}

Status Generator::CheckRequest(std::span<const Token> prompt,
                               const SamplingParameters& parameters) const {
  const auto n_prompt = static_cast<std::int64_t>(prompt.size());
  if (n_prompt == 0) {
    return MakeError(ErrorCode::kInvalidArgument, "prompt: expected at least 1 token, found 0");
  }
  if (n_prompt > limits_.max_context) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "prompt: expected at most {} tokens (the context), found {}",
                     limits_.max_context, n_prompt);
  }
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] < 0 || prompt[i] >= limits_.vocab_size) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "prompt: expected token ids 0 to {}, found {} at position {}",
                       limits_.vocab_size - 1, prompt[i], i);
    }
  }
  if (!parameters.stop_strings.empty() && !options_.token_bytes) {
    return MakeError(ErrorCode::kUnsupported,
                     "stop_strings: expected none, because this generator knows tokens only; "
                     "found {}",
                     parameters.stop_strings.size());
  }
  return Validate(parameters, limits_.vocab_size);
}

std::int64_t Generator::ReusableTokens(std::span<const Token> prompt) const {
  const auto differ = std::mismatch(prompt.begin(), prompt.end(), cached_.begin(), cached_.end());
  // The last token is computed in any case: the answer begins with its logits.
  const std::int64_t common =
      std::min(differ.first - prompt.begin(), static_cast<std::ptrdiff_t>(prompt.size()) - 1);
  return high_water_ - common <= limits_.rollback_tokens ? common : 0;
}

Status Generator::Run(std::int64_t position, std::span<const Token> tokens) {
  batch_.Clear();
  batch_.Add(options_.sequence, static_cast<std::int32_t>(position), tokens);
  const Status ran = model_.Forward(batch_);
  if (!ran) return ran;
  cached_.resize(static_cast<std::size_t>(position));
  cached_.insert(cached_.end(), tokens.begin(), tokens.end());
  if (position == 0) high_water_ = 0;
  high_water_ = std::max(high_water_, static_cast<std::int64_t>(cached_.size()));
  return {};
}

// Runs prompt[first, end) in chunks; false if cancelled on the way.
Result<bool> Generator::Prefill(std::span<const Token> prompt, std::int64_t first,
                                const std::atomic<bool>* cancel) {
  const auto n_prompt = static_cast<std::int64_t>(prompt.size());
  for (std::int64_t position = first; position < n_prompt;) {
    if (IsSet(cancel)) return false;
    const std::int64_t count = std::min(limits_.max_batch_tokens, n_prompt - position);
    const Status ran = Run(position, prompt.subspan(static_cast<std::size_t>(position),
                                                    static_cast<std::size_t>(count)));
    if (!ran) return Unexpected(ran.error());
    position += count;
  }
  return true;
}

Status Generator::Decode(std::int64_t max_tokens, const GenerationControl& control,
                         StopStrings& stops, GenerationResult& result) {
  result.finish = FinishReason::kLength;
  if (max_tokens == 0) return {};
  while (true) {
    if (IsSet(control.cancel)) {
      result.finish = FinishReason::kCancelled;
      return {};
    }
    const auto position = static_cast<std::int64_t>(cached_.size());
    const Result<Token> token = SampleNext(position);
    if (!token) return Unexpected(token.error());
    state_.Accept(*token);
    result.tokens.push_back(*token);
    if (!Report(max_tokens, control.on_token, stops, result)) return {};
    const Status ran = Run(position, {&*token, 1});
    if (!ran) return ran;
  }
}

// The logits of the last row that ran choose the token for `position`.
Result<Token> Generator::SampleNext(std::int64_t position) {
  const std::int32_t rows[] = {static_cast<std::int32_t>(batch_.n_tokens() - 1)};
  const Matrix<const float> logits = model_.Logits(rows);
  return sampler_.Sample(logits.RowSpan(0), state_, position, logprobs_);
}

bool Generator::Report(std::int64_t max_tokens, const TokenCallback& on_token, StopStrings& stops,
                       GenerationResult& result) {
  const Token token = result.tokens.back();
  TokenEvent event{.token = token,
                   .index = static_cast<std::int64_t>(result.tokens.size()) - 1,
                   .position = static_cast<std::int64_t>(cached_.size())};
  if (state_.parameters().top_logprobs) event.logprobs = &logprobs_;
  text_.clear();
  const bool ends = state_.Ends(token);
  if (options_.token_bytes && !ends) text_ = stops.Feed(options_.token_bytes(token));
  if (stops.matched()) {
    event.finish = FinishReason::kStopString;
  } else if (ends) {
    event.finish = FinishReason::kStop;
  } else if (event.index + 1 == max_tokens) {
    event.finish = FinishReason::kLength;
  }
  if (event.finish) text_ += stops.Flush();
  event.text = text_;
  const bool go_on = !on_token || on_token(event);
  result.finish = event.finish.value_or(FinishReason::kCancelled);
  return go_on && !event.finish;
}

}  // namespace fathom
