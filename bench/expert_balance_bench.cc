// The gain of balancing when some experts are more popular than others: decoding steps of layers
// with the sizes of V4-Flash on ranks with their own sequences, with the experts in their first
// places and where the balancer puts them; beside the expectation of `fathom plan` for the same
// load.
//
//   expert_balance_bench --ranks 4 --tokens 64,256,512 --zipf 1 --redundant 64
//
// Ranks are threads, their network has a given rate (bench/shaped_communicator.h), their products
// take the time of a processor of a given speed (bench/paced_products.h). Half of the drawn tokens
// decide the placement, the others are measured.
//
// A row per number of tokens of a step, over all ranks:
//
//   imbalance      rows of the busiest rank over the mean, before and after
//   tok/s          of these layers alone, before and after
//   faster         after / before
//   expected       the same three by the simulator
//
// With --move N, measures instead the cost of sending N experts to every rank, as a rebalancing
// does. A layer then has an attention before its experts, as long as reading its weights takes;
// every step runs twice, with and without parts of experts:
//
//   steps          that carry the experts in pieces
//   between        ms that steps wait if all is sent between two of them
//   waited         ms that steps wait for pieces beside them
//   slower         ms that these steps take longer in all: the median of a step, times steps
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <barrier>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/integer_math.h"
#include "base/median.h"
#include "bench/must.h"
#include "bench/paced_products.h"
#include "bench/shaped_communicator.h"
#include "experts/balance/expert_placement.h"
#include "experts/balance/expert_shipment.h"
#include "experts/exchange/expert_exchange.h"
#include "kernels/registry.h"
#include "measure/plan/expert_load.h"
#include "measure/plan/hardware.h"
#include "measure/plan/model_sizes.h"
#include "measure/plan/step_time.h"
#include "measure/slice/shapes.h"

namespace fathom::benchmarks {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  int n_ranks = 4;
  int n_layers = 4;
  std::int64_t n_redundant = 64;
  double zipf = 1;
  std::vector<std::int64_t> tokens = {64, 256, 512};
  double rate = 300;  // MB/s
  double latency_us = 50;
  double memory_gb = 8;  // per second, of a rank
  double tera_flops = 0.08;
  int n_steps = 4;
  std::string path = "fused";
  std::int64_t n_moved = 0;  // experts to every rank; 0: measure balancing
  std::int64_t kb_per_block = kBytesPerBlock / 1024;
  double attention_mb = 150;  // per layer: Flash's weights outside the experts
};

// --- Tokens ---

// Draws the experts of a token, each with the probability of its share, exactly as many as a token
// has. The shares lie one behind the other on a line, in a random order; the token chooses those
// under points that are 1 apart.
void Choose(const std::vector<double>& shares, std::mt19937_64& random, std::int32_t* chosen) {
  std::vector<std::int32_t> order(shares.size());
  for (std::size_t e = 0; e < order.size(); ++e) order[e] = static_cast<std::int32_t>(e);
  std::shuffle(order.begin(), order.end(), random);
  double next = std::uniform_real_distribution<double>(0, 1)(random);
  double end = 0;
  std::int32_t* to = chosen;
  for (const std::int32_t expert : order) {
    end += shares[static_cast<std::size_t>(expert)];
    if (next < end) {
      *to++ = expert;
      next += 1;
    }
  }
  std::sort(chosen, to);
}

// [layer][token][chosen], in the order of the ranks that have them.
struct Tokens {
  Tokens(const plan::ExpertLoad& load, std::int64_t n, std::int64_t per_token,
         std::mt19937_64& random) {
    for (const std::vector<double>& shares : load) {
      std::vector<std::int32_t>& layer =
          ids.emplace_back(static_cast<std::size_t>(n * per_token), kRemoteExpert);
      for (std::int64_t i = 0; i < n; ++i) {
        Choose(shares, random, layer.data() + i * per_token);
      }
    }
    for (std::int64_t i = 0; i < n; ++i) {
      positions.push_back(static_cast<std::int32_t>(random() % 8192));
    }
  }
  std::vector<std::vector<std::int32_t>> ids;
  std::vector<std::int32_t> positions;
};

// --- Measured ---

struct Figures {
  double imbalance = 1;  // averaged over layers and steps
  double tokens_per_second = 0;
};

