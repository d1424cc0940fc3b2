// The engine with many streams: its cost beside the model, the gain of drafts, the gain of shared
// weights.
//
//   engine_bench --model DIR --streams 1,16,64 [--draft 1 --acceptance 0.8] [--prompt N] [--tokens
//   N]
//
// A row per number of streams: every stream has its own reader thread, as in a server. The engine
// times its calls of the model (EngineMetrics); the rest of a step is the engine's cost.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "engine/engine.h"
#include "engine/model_adapter.h"
#include "engine/simulated_acceptance.h"
#include "kernels/registry.h"
#include "model/draft/drafters.h"

namespace fathom::bench {
namespace {

struct Options {
  std::filesystem::path model = "models/fairy";
  std::vector<int> streams = {1, 16, 64};
  std::int64_t n_prompt = 32;
  std::int64_t n_tokens = 64;
  std::int64_t draft = 0;
  double acceptance = -1;  // as it is
  double temperature = 0;
  int n_threads = 2;
  bool is_shared = false;  // all prompts are equal
};

struct Row {
  double tokens_per_second = 0;
  double step_ms = 0;
  double engine_us = 0;
  double tokens_per_step = 0;  // of one stream
  double accepted = 0;         // share of drafted tokens at depth 1
  double kv_mb = 0;            // in blocks in use when all requests have been answered
};

void ReadAll(TokenStream stream) {
  for (StreamEvent event; stream.Next(event);) {
    Check(!event.error, "an answer without an error");
  }
}

std::vector<Token> Prompt(const Options& options, std::int64_t vocab_size, int stream) {
  std::mt19937 random(options.is_shared ? 0u : static_cast<unsigned>(stream));
  std::vector<Token> prompt;
  for (std::int64_t i = 0; i < options.n_prompt; ++i) {
    prompt.push_back(static_cast<Token>(random() % static_cast<unsigned>(vocab_size)));
  }
  return prompt;
}

bool IsAutomatic(const Options& options) { return options.draft > GreatestDraftDepth(); }

Row Measure(const Options& options, LanguageModel& model, int n_streams) {
  EngineOptions engine_options;
  engine_options.draft.enabled = options.draft > 0;
  engine_options.draft.depth = IsAutomatic(options) ? 0 : options.draft;
  Result<std::unique_ptr<Engine>> made = Engine::Create(model, engine_options);
  Check(made.has_value(), made ? "" : made.error().message);
  Engine& engine = **made;
  const auto run = [&](std::int64_t n_tokens) {
    std::vector<std::jthread> readers;
    for (int i = 0; i < n_streams; ++i) {
      Request request;
      request.prompt = Prompt(options, model.Limits().vocab_size, i);
      request.sampling.temperature = options.temperature;
      request.sampling.seed = static_cast<std::uint64_t>(i);
      request.sampling.max_tokens = n_tokens;
      request.sampling.ignore_eos = true;
      Result<TokenStream> stream = engine.Submit(std::move(request));
      Check(stream.has_value(), stream ? "" : stream.error().message);
      readers.emplace_back(ReadAll, *std::move(stream));
    }
  };
  run(options.n_tokens);  // reads and checks the used weights; caches the prompts
  const MetricsSnapshot before = engine.metrics().Snapshot();
  run(options.n_tokens);
  const MetricsSnapshot after = engine.metrics().Snapshot();
  const auto steps = static_cast<double>(after.steps - before.steps);
  const double seconds = after.step_seconds - before.step_seconds;
  const auto tokens = static_cast<double>(after.generated_tokens - before.generated_tokens);
  return {.tokens_per_second = tokens / seconds,
          .step_ms = 1e3 * seconds / steps,
          .engine_us = 1e6 * (after.engine_seconds - before.engine_seconds) / steps,
          .tokens_per_step = tokens / steps / n_streams,
          .accepted = after.drafted[0] > before.drafted[0]
                          ? static_cast<double>(after.accepted[0] - before.accepted[0]) /
                                static_cast<double>(after.drafted[0] - before.drafted[0])
                          : 0,
          .kv_mb = 1e-6 * static_cast<double>(after.kv_bytes_used + after.kv_bytes_cached)};
}

void Run(const Options& options) {
  Result<std::unique_ptr<Backend>> backend = MakeBackend("cpu", {.n_threads = options.n_threads});
  Check(backend.has_value(), backend ? "" : backend.error().message);
  const int most = *std::max_element(options.streams.begin(), options.streams.end());
  const std::int64_t context = options.n_prompt + options.n_tokens + 1;
  Result<std::unique_ptr<Model>> model = Model::Load(
      options.model, **backend,
      {.max_sequences = most,
       .max_context = context,
       .max_batch_tokens = std::max<std::int64_t>(512, most * (1 + GreatestDraftDepth())),
       .max_logit_rows = std::max<std::int64_t>(64, 1 + GreatestDraftDepth()),
       .with_draft = options.draft > 0,
       .weights = {.preload = true},
       .n_load_threads = options.n_threads});
  Check(model.has_value(), model ? "" : model.error().message);
  std::unique_ptr<LanguageModel> adapter = std::make_unique<ModelAdapter>(**model);
  if (options.acceptance >= 0) {
    adapter = std::make_unique<SimulatedAcceptance>(std::move(adapter), options.acceptance);
  }
  fmt::print("{:>8} {:>6} {:>10} {:>9} {:>12} {:>12} {:>9} {:>9}\n", "streams", "draft", "tokens/s",
             "step ms", "engine us", "tokens/step", "accepted", "kv MB");
  for (const int n_streams : options.streams) {
    const Row row = Measure(options, *adapter, n_streams);
    fmt::print("{:>8} {:>6} {:>10.1f} {:>9.3f} {:>12.1f} {:>12.3f} {:>9.2f} {:>9.2f}\n", n_streams,
               IsAutomatic(options) ? "auto" : fmt::format("{}", options.draft),
               row.tokens_per_second, row.step_ms, row.engine_us, row.tokens_per_step, row.accepted,
               row.kv_mb);
  }
}

}  // namespace
}  // namespace fathom::bench

int main(int argc, char** argv) {
  fathom::bench::Options options;
  CLI::App app("The engine with many streams");
  app.add_option("--model", options.model, "Directory of the checkpoint");
  app.add_option("--streams", options.streams, "Numbers of streams")->delimiter(',');
  app.add_option("--prompt", options.n_prompt, "Tokens of each prompt");
  app.add_option("--tokens", options.n_tokens, "Tokens to generate for each stream");
  app.add_option("--draft", options.draft, "Drafted tokens per step; 5: chosen by measurement");
  app.add_option("--acceptance", options.acceptance, "Accept drafts at this rate, right or wrong");
  app.add_option("--temperature", options.temperature, "0 is greedy");
  app.add_option("--threads", options.n_threads, "Threads of the model");
  app.add_flag("--shared", options.is_shared, "All prompts are the same");
  CLI11_PARSE(app, argc, argv);
  fathom::bench::Run(options);
  return 0;
}
