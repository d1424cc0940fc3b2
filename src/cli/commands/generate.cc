#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "cli/answer_form.h"
#include "cli/commands/commands.h"
#include "cli/model_defaults.h"
#include "cli/request_stats.h"
#include "cli/terminal/load_display.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "json/json_value.h"
#include "json/json_writer.h"
#include "planning/host_report.h"
#include "runtime/model_constraints.h"
#include "runtime/model_files.h"
#include "runtime/runtime.h"

namespace fathom::cli {
namespace {

constexpr std::int64_t kMaxTokens = 256;  // the default of --max-tokens

Result<std::vector<Token>> PromptTokens(const GenerateCommand& command, const ModelFiles& model) {
  const Result<std::string> text = command.prompt == "-" ? ReadInput("-") : command.prompt;
  if (!text) return Unexpected(text.error());
  Result<std::vector<Token>> tokens = model.tokenizer.Encode(*text, SpecialTokens::kParse);
  if (!tokens) return MakeError(tokens.error().code, "prompt: {}", tokens.error().message);
  const Token bos = static_cast<Token>(model.config.bos_token_id);
  if (!command.no_bos && (tokens->empty() || tokens->front() != bos)) {
    tokens->insert(tokens->begin(), bos);
  }
  if (tokens->empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "prompt: expected some text, found none");
  }
  return tokens;
}

// Called before anything is loaded, so that a prompt that does not fit is refused immediately.
Result<std::int64_t> ContextFor(const GenerateCommand& command, const ModelConfig& config,
                                std::int64_t n_prompt) {
  const std::int64_t wanted = command.sampling.max_tokens.value_or(kMaxTokens);
  const std::int64_t longest = config.max_position_embeddings;  // no sum beyond it can overflow
  const Result<std::int64_t> n_context =
      ContextLength(command.run, n_prompt + std::min(wanted, longest), config);
  if (n_context && n_prompt > *n_context) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "prompt: expected at most {} tokens, the context, found {}", *n_context,
                     n_prompt);
  }
  return n_context;
}

JsonValue LogprobToJson(const TokenLogprob& logprob, const Tokenizer& tokenizer) {
  return {{"token", logprob.token},
          {"text", tokenizer.TokenToText(logprob.token)},
          {"logprob", logprob.logprob}};
}

JsonValue LogprobsToJson(const TokenLogprobs& logprobs, const Tokenizer& tokenizer) {
  JsonValue entry = LogprobToJson(logprobs.chosen, tokenizer);
  entry["top"] = JsonValue::Array();
  for (const TokenLogprob& candidate : logprobs.top) {
    entry["top"].push_back(LogprobToJson(candidate, tokenizer));
  }
  return entry;
}

JsonValue TimingsToJson(double load_seconds, const RequestStats& stats) {
  return {{"load_seconds", load_seconds},
          {"prefill_seconds", stats.prefill_seconds},
          {"prefill_tokens_per_second", PrefillRate(stats)},
          {"decode_seconds", stats.decode_seconds},
          {"decode_tokens_per_second", DecodeRate(stats)}};
}

// Collects an answer, and shows it while it grows unless the output is JSON.
struct PrintedAnswer {
  // Adds the next event. Errors: the engine's, or the output has no reader any more.
  Status Add(const StreamEvent& event) {
    if (event.error) return Unexpected(*event.error);
    const std::size_t n_shown = text.size();
    utf8.Push(event.text, text);
    if (event.token != StreamEvent::kNoToken) {
      tokens.push_back(event.token);
    }
    if (event.logprobs) {
      logprobs.push_back(LogprobsToJson(*event.logprobs, tokenizer));
    }
    if (event.finish) {
      utf8.Finish(text);
      finish = *event.finish;
      stop_string = event.stop_string;
    }
    return show && text.size() > n_shown ? Print(std::string_view(text).substr(n_shown)) : Status();
  }

  const Tokenizer& tokenizer;
  const bool show;
  Utf8Stream utf8{};
  std::string text{};
  std::vector<Token> tokens{};
  JsonValue logprobs = JsonValue::Array();
  FinishReason finish = FinishReason::kCancelled;
  std::optional<std::size_t> stop_string{};  // the one that ended the answer, if any
};