// Seconds that all steps lost to experts in transit.
struct MoveFigures {
  double between = 0;
  double waited = 0;
  double slower = 0;
  double step = 0;  // of one step without parts
};

// Experts of Flash, n to each rank from the rank before. All use the same memory: their content
// does not matter.
class MovedExperts {
 public:
  MovedExperts(int rank, int n_ranks) : rank_(rank), n_ranks_(n_ranks) {}

  ExpertMoveRounds Rounds(std::int64_t n) {
    std::vector<ExpertMove> round;
    for (int from = 0; from < n_ranks_; ++from) {
      const int to = (from + 1) % n_ranks_;
      round.push_back({.transfer = {.from = from, .to = to},
                       .weights = from == rank_ ? BindTo(Shape(), from_) : Shape(),
                       .memory = to == rank_ ? std::span(to_) : std::span<std::byte>()});
    }
    return ExpertMoveRounds(static_cast<std::size_t>(n), round);
  }

 private:
  static ExpertWeights Shape() {
    const ModelConfig config = FlashConfig();
    const Weight up = {
        .format = WeightFormat::kFp4, .n = config.moe_intermediate_size, .k = config.hidden_size};
    const Weight down = {.format = WeightFormat::kFp4, .n = up.k, .k = up.n};
    return {up, down, up};
  }

  int rank_;
  int n_ranks_;
  std::vector<std::byte> from_ =
      std::vector<std::byte>(static_cast<std::size_t>(SizeInBytes(Shape())));
  std::vector<std::byte> to_ = from_;
};

class Run {
 public:
  Run(const Options& options, const ModelConfig& config, const std::vector<ReplicaMap>& maps,
      const std::vector<Tokens>& steps)
      : options_(options),
        config_(config),
        maps_(maps),
        steps_(steps),
        n_tokens_(std::ssize(steps.front().positions)),
        network_(options.n_ranks),
        meeting_(options.n_ranks) {
    network_.SetShape(
        {.bytes_per_second = 1e6 * options.rate, .latency_seconds = 1e-6 * options.latency_us});
    for (int r = 0; r < options.n_ranks; ++r) {
      tokens_of_rank_.push_back(FirstToken(r + 1) - FirstToken(r));
    }
  }

