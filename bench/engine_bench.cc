// The engine with many streams: its cost beside the model, the gain of drafts, the gain of shared
// weights.
//
//   engine_bench --model DIR --streams 1,16,64 [--draft auto,1,2 --acceptance 0.8] [--prompt N]
//                [--tokens N] [--start] [--schema FILE] [--pairs N]
//
// A row per number of streams and depth of drafts: every stream has its own reader thread, as in a
// server. The engine times its calls of the model (EngineMetrics); the rest of a step is the
// engine's cost.
//
// --start measures a new engine, prompts included: what it learns of drafts counts. --pairs N
// compares such starts with and without drafts, one after the other in turns, so that whatever else
// the machine does meets both: a row has the median of the N ratios of their speeds, the lowest and
// the highest, the ratio of the processor time they used, and what the bytes of the steps promise
// at the acceptance given.
//
// --schema binds the answers to a JSON schema, which should have no short answers; --pairs compares
// then answers with and without it.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "base/parse_text.h"
#include "base/processors.h"
#include "constraint/constraint.h"
#include "engine/engine.h"
#include "engine/prompt_lookup.h"
#include "json/json_value.h"
#include "kernels/registry.h"
#include "model/draft/drafters.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace fathom::benchmarks {
namespace {

struct Options {
  std::filesystem::path model = "models/fairy";
  std::vector<int> streams = {1, 16, 64};
  std::int64_t n_prompt = 32;
  std::int64_t n_tokens = 64;
  std::vector<std::string> drafts = {"off"};
  double acceptance = -1;  // as it is
  double temperature = 0;
  int n_threads = 2;
  bool is_shared = false;  // all prompts are equal
  bool at_start = false;
  int n_pairs = 0;
  std::filesystem::path schema = "";
};

struct Row {
  double tokens_per_second = 0;
  double step_ms = 0;
  double engine_us = 0;
  double tokens_per_step = 0;  // of one stream
  double drafted = 0;          // tokens per token of an answer
  double accepted = 0;         // share of drafted tokens at depth 1
  double kv_mb = 0;            // in blocks in use when all requests have been answered
  double cpu_seconds = 0;      // of the process, while it answered
};

void ReadAll(TokenStream stream) {
  for (StreamEvent event; stream.Next(event);) {
    Check(!event.error, "an answer without an error");
  }
}

double CpuSeconds() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec);
}

std::vector<Token> Prompt(const Options& options, std::int64_t vocab_size, int stream) {
  std::mt19937 random(options.is_shared ? 0u : static_cast<unsigned>(stream));
  std::vector<Token> prompt;
  for (std::int64_t i = 0; i < options.n_prompt; ++i) {
    prompt.push_back(static_cast<Token>(random() % static_cast<unsigned>(vocab_size)));
  }
  return prompt;
}

DraftOptions ParseDrafts(std::string_view text) {
  if (text == "auto") return {.enabled = true};
  if (text == "all") return {.enabled = true, .lookups = true};
  if (text == "lookup") return {.lookups = true};
  constexpr std::string_view kLookup = "lookup:";
  const bool lookups = text.starts_with(kLookup);
  if (lookups) text.remove_prefix(kLookup.size());
  const std::int64_t depth = text == "off" ? 0 : ParseNumber<std::int64_t>(text).value_or(-1);
  Check(depth >= 0 && depth <= (lookups ? kMostLookups : GreatestDraftDepth()),
        "--draft: off, auto, lookup, all, a depth or lookup: and a depth");
  if (lookups) return {.lookups = true, .lookup_depth = depth};
  return {.enabled = depth > 0, .depth = depth};
}

// First tokens of drafts, of the head and looked up: how many were verified, and were right.
std::pair<double, double> FirstDrafts(const MetricsSnapshot& now) {
  return {static_cast<double>(now.drafted[0] + now.looked_up[0]),
          static_cast<double>(now.accepted[0] + now.accepted_lookups[0])};
}

