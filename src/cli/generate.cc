#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/text_model.h"
#include "engine/generator.h"
#include "engine/model_adapter.h"

namespace fathom::cli {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxTokens = 256;    // where --max-tokens is not given
constexpr std::int64_t kBatchTokens = 128;  // of a prefill step

Result<std::vector<Token>> EncodePrompt(const GenerateCommand& command, const TextModel& model) {
  const Result<std::string> text = command.prompt == "-" ? ReadInput("-") : command.prompt;
  if (!text) return Unexpected(text.error());
  Result<std::vector<Token>> tokens = model.tokenizer.Encode(*text, SpecialTokens::kParse);
  if (!tokens) {
    return MakeError(tokens.error().code, "prompt: {}", tokens.error().message);
  }
  const Token bos = static_cast<Token>(model.config.bos_token_id);
  if (command.add_bos && (tokens->empty() || tokens->front() != bos)) {
    tokens->insert(tokens->begin(), bos);
  }
  if (tokens->empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "prompt: expected some text, found none");
  }
  return tokens;
}

// Before anything is loaded: a prompt that cannot fit never will.
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

json LogprobToJson(const TokenLogprob& logprob, const Tokenizer& tokenizer) {
  return {{"token", logprob.token},
          {"text", tokenizer.TokenToText(logprob.token)},
          {"logprob", logprob.logprob}};
}

json LogprobsToJson(const TokenLogprobs& logprobs, const Tokenizer& tokenizer) {
  json entry = LogprobToJson(logprobs.chosen, tokenizer);
  entry["top"] = json::array();
  for (const TokenLogprob& candidate : logprobs.top) {
    entry["top"].push_back(LogprobToJson(candidate, tokenizer));
  }
  return entry;
}

json TimingsToJson(double load_seconds, const GenerationTimings& timings) {
  return {{"load_seconds", load_seconds},
          {"prefill_seconds", timings.prefill_seconds},
          {"prefill_tokens_per_second", PrefillRate(timings)},
          {"decode_seconds", timings.decode_seconds},
          {"decode_tokens_per_second", DecodeRate(timings)}};
}

// Collects an answer, and shows it while it grows unless it is to be JSON.
class Answer {
 public:
  Answer(const Tokenizer& tokenizer, bool show) : tokenizer_(tokenizer), show_(show) {}

  // Takes one token; false if nobody reads any more.
  bool Add(const TokenEvent& event) {
    const std::size_t n_shown = text_.size();
    utf8_.Push(event.text, text_);
    if (event.finish) {
      utf8_.Finish(text_);
    }
    if (event.logprobs != nullptr) {
      logprobs_.push_back(LogprobsToJson(*event.logprobs, tokenizer_));
    }
    if (show_ && text_.size() > n_shown) {
      printed_ = Print(std::string_view(text_).substr(n_shown));
    }
    return printed_.has_value();
  }

  const Status& printed() const { return printed_; }
  const std::string& text() const { return text_; }
  const json& logprobs() const { return logprobs_; }

 private:
  const Tokenizer& tokenizer_;
  const bool show_;
  Utf8Stream utf8_;
  std::string text_;
  json logprobs_ = json::array();
  Status printed_;
};

std::string ToJson(const Answer& answer, const GenerationResult& result, const TextModel& model,
                   double load_seconds, const SamplingParameters& parameters) {
  json object = {{"model", model.directory.string()},
                 {"text", answer.text()},
                 {"tokens", result.tokens},
                 {"prompt_tokens", result.timings.prompt_tokens},
                 {"generated_tokens", result.timings.generated_tokens},
                 {"finish_reason", Name(result.finish)},
                 {"seed", result.seed},
                 {"timings", TimingsToJson(load_seconds, result.timings)}};
  if (result.stop_string) {
    object["stop"] = parameters.stop_strings[*result.stop_string];
  }
  if (parameters.top_logprobs) {
    object["logprobs"] = answer.logprobs();
  }
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

Status Finish(const Answer& answer, const GenerationResult& result, double load_seconds) {
  if (!answer.text().empty() && answer.text().back() != '\n') {
    const Status printed = Print("\n");
    if (!printed) return printed;
  }
  PrintError(fmt::format("fathom: {}\n", DescribeTimings(load_seconds, result)));
  return {};
}

}  // namespace

Status RunGenerate(const GenerateCommand& command, Log& log) {
  const Result<TextModel> text_model = TextModel::Read(command.run.model);
  if (!text_model) return Unexpected(text_model.error());
  const Result<std::vector<Token>> prompt = EncodePrompt(command, *text_model);
  if (!prompt) return Unexpected(prompt.error());
  const std::int64_t n_prompt = static_cast<std::int64_t>(prompt->size());
  const Result<std::int64_t> n_context = ContextFor(command, text_model->config, n_prompt);
  if (!n_context) return Unexpected(n_context.error());
  const SamplingParameters parameters = MakeSamplingParameters(
      command.sampling, text_model->generation, command.sampling.max_tokens.value_or(kMaxTokens));
  const Status valid = Validate(parameters, text_model->config.vocab_size);
  if (!valid) return valid;

  Result<Session> session = Session::Load(text_model->directory, command.run,
                                          {.max_sequences = 1,
                                           .max_context = *n_context,
                                           .max_batch_tokens = std::min(n_prompt, kBatchTokens),
                                           .max_logit_rows = 1},
                                          nullptr, log);
  if (!session) return Unexpected(session.error());
  ModelAdapter adapter(session->model());
  Generator generator(adapter, MakeGeneratorOptions(*text_model));
  Answer answer(text_model->tokenizer, !command.json);
  const Result<GenerationResult> result =
      generator.Generate(*prompt, parameters,
                         {.on_token = [&](const TokenEvent& event) { return answer.Add(event); }});
  if (!answer.printed()) return answer.printed();
  if (!result) return Unexpected(result.error());
  return command.json
             ? Print(ToJson(answer, *result, *text_model, session->load_seconds(), parameters))
             : Finish(answer, *result, session->load_seconds());
}

}  // namespace fathom::cli