  const MoveFigures& move_figures() const { return move_figures_; }
  Figures Measure() {
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < options_.n_ranks; ++rank) {
        threads.emplace_back([this, rank] { RunRank(rank); });
      }
    }
    figures_.imbalance = Imbalance();
    return figures_;
  }

 private:
  std::int64_t FirstToken(int rank) const { return n_tokens_ * rank / options_.n_ranks; }

  double Imbalance() const {
    double most = 0, mean = 0;
    for (const Tokens& step : steps_) {
      for (std::size_t layer = 0; layer < maps_.size(); ++layer) {
        std::vector<double> rows(static_cast<std::size_t>(options_.n_ranks), 0.0);
        for (std::size_t i = 0; i < step.ids[layer].size(); ++i) {
          const auto token = i / static_cast<std::size_t>(config_.num_experts_per_tok);
          ++rows[static_cast<std::size_t>(
              maps_[layer].FindRank(step.positions[token], step.ids[layer][i]))];
        }
        most += *std::ranges::max_element(rows);
        mean += static_cast<double>(step.ids[layer].size()) / options_.n_ranks;
      }
    }
    return most / mean;
  }

  // A rank's tokens of a step.
  struct Rank {
    Rank(const Run& of, int at, ExpertExchange& with, Communicator& ranks)
        : run(of),
          rank(at),
          exchange(with),
          moved(at, ranks.size()),
          shipment(Must(ranks.Split(0, at))),
          first(of.FirstToken(at)),
          t(of.FirstToken(at + 1) - first),
          x(static_cast<std::size_t>(t * d), ToBf16(0.5f)),
          ids(static_cast<std::size_t>(t * k)),
          weights(ids.size(), 0.2f),
          rows(ids.size() * static_cast<std::size_t>(d)),
          y(x.size()),
          products({1e9 * of.options_.memory_gb, 1e12 * of.options_.tera_flops},
                   of.config_.n_routed_experts, n_weights, n_weights * (0.5 + 1.0 / kFp4Block)) {}

    ExpertMoveRounds Moved() { return moved.Rounds(run.options_.n_moved); }
    std::int64_t BytesPerBlock() const { return 1024 * run.options_.kb_per_block; }

    // Returns the seconds of the layers of a step, each with an attention and, optionally, parts of
    // experts.
    double RunStep(const Tokens& step, bool carries) {
      const auto start = Clock::now();
      for (std::size_t layer = 0; layer < run.maps_.size(); ++layer) {
        if (carries) Must(shipment.Start());
        std::this_thread::sleep_for(std::chrono::duration<double>(run.options_.attention_mb / 1e3 /
                                                                  run.options_.memory_gb));
        Must(shipment.Poll());
        RunLayer(step, layer);
        Must(shipment.Wait());
      }
      return std::chrono::duration<double>(Clock::now() - start).count();
    }

    void RunLayer(const Tokens& step, std::size_t layer) {
      std::copy_n(step.ids[layer].begin() + first * k, t * k, ids.begin());
      Must(exchange.Run(
          {.x = {x.data(), t, d},
           .routing = {.ids = {ids.data(), t, k}, .weights = {weights.data(), t, k}},
           .positions = std::span(step.positions)
                            .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(t)),
           .tokens_of_rank = run.tokens_of_rank_,
           .home = [this, layer](
                       std::int32_t position,
                       std::int32_t expert) { return run.maps_[layer].FindRank(position, expert); },
           .local =
               [this](Matrix<const Bf16>, const Routing& routing, Matrix<Bf16>) {
                 products.Run(routing.ids);
                 return shipment.Poll();
               },
           .shared = [] { return Status(); },
           .rows = {rows.data(), t * k, d},
           .y = {y.data(), t, d}}));
    }

    const Run& run;
    const int rank;
    ExpertExchange& exchange;
    MovedExperts moved;
    ExpertShipment shipment;
    const std::int64_t k = run.config_.num_experts_per_tok;
    const std::int64_t d = run.config_.hidden_size;
    const double n_weights = 3.0 * static_cast<double>(d * run.config_.moe_intermediate_size);
    const std::int64_t first;
    const std::int64_t t;
    const std::vector<Bf16> x;
    std::vector<std::int32_t> ids;
    std::vector<float> weights;
    std::vector<Bf16> rows;
    std::vector<Bf16> y;
    PacedProducts products;
  };

  void RunRank(int rank) {
    const std::int64_t k = config_.num_experts_per_tok;
    const std::int64_t d = config_.hidden_size;
    const std::unique_ptr<Communicator> ranks = MakeShapedCommunicator(rank, network_);
    const std::unique_ptr<Backend> backend = Must(MakeBackend("cpu", {}));
    Must(backend->Reserve({.max_tokens = n_tokens_,
                           .max_linear_inputs = d,
                           .hidden = d,
                           .head_dim = 128,
                           .experts_per_token = k,
                           .n_experts = config_.n_routed_experts,
                           .moe_intermediate = config_.moe_intermediate_size}));
    const std::unique_ptr<ExpertExchange> exchange = Must(MakeExpertExchange(
        *backend, *ranks,
        {.max_tokens = n_tokens_,
         .hidden = d,
         .experts_per_token = k,
         .n_experts = config_.n_routed_experts,
         .path = options_.path == "fused" ? ExpertPath::kFused : ExpertPath::kGather,
         .own_tokens = true}));
    Rank self(*this, rank, *exchange, *ranks);
    self.RunLayer(steps_.front(), 0);  // touches all memory
    self.products.Forget();
    meeting_.arrive_and_wait();
    if (options_.n_moved > 0) {
      return MeasureMove(self);
    }
    const auto start = Clock::now();
    for (const Tokens& step : steps_) {
      for (std::size_t layer = 0; layer < maps_.size(); ++layer) self.RunLayer(step, layer);
    }
    meeting_.arrive_and_wait();
    if (rank == 0) {
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      figures_.tokens_per_second = static_cast<double>(n_tokens_ * std::ssize(steps_)) / seconds;
    }
  }

  void MeasureMove(Rank& self) {
    self.shipment.Load(self.Moved(), self.BytesPerBlock());
    meeting_.arrive_and_wait();
    Must(self.shipment.Finish());
    const double between = self.shipment.seconds();
    self.shipment.Load(self.Moved(), self.BytesPerBlock());
    std::vector<double> without, more;
    for (const Tokens& step : steps_) {
      meeting_.arrive_and_wait();
      without.push_back(self.RunStep(step, false));
      meeting_.arrive_and_wait();
      more.push_back(self.RunStep(step, true) - without.back());
    }
    Check(self.shipment.is_done(), "steps that carry all");
    if (self.rank == 0) {
      move_figures_ = {.between = between,
                       .waited = self.shipment.seconds(),
                       .slower = Median(more) * static_cast<double>(std::ssize(steps_)),
                       .step = Median(without)};
    }
  }

  const Options& options_;
  const ModelConfig& config_;
  const std::vector<ReplicaMap>& maps_;  // of every layer
  const std::vector<Tokens>& steps_;
  std::int64_t n_tokens_;
  std::vector<std::int64_t> tokens_of_rank_;
  ShapedNetwork network_;
  std::barrier<> meeting_;
  Figures figures_;  // both written by rank 0 alone
  MoveFigures move_figures_;
};