// Null without a schema.
std::shared_ptr<const Constraint> ReadConstraint(const Options& options,
                                                 const LanguageModel& model) {
  if (options.schema.empty()) return nullptr;
  constexpr std::size_t kMostSchemaBytes = 1 << 20;
  const Result<std::string> text =
      ReadFile(options.schema, kMostSchemaBytes, FileKind::kRegularOrPipe);
  Check(text.has_value(), text ? "" : text.error().message);
  Result<JsonValue> schema = ParseJson(*text);
  Check(schema.has_value(), schema ? "" : schema.error().message);
  const Result<Tokenizer> tokenizer = Tokenizer::Load(options.model);
  Check(tokenizer.has_value(), tokenizer ? "" : tokenizer.error().message);
  ConstraintCompiler compiler(std::make_shared<ConstraintVocabulary>(
      *tokenizer, model.Limits().vocab_size, std::vector<Token>{1}));
  auto constraint = compiler.Compile({.content = {.kind = ContentConstraint::Kind::kJsonSchema,
                                                  .schema = *std::move(schema),
                                                  .strict = true}});
  Check(constraint.has_value(), constraint ? "" : constraint.error().message);
  return *std::move(constraint);
}

Row Measure(const Options& options, LanguageModel& model, DraftOptions draft, int n_streams,
            const std::shared_ptr<const Constraint>& constraint = nullptr) {
  if (options.acceptance >= 0) draft.acceptance = options.acceptance;
  Result<std::unique_ptr<Engine>> made = Engine::Create(
      model, {.draft = draft, .model_fills_processors = FillsProcessors(options.n_threads)});
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
      request.sampling.constraint = constraint;
      Result<TokenStream> stream = engine.Submit(std::move(request));
      Check(stream.has_value(), stream ? "" : stream.error().message);
      readers.emplace_back(ReadAll, *std::move(stream));
    }
  };
  if (!options.at_start) {
    run(options.n_tokens);  // reads and checks the used weights; caches the prompts
  }
  const MetricsSnapshot before = engine.metrics().Snapshot();
  const double cpu_before = CpuSeconds();
  run(options.n_tokens);
  const MetricsSnapshot after = engine.metrics().Snapshot();
  const auto steps = static_cast<double>(after.steps - before.steps);
  const double seconds = after.step_seconds - before.step_seconds;
  const auto tokens = static_cast<double>(after.generated_tokens - before.generated_tokens);
  const double n_drafted = FirstDrafts(after).first - FirstDrafts(before).first;
  return {.tokens_per_second = tokens / seconds,
          .step_ms = 1e3 * seconds / steps,
          .engine_us = 1e6 * (after.engine_seconds - before.engine_seconds) / steps,
          .tokens_per_step = tokens / steps / n_streams,
          .drafted = n_drafted / tokens,
          .accepted = n_drafted > 0
                          ? (FirstDrafts(after).second - FirstDrafts(before).second) / n_drafted
                          : 0,
          .kv_mb = 1e-6 * static_cast<double>(after.kv_bytes_used + after.kv_bytes_cached),
          .cpu_seconds = CpuSeconds() - cpu_before};
}

std::unique_ptr<Model> Load(const Options& options, Backend& backend, bool with_draft) {
  const int most = *std::max_element(options.streams.begin(), options.streams.end());
  const std::int64_t context = options.n_prompt + options.n_tokens + 1;
  Result<std::unique_ptr<Model>> model = Model::Load(
      options.model, backend,
      {.max_sequences = most,
       .max_context = context,
       .max_batch_tokens = std::max<std::int64_t>(512, most * (1 + GreatestDraftDepth())),
       .max_logit_rows = std::max<std::int64_t>(64, 1 + GreatestDraftDepth()),
       .with_draft = with_draft,
       .weights = {.preload = true},
       .n_load_threads = options.n_threads});
  Check(model.has_value(), model ? "" : model.error().message);
  return *std::move(model);
}

// Reads and checks the used weights, which no row is to pay for.
void WarmUp(Options options, LanguageModel& model, std::string_view draft, int n_streams) {
  options.n_tokens = std::min<std::int64_t>(options.n_tokens, 32);
  Measure(options, model, ParseDrafts(draft), n_streams);
}