std::string AnswerJson(const PrintedAnswer& answer, const RequestStats& stats,
                       const ModelFiles& model, double load_seconds,
                       const SamplingParameters& parameters) {
  JsonValue object = {{"model", model.directory.string()},
                      {"text", answer.text},
                      {"tokens", answer.tokens},
                      {"prompt_tokens", stats.prompt_tokens},
                      {"cached_tokens", stats.cached_tokens},
                      {"generated_tokens", stats.generated_tokens},
                      {"drafted_tokens", stats.drafted_tokens},
                      {"accepted_tokens", stats.accepted_tokens},
                      {"finish_reason", Name(answer.finish)},
                      {"seed", stats.seed},
                      {"timings", TimingsToJson(load_seconds, stats)}};
  if (answer.stop_string) {
    object["stop"] = parameters.stop_strings[*answer.stop_string];
  }
  if (parameters.top_logprobs) {
    object["logprobs"] = answer.logprobs;
  }
  return WriteJson(object, 2) + "\n";
}

// Calls TokenStream::Next for the first event. Meanwhile shows how much of the prompt has been read
// if it is read a layer at a time.
bool NextOfPrompt(TokenStream& stream, const EngineMetrics& metrics, std::int64_t n_prompt,
                  StreamEvent& event) {
  ProgressBar bar("prompt");
  for (;;) {
    const std::optional<bool> next = stream.NextFor(std::chrono::milliseconds(200), event);
    if (next) return *next;
    const MetricsSnapshot now = metrics.Snapshot();
    if (now.pass.layers == 0) continue;
    bar.Update(PromptShare(now, n_prompt),
               fmt::format("prompt, layer {} of {}", now.pass.layers_done, now.pass.layers));
  }
}

Status Finish(const PrintedAnswer& answer, const RequestStats& stats, const Runtime& runtime) {
  if (!answer.text.empty() && answer.text.back() != '\n') {
    if (Status printed = Print("\n"); !printed) return printed;
  }
  PrintError(fmt::format("fathom: {}\n", DescribeStats(runtime.load_seconds(), stats)));
  const MetricsSnapshot metrics = runtime.engine().metrics().Snapshot();
  if (metrics.streaming) {
    PrintError(fmt::format("fathom: {}\n", Describe(*metrics.streaming)));
  }
  return {};
}

}  // namespace

Status RunCommand(const GenerateCommand& command, RankProcess& ranks, Log& log) {
  const Result<ModelFiles> files = ModelFiles::Read(command.run.model);
  if (!files) return Unexpected(files.error());
  const Result<std::vector<Token>> prompt = PromptTokens(command, *files);
  if (!prompt) return Unexpected(prompt.error());
  const std::int64_t n_prompt = static_cast<std::int64_t>(prompt->size());
  const Result<std::int64_t> n_context = ContextFor(command, files->config, n_prompt);
  if (!n_context) return Unexpected(n_context.error());
  SamplingParameters parameters = MakeSamplingParameters(command.sampling, files->generation);
  parameters.max_tokens = command.sampling.max_tokens.value_or(kMaxTokens);
  if (Status valid = Validate(parameters, files->config.vocab_size); !valid) return valid;
  const Result<ContentForm> form = ReadAnswerForm(command.form);
  if (!form) return Unexpected(form.error());
  ModelConstraints constraints(*files);
  auto constraint = CompileAnswerForm(
      *form,
      [&](const ConstraintSpec& spec, const Caller& caller) {
        return constraints.Compile(spec, caller);
      },
      log);
  if (!constraint) return Unexpected(constraint.error());
  parameters.constraint = *std::move(constraint);

  LoadDisplay display(files->directory, log);
  RuntimeOptions options = {
      .run = command.run, .serving = command.engine, .ranks = &ranks, .events = display.events()};
  options.run.n_context = *n_context;
  const Result<std::unique_ptr<Runtime>> runtime = Runtime::Load(*files, options);
  if (!runtime) return Unexpected(runtime.error());
  Result<TokenStream> stream =
      (*runtime)->engine().Submit({.prompt = *prompt, .sampling = parameters});
  if (!stream) return Unexpected(stream.error());
  PrintedAnswer answer = {.tokenizer = files->tokenizer, .show = !command.json};
  StreamEvent event;
  const EngineMetrics& metrics = (*runtime)->engine().metrics();
  for (bool goes_on = NextOfPrompt(*stream, metrics, n_prompt, event); goes_on;
       goes_on = stream->Next(event)) {
    if (Status added = answer.Add(event); !added) return added;
  }
  const RequestStats stats = stream->stats();
  return command.json
             ? Print(AnswerJson(answer, stats, *files, (*runtime)->load_seconds(), parameters))
             : Finish(answer, stats, **runtime);
}

}  // namespace fathom::cli
