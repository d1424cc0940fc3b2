// Speed of a whole model: how many tokens per second it reads (prefill) and writes (decode).
//
//   build/release/model_bench [MODEL_DIRECTORY]          (default: models/fairy)
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/registry.h"
#include "model/model.h"

namespace fathom {
namespace {

constexpr std::int32_t kContext = 2048;
constexpr std::int32_t kChunk = 256;

// A model on a backend of its own; null, with a message, if it cannot be loaded.
struct LoadedModel {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
};

std::optional<LoadedModel> LoadModel(const std::string& directory, Isa isa, int n_threads) {
  LoadedModel loaded;
  Result<std::unique_ptr<Backend>> backend = MakeCpuBackend(isa, n_threads);
  if (!backend) {
    fmt::print(stderr, "{}\n", backend.error().message);
    return std::nullopt;
  }
  loaded.backend = std::move(*backend);
  Result<std::unique_ptr<Model>> model = Model::Load(
      directory, *loaded.backend, {.max_context = kContext, .max_batch_tokens = kChunk});
  if (!model) {
    fmt::print(stderr, "{}\n", model.error().message);
    return std::nullopt;
  }
  loaded.model = std::move(*model);
  return loaded;
}

// Runs positions [first, first + count) of a made-up text; true if it worked.
bool Run(Model& model, std::int32_t first, std::int32_t count) {
  Batch batch;
  std::vector<Token> tokens;
  for (std::int32_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<Token>((first + i) * 7 % 4000));
  }
  batch.Add(0, first, tokens);
  const std::vector<std::int32_t> last = {count - 1};
  if (!model.Forward(batch)) {
    return false;
  }
  benchmark::DoNotOptimize(model.Logits(last).data);
  return true;
}

void Prefill(benchmark::State& state, const std::string& directory, Isa isa, int n_threads) {
  const std::optional<LoadedModel> loaded = LoadModel(directory, isa, n_threads);
  std::int32_t position = 0;
  for (auto _ : state) {
    if (!loaded || !Run(*loaded->model, position, kChunk)) {
      state.SkipWithError("the model did not run");
      break;
    }
    position = (position + kChunk) % (kContext / 2);
  }
  state.SetItemsProcessed(state.iterations() * kChunk);
}

void Decode(benchmark::State& state, const std::string& directory, Isa isa, int n_threads) {
  const std::optional<LoadedModel> loaded = LoadModel(directory, isa, n_threads);
  std::int32_t position = 0;
  for (auto _ : state) {
    if (!loaded || !Run(*loaded->model, position, 1)) {
      state.SkipWithError("the model did not run");
      break;
    }
    position = (position + 1) % kContext;
  }
  state.SetItemsProcessed(state.iterations());
}

}  // namespace
}  // namespace fathom

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const std::string directory = argc > 1 ? argv[1] : "models/fairy";
  for (const fathom::Isa isa : fathom::AvailableIsas()) {
    for (const int n_threads : {1, 2}) {
      const std::string suffix = fmt::format("{}/threads:{}", fathom::Name(isa), n_threads);
      benchmark::RegisterBenchmark(("prefill/" + suffix).c_str(), fathom::Prefill, directory, isa,
                                   n_threads)
          ->UseRealTime();
      benchmark::RegisterBenchmark(("decode/" + suffix).c_str(), fathom::Decode, directory, isa,
                                   n_threads)
          ->UseRealTime();
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