// One side of a pair.
struct Side {
  LanguageModel* model = nullptr;
  std::string draft = "off";
  std::shared_ptr<const Constraint> constraint{};
};

// Whether some of the drafts need the head of the checkpoint.
bool NeedHead(const std::vector<std::string>& drafts) {
  return std::ranges::any_of(drafts,
                             [](const std::string& draft) { return ParseDrafts(draft).enabled; });
}

void RunRows(const Options& options, Backend& backend) {
  const std::unique_ptr<Model> model = Load(options, backend, NeedHead(options.drafts));
  const std::shared_ptr<const Constraint> constraint = ReadConstraint(options, *model);
  fmt::print("{:>8} {:>6} {:>10} {:>9} {:>12} {:>12} {:>9} {:>9} {:>9}\n", "streams", "draft",
             "tokens/s", "step ms", "engine us", "tokens/step", "drafted", "accepted", "kv MB");
  for (const int n_streams : options.streams) {
    for (const std::string& draft : options.drafts) {
      if (options.at_start) WarmUp(options, *model, draft, n_streams);
      const Row row = Measure(options, *model, ParseDrafts(draft), n_streams, constraint);
      fmt::print("{:>8} {:>6} {:>10.1f} {:>9.3f} {:>12.1f} {:>12.3f} {:>9.2f} {:>9.2f} {:>9.2f}\n",
                 n_streams, draft, row.tokens_per_second, row.step_ms, row.engine_us,
                 row.tokens_per_step, row.drafted, row.accepted, row.kv_mb);
    }
  }
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The speed that the bytes of its steps promise where drafts are right at this rate, in units of
// the speed without drafts: at this depth, or with 0 at the best.
double Promise(const DraftCosts& costs, int n_streams, double acceptance, std::int64_t at_depth,
               std::int64_t max_depth) {
  double best = 1;
  double yield = 1;
  double all_right = 1;
  for (std::int64_t depth = 1; depth <= max_depth && costs.IsKnown(); ++depth) {
    all_right *= acceptance;
    yield += all_right;
    const double promise = yield / costs.Ratio(n_streams, depth);
    if (depth == at_depth) return promise;
    best = std::max(best, promise);
  }
  return best;
}

// Runs of two sides in turns.
struct Pairs {
  std::vector<double> off, on, ratios, cpu, drafted, per_step;

  void Add(const Row& without, const Row& with) {
    off.push_back(without.tokens_per_second);
    on.push_back(with.tokens_per_second);
    ratios.push_back(on.back() / off.back());
    cpu.push_back(without.cpu_seconds / with.cpu_seconds);
    drafted.push_back(with.drafted);
    per_step.push_back(with.tokens_per_step);
  }
};

void PrintPairs(const Options& options, const Side& with, int n_streams, const Pairs& pairs) {
  const auto [lowest, highest] = std::minmax_element(pairs.ratios.begin(), pairs.ratios.end());
  const double promise =
      Promise(with.model->Limits().draft_costs, n_streams, std::max(options.acceptance, 0.0),
              ParseDrafts(with.draft).depth, with.model->Limits().max_draft_depth);
  fmt::print(
      "{:>8} {:>6} {:>10.1f} {:>10.1f} {:>7.3f} {:>7.3f} {:>7.3f} {:>7.3f} {:>8.2f} {:>12.3f} "
      "{:>8.3f}\n",
      n_streams, with.draft, Median(pairs.off), Median(pairs.on), Median(pairs.ratios), *lowest,
      *highest, Median(pairs.cpu), Median(pairs.drafted), Median(pairs.per_step), promise);
}

// Measures both sides, one right behind the other.
void MeasurePair(const Options& options, const Side& without, const Side& with, int n_streams,
                 bool is_with_first, Pairs& pairs) {
  Row rows[2];
  for (const bool is_with : {is_with_first, !is_with_first}) {
    const Side& side = is_with ? with : without;
    rows[is_with ? 1 : 0] =
        Measure(options, *side.model, ParseDrafts(side.draft), n_streams, side.constraint);
  }
  pairs.Add(rows[0], rows[1]);
}

void ComparePairs(const Options& options, const Side& without, const std::vector<Side>& sides) {
  fmt::print("{:>8} {:>6} {:>10} {:>10} {:>7} {:>7} {:>7} {:>7} {:>8} {:>12} {:>8}\n", "streams",
             "draft", "off t/s", "tokens/s", "ratio", "lowest", "highest", "cpu", "drafted",
             "tokens/step", "promise");
  for (const int n_streams : options.streams) {
    WarmUp(options, *without.model, without.draft, n_streams);
    std::vector<Pairs> pairs(sides.size());
    for (const Side& side : sides) WarmUp(options, *side.model, side.draft, n_streams);
    for (int turn = 0; turn < options.n_pairs; ++turn) {
      for (std::size_t i = 0; i < sides.size(); ++i) {
        MeasurePair(options, without, sides[i], n_streams, turn % 2 == 0, pairs[i]);
      }
    }
    for (std::size_t i = 0; i < sides.size(); ++i) {
      PrintPairs(options, sides[i], n_streams, pairs[i]);
    }
  }
}

// The model without drafts is loaded without drafter.
void RunDraftPairs(Options options, Backend& backend) {
  options.at_start = true;
  for (const std::string& draft : options.drafts) {
    const DraftOptions parsed = ParseDrafts(draft);
    Check(parsed.enabled || parsed.lookups, "--pairs: expected --schema, or --draft but off");
  }
  const std::unique_ptr<Model> plain = Load(options, backend, false);
  const std::unique_ptr<Model> drafting = Load(options, backend, NeedHead(options.drafts));
  std::vector<Side> sides;
  for (const std::string& draft : options.drafts) {
    sides.push_back({.model = drafting.get(), .draft = draft});
  }
  ComparePairs(options, {.model = plain.get()}, sides);
}

void RunSchemaPairs(const Options& options, Backend& backend) {
  const std::unique_ptr<Model> model = Load(options, backend, NeedHead(options.drafts));
  const std::shared_ptr<const Constraint> constraint = ReadConstraint(options, *model);
  for (const std::string& draft : options.drafts) {
    ComparePairs(options, {.model = model.get(), .draft = draft},
                 {{.model = model.get(), .draft = draft, .constraint = constraint}});
  }
}

void RunPairs(const Options& options, Backend& backend) {
  options.schema.empty() ? RunDraftPairs(options, backend) : RunSchemaPairs(options, backend);
}

void Run(const Options& options) {
  Result<std::unique_ptr<Backend>> backend = MakeBackend("cpu", {.n_threads = options.n_threads});
  Check(backend.has_value(), backend ? "" : backend.error().message);
  options.n_pairs > 0 ? RunPairs(options, **backend) : RunRows(options, **backend);
}

}  // namespace
}  // namespace fathom::benchmarks