// --- Expected ---

Figures Expect(const Options& options, const ModelConfig& config, const plan::ExpertLoad& load,
               std::optional<std::int64_t> n_redundant, std::int64_t n_tokens) {
  plan::Hardware hardware = {.devices_per_node = options.n_ranks};
  hardware.device = {.bytes_per_second = 1e9 * options.memory_gb,
                     .fp4_flops = 1e12 * options.tera_flops,
                     .fp8_flops = 1e12 * options.tera_flops,
                     .bf16_flops = 1e12 * options.tera_flops};
  hardware.node = {.bytes_per_second = 1e6 * options.rate, .latency = 1e-6 * options.latency_us};
  const plan::ModelSizes model("layers of Flash", config);
  plan::StepTimes times(
      model, hardware, load, {.n_data = options.n_ranks, .expert_parallel = true},
      {.exchange = options.path == "fused" ? ExpertPath::kFused : ExpertPath::kGather,
       .n_redundant = n_redundant});
  const std::int64_t per_rank = n_tokens / options.n_ranks;
  const plan::StageTime time =
      times.Compute(0, {.n_tokens = per_rank, .n_sequences = per_rank, .n_data = options.n_ranks});
  return {.imbalance = times.imbalance(),
          .tokens_per_second = static_cast<double>(n_tokens) / (time.experts + time.exchange)};
}

// Returns the balancer's placement after these tokens; without tokens, the first placement, without
// replicas.
std::vector<ReplicaMap> MapsAfter(const Options& options, const ModelConfig& config,
                                  const Tokens* drawn) {
  std::vector<ReplicaMap> maps;
  const std::int64_t n_experts = config.n_routed_experts;
  const ExpertCounts counts = {.n_logical = n_experts,
                               .n_physical = n_experts + (drawn ? options.n_redundant : 0),
                               .n_ranks = options.n_ranks};
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    std::vector<float> load(static_cast<std::size_t>(n_experts), 0.0f);
    if (drawn != nullptr) {
      for (const std::int32_t expert : drawn->ids[static_cast<std::size_t>(layer)]) {
        ++load[static_cast<std::size_t>(expert)];
      }
    }
    maps.emplace_back(layer, counts,
                      drawn ? BalanceExperts(load, counts) : InitialPlacement(counts));
  }
  return maps;
}

// Runs as many steps as carry the experts.
void ReportMoves(const Options& options, const ModelConfig& config,
                 const std::vector<ReplicaMap>& maps, const plan::ExpertLoad& load,
                 std::mt19937_64& random) {
  const std::int64_t n_blocks = BlocksToCarry(
      MovedExperts(0, options.n_ranks).Rounds(options.n_moved), 1024 * options.kb_per_block);
  const std::int64_t n_steps = DivideUp(n_blocks, options.n_layers);
  fmt::print("{} experts to each rank, {} KB beside a layer, attentions of {} MB\n",
             options.n_moved, options.kb_per_block, options.attention_mb);
  fmt::print("{:>6} | {:>5} {:>9} {:>11} {:>11} {:>11}\n", "tokens", "steps", "ms a step",
             "between ms", "waited ms", "slower ms");
  for (const std::int64_t n_tokens : options.tokens) {
    std::vector<Tokens> steps;
    for (std::int64_t i = 0; i < n_steps; ++i) {
      steps.emplace_back(load, n_tokens, config.num_experts_per_tok, random);
    }
    Run run(options, config, maps, steps);
    run.Measure();
    const MoveFigures& lost = run.move_figures();
    fmt::print("{:>6} | {:>5} {:>9.1f} {:>11.1f} {:>11.1f} {:>11.1f}\n", n_tokens, n_steps,
               1e3 * lost.step, 1e3 * lost.between, 1e3 * lost.waited, 1e3 * lost.slower);
  }
}