int main(int argc, char** argv) {
  fathom::benchmarks::Options options;
  CLI::App app("The engine with many streams");
  app.add_option("--model", options.model, "Directory of the checkpoint");
  app.add_option("--streams", options.streams, "Numbers of streams")->delimiter(',');
  app.add_option("--prompt", options.n_prompt, "Tokens of each prompt");
  app.add_option("--tokens", options.n_tokens, "Tokens to generate for each stream");
  app.add_option("--draft", options.drafts,
                 "off, auto, lookup, all, tokens drafted per step, or lookup: and tokens; several "
                 "are measured in turns")
      ->delimiter(',');
  app.add_option("--acceptance", options.acceptance, "Accept drafts at this rate, right or wrong");
  app.add_option("--temperature", options.temperature, "0 is greedy");
  app.add_option("--threads", options.n_threads, "Threads of the model");
  app.add_flag("--shared", options.is_shared, "All prompts are the same");
  app.add_flag("--start", options.at_start, "Measure a new engine from its first step");
  app.add_option("--schema", options.schema, "A JSON schema that all answers satisfy");
  app.add_option("--pairs", options.n_pairs,
                 "Compare so many runs with the schema and without it, in turns; without a schema, "
                 "so many starts with drafts and without them");
  CLI11_PARSE(app, argc, argv);
  fathom::benchmarks::Run(options);
  return 0;
}