void Report(const Options& options) {
  const ModelConfig config = SliceConfig(
      FlashConfig(), {.ratios = std::vector<int>(static_cast<std::size_t>(options.n_layers), 128),
                      .vocab_size = FlashConfig().vocab_size});
  const plan::ExpertLoad load = plan::ZipfLoad(config, options.zipf);
  std::mt19937_64 random(1);
  constexpr std::int64_t kDecidingTokens = 8000;
  const Tokens deciding(load, kDecidingTokens, config.num_experts_per_tok, random);
  const std::vector<ReplicaMap> plain = MapsAfter(options, config, nullptr);
  const std::vector<ReplicaMap> balanced = MapsAfter(options, config, &deciding);
  fmt::print(
      "{} ranks, {} experts and {} redundant ones, Zipf {}, {} MB/s, {} us latency, products of {} "
      "GB/s and {} TFLOP/s, {}\n",
      options.n_ranks, config.n_routed_experts, options.n_redundant, options.zipf, options.rate,
      options.latency_us, options.memory_gb, options.tera_flops, options.path);
  if (options.n_moved > 0) {
    return ReportMoves(options, config, balanced, load, random);
  }
  fmt::print("{:>6} | {:>17} {:>19} {:>7} | expected {:>8} {:>19} {:>7}\n", "tokens", "imbalance",
             "tok/s", "faster", "imbalance", "tok/s", "faster");
  for (const std::int64_t n_tokens : options.tokens) {
    std::vector<Tokens> steps;
    for (int i = 0; i < options.n_steps; ++i) {
      steps.emplace_back(load, n_tokens, config.num_experts_per_tok, random);
    }
    const Figures before = Run(options, config, plain, steps).Measure();
    const Figures after = Run(options, config, balanced, steps).Measure();
    const Figures expected_before = Expect(options, config, load, std::nullopt, n_tokens);
    const Figures expected_after = Expect(options, config, load, options.n_redundant, n_tokens);
    const auto figures = [](const Figures& a, const Figures& b) {
      return fmt::format("{:>7.2f} -> {:>6.2f} {:>8.1f} -> {:>7.1f} {:>7.2f}", a.imbalance,
                         b.imbalance, a.tokens_per_second, b.tokens_per_second,
                         b.tokens_per_second / a.tokens_per_second);
    };
    fmt::print("{:>6} | {} |      {}\n", n_tokens, figures(before, after),
               figures(expected_before, expected_after));
  }
}

}  // namespace
}  // namespace fathom::benchmarks

int main(int argc, char** argv) {
  fathom::benchmarks::Options options;
  CLI::App app("Popular experts on several ranks, before and after balancing");
  app.add_option("--ranks", options.n_ranks, "Ranks, each a thread");
  app.add_option("--layers", options.n_layers, "Layers of a step");
  app.add_option("--redundant", options.n_redundant, "Experts beyond the 256 of a layer");
  app.add_option("--zipf", options.zipf,
                 "The i-th most popular expert is chosen i^-S times as often");
  app.add_option("--tokens", options.tokens, "Tokens of a step, a multiple of the ranks")
      ->delimiter(',');
  app.add_option("--rate", options.rate, "MB/s of a rank's port");
  app.add_option("--latency", options.latency_us, "us");
  app.add_option("--memory", options.memory_gb, "GB/s of a rank");
  app.add_option("--flops", options.tera_flops, "TFLOP/s of a rank");
  app.add_option("--steps", options.n_steps, "Measured steps");
  app.add_option("--path", options.path, "fused or gather");
  app.add_option("--move", options.n_moved, "Experts that are sent to every rank");
  app.add_option("--kb-per-block", options.kb_per_block, "Beside a layer, from a rank");
  app.add_option("--attention", options.attention_mb, "MB read before the experts of a layer");
  CLI11_PARSE(app, argc, argv);
  fathom::benchmarks::Report(options);
  return 0;
}
