// What overlap brings where experts are on several ranks: layers with the sizes of V4-Flash, by the
// gathering and by the fused path. Ranks are threads on a network of a given rate.
//
//   expert_exchange_bench --ranks 4 --tokens 128,512 --rate 150,300,600 [--data] [--real]
//
// Products are paced: a call takes as long as a processor of the given speed needs to read the
// weights of its experts and to multiply, but not its time on this machine, where ranks would be in
// each other's way. --real computes.
//
// A row per number of tokens and rate (MB/s of every rank's port, in and out); ms per layer:
//
//   compute        the products of the rank that has most of them, all at once
//   gathered       nothing is computed while anything travels, so what it takes beyond `compute` is
//                  communication
//   fused
//   overlapped     the larger of computation and communication: perfect overlap
//   reached        (gathered - fused) / (gathered - overlapped)
//   strictly       the same, if communication were only what the fused path has to send
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <barrier>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "bench/shaped_communicator.h"
#include "kernels/registry.h"
#include "model/expert_exchange.h"

namespace fathom::bench {
namespace {

constexpr std::int64_t kHidden = 4096;
constexpr std::int64_t kWidth = 2048;
constexpr std::int64_t kPerToken = 6;
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kMultiplyAdds = 3.0 * kHidden * kWidth;  // of a token and an expert

struct Options {
  int n_ranks = 4;
  int n_layers = 4;
  std::int64_t n_experts = 256;
  std::vector<std::int64_t> tokens = {128, 512};
  std::vector<double> rates = {150, 300, 600};  // MB/s
  double latency_us = 50;
  double memory_gb = 50;  // per second, of a rank
  double tera_flops = 1;
  int n_repeats = 3;
  bool data = false;
  bool real = false;
};

template <class T>
T Must(Result<T> result) {
  Check(result.has_value(), result ? "" : result.error().message);
  return *std::move(result);
}

void Must(const Status& status) { Check(status.has_value(), status ? "" : status.error().message); }

// FP4 experts of random bytes; all ranks read the same.
class Experts {
 public:
  explicit Experts(std::int64_t n) {
    std::mt19937_64 random(1);
    const std::int64_t n_weights = kHidden * kWidth / 2;
    const std::int64_t n_scales = kHidden * kWidth / kFp4Block;
    memory_.resize(static_cast<std::size_t>(3 * n * n_weights + n_scales) / 8);
    std::generate(memory_.begin(), memory_.end(), random);
    const auto* bytes = reinterpret_cast<const std::byte*>(memory_.data());
    auto* scales = reinterpret_cast<std::uint8_t*>(memory_.data()) + 3 * n * n_weights;
    std::fill_n(scales, n_scales, std::uint8_t{120});
    const auto matrix = [&](std::int64_t i, std::int64_t rows, std::int64_t cols) {
      return Weight{.format = WeightFormat::kFp4,
                    .data = bytes + i * n_weights,
                    .scales = reinterpret_cast<const std::byte*>(scales),
                    .n = rows,
                    .k = cols};
    };
    for (std::int64_t e = 0; e < n; ++e) {
      experts_.push_back({matrix(3 * e, kWidth, kHidden), matrix(3 * e + 1, kHidden, kWidth),
                          matrix(3 * e + 2, kWidth, kHidden)});
    }
  }
  std::span<const ExpertWeights> view() const { return experts_; }

 private:
  std::vector<std::uint64_t> memory_;
  std::vector<ExpertWeights> experts_;
};

// All tokens, in the order of the ranks that have them.
struct Tokens {
  Tokens(std::int64_t n, std::int64_t n_experts)
      : x(static_cast<std::size_t>(n * kHidden)),
        weights(static_cast<std::size_t>(n * kPerToken), 0.2f),
        positions(static_cast<std::size_t>(n)) {
    std::mt19937 random(1);
    for (Bf16& number : x) {
      number = ToBf16(static_cast<float>(random() % 2001) * 1e-3f - 1.0f);
    }
    for (std::int64_t i = 0; i < n; ++i) {
      std::set<std::int32_t> chosen;
      while (std::ssize(chosen) < kPerToken) {
        chosen.insert(static_cast<std::int32_t>(random() % static_cast<unsigned>(n_experts)));
      }
      ids.insert(ids.end(), chosen.begin(), chosen.end());
    }
  }
  std::vector<Bf16> x;
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
  std::vector<std::int32_t> positions;
};

// Of one path and number of tokens, by rate; of a layer.
struct Row {
  std::vector<double> seconds;
  std::vector<double> compute;  // of the rank that computes longest
  std::vector<double> bytes;    // sent by the rank that sends most
};

class Run {
 public:
  Run(const Options& options, const Experts& experts, ExpertPath path, std::int64_t n_tokens)
      : options_(options),
        experts_(experts),
        path_(path),
        n_tokens_(n_tokens),
        tokens_(n_tokens, options.n_experts),
        network_(options.n_ranks),
        meeting_(options.n_ranks),
        sent_(static_cast<std::size_t>(options.n_ranks)),
        busy_(sent_.size()),
        overslept_(sent_.size()),
        row_{.seconds = std::vector(options.rates.size(), kNever),
             .compute = std::vector(options.rates.size(), kNever),
             .bytes = std::vector<double>(options.rates.size())} {
    for (std::int64_t r = 0; r < options.n_ranks; ++r) {
      tokens_of_rank_.push_back(n_tokens * (r + 1) / options.n_ranks -
                                n_tokens * r / options.n_ranks);
    }
  }

  Row Measure() {
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < options_.n_ranks; ++rank) {
        threads.emplace_back([this, rank] { RunRank(rank); });
      }
    }
    return row_;
  }

 private:
  void RunRank(int rank) {
    const std::unique_ptr<Communicator> ranks = MakeShapedCommunicator(rank, network_);
    const std::unique_ptr<Backend> backend = Must(MakeCpuBackend({}, 1));
    Must(backend->Reserve({.max_tokens = n_tokens_,
                           .max_linear_inputs = kHidden,
                           .hidden = kHidden,
                           .head_dim = 128,
                           .experts_per_token = kPerToken,
                           .n_experts = options_.n_experts,
                           .moe_intermediate = kWidth}));
    const std::unique_ptr<ExpertExchange> exchange =
        Must(MakeExpertExchange(*backend, *ranks,
                                {.max_tokens = n_tokens_,
                                 .hidden = kHidden,
                                 .experts_per_token = kPerToken,
                                 .n_experts = options_.n_experts,
                                 .path = path_,
                                 .own_tokens = options_.data}));
    std::vector<Bf16> rows(static_cast<std::size_t>(n_tokens_ * kPerToken * kHidden));
    std::vector<Bf16> y(static_cast<std::size_t>(n_tokens_ * kHidden));
    const ExpertWork work = MakeWork(*backend, rank, rows, y);
    Must(exchange->Run(work));  // touches all memory
    for (int repeat = 0; repeat < options_.n_repeats; ++repeat) {
      for (std::size_t j = 0; j < row_.seconds.size(); ++j) {
        Time(*ranks, *exchange, work, j);
      }
    }
  }

  ExpertWork MakeWork(Backend& backend, int rank, std::vector<Bf16>& rows, std::vector<Bf16>& y) {
    const std::int64_t first = options_.data ? n_tokens_ * rank / options_.n_ranks : 0;
    const std::int64_t t =
        options_.data ? tokens_of_rank_[static_cast<std::size_t>(rank)] : n_tokens_;
    return {
        .x = {tokens_.x.data() + first * kHidden, t, kHidden},
        .routing = {.ids = {tokens_.ids.data() + first * kPerToken, t, kPerToken},
                    .weights = {tokens_.weights.data() + first * kPerToken, t, kPerToken}},
        .positions = std::span(tokens_.positions)
                         .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(t)),
        .tokens_of_rank = tokens_of_rank_,
        .home = ContiguousHomes(options_.n_experts, options_.n_ranks),
        .local =
            [this, rank, &backend](Matrix<const Bf16> x, const Routing& routing, Matrix<Bf16> out) {
              const auto start = std::chrono::steady_clock::now();
              if (options_.real) {
                backend.ExpertRows(x, routing, experts_.view(), 10.0f, out);
              } else {
                Pace(routing.ids, overslept_[static_cast<std::size_t>(rank)]);
              }
              busy_[static_cast<std::size_t>(rank)] += Since(start);
              return Status();
            },
        .shared = [] { return Status(); },
        .rows = {rows.data(), t * kPerToken, kHidden},
        .y = {y.data(), t, kHidden}};
  }

  // As long as the slower of reading weights and multiplying. What a busy machine lets a rank sleep
  // too long, the next call makes up for.
  void Pace(Matrix<const std::int32_t> ids, double& overslept) const {
    const auto start = std::chrono::steady_clock::now();
    std::vector<char> used(static_cast<std::size_t>(options_.n_experts));
    double n_pairs = 0;
    for (std::int64_t i = 0; i < ids.rows * ids.cols; ++i) {
      if (ids.data[i] != kNotHere) {
        used[static_cast<std::size_t>(ids.data[i])] = 1;
        ++n_pairs;
      }
    }
    const auto n_used = static_cast<double>(std::count(used.begin(), used.end(), 1));
    const double reads = n_used * kMultiplyAdds * (0.5 + 1.0 / kFp4Block);
    const double seconds = std::max(reads / (1e9 * options_.memory_gb),
                                    2 * n_pairs * kMultiplyAdds / (1e12 * options_.tera_flops));
    const double wanted = std::max(seconds - overslept, 0.0);
    std::this_thread::sleep_until(start + std::chrono::duration<double>(wanted));
    overslept = Since(start) - seconds + overslept;
  }

  static double Since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  void Time(Communicator& ranks, ExpertExchange& exchange, const ExpertWork& work, std::size_t j) {
    if (ranks.rank() == 0) {
      network_.SetShape({.bytes_per_second = 1e6 * options_.rates[j],
                         .latency_seconds = 1e-6 * options_.latency_us});
      std::ranges::fill(busy_, 0.0);
      std::ranges::fill(overslept_, 0.0);
    }
    meeting_.arrive_and_wait();
    const auto start = std::chrono::steady_clock::now();
    const std::int64_t before = ranks.traffic().n_bytes;
    for (int layer = 0; layer < options_.n_layers; ++layer) {
      Must(exchange.Run(work));
    }
    sent_[static_cast<std::size_t>(ranks.rank())] =
        static_cast<double>(ranks.traffic().n_bytes - before) / options_.n_layers;
    meeting_.arrive_and_wait();
    if (ranks.rank() == 0) {
      row_.seconds[j] = std::min(row_.seconds[j], Since(start) / options_.n_layers);
      row_.compute[j] = std::min(row_.compute[j],
                                 *std::max_element(busy_.begin(), busy_.end()) / options_.n_layers);
      row_.bytes[j] = *std::max_element(sent_.begin(), sent_.end());
    }
    meeting_.arrive_and_wait();
  }

  const Options& options_;
  const Experts& experts_;
  ExpertPath path_;
  std::int64_t n_tokens_;
  Tokens tokens_;
  std::vector<std::int64_t> tokens_of_rank_;
  ShapedNetwork network_;
  std::barrier<> meeting_;
  std::vector<double> sent_;  // by rank
  std::vector<double> busy_;  // the same: seconds in products
  std::vector<double> overslept_;
  Row row_;  // written by rank 0 alone
};

void Report(const Options& options) {
  const Experts experts(options.real ? options.n_experts : 0);
  fmt::print("{} {} ranks, {} experts, {} us latency, products {}\n", options.n_ranks,
             options.data ? "data" : "tensor", options.n_experts, options.latency_us,
             options.real
                 ? "real"
                 : fmt::format("of {} GB/s and {} TFLOP/s", options.memory_gb, options.tera_flops));
  fmt::print("{:>6} {:>6} {:>8} {:>9} {:>8} {:>11} {:>8} {:>9} {:>9} {:>9}\n", "tokens", "MB/s",
             "compute", "gathered", "fused", "overlapped", "reached", "strictly", "MB gath.",
             "MB fused");
  for (const std::int64_t n_tokens : options.tokens) {
    const Row gathered = Run(options, experts, ExpertPath::kGather, n_tokens).Measure();
    const Row fused = Run(options, experts, ExpertPath::kFused, n_tokens).Measure();
    const double compute = *std::min_element(gathered.compute.begin(), gathered.compute.end());
    for (std::size_t j = 0; j < gathered.seconds.size(); ++j) {
      const double before = gathered.seconds[j];
      const double after = fused.seconds[j];
      const double overlapped = std::max(compute, before - compute);
      const double strictly = std::max(compute, fused.bytes[j] / (1e6 * options.rates[j]));
      fmt::print(
          "{:>6} {:>6} {:>8.1f} {:>9.1f} {:>8.1f} {:>11.1f} {:>7.0f}% {:>8.0f}% {:>9.2f} "
          "{:>9.2f}\n",
          n_tokens, options.rates[j], 1e3 * compute, 1e3 * before, 1e3 * after, 1e3 * overlapped,
          100 * (before - after) / (before - overlapped),
          100 * (before - after) / (before - strictly), 1e-6 * gathered.bytes[j],
          1e-6 * fused.bytes[j]);
    }
  }
}

}  // namespace
}  // namespace fathom::bench

int main(int argc, char** argv) {
  fathom::bench::Options options;
  CLI::App app("Experts on several ranks, on a given network: ms per layer");
  app.add_option("--ranks", options.n_ranks, "Ranks, each a thread");
  app.add_option("--layers", options.n_layers, "Layers of a step");
  app.add_option("--experts", options.n_experts, "Routed experts of a layer");
  app.add_option("--tokens", options.tokens, "Tokens of a step")->delimiter(',');
  app.add_option("--rate", options.rates, "MB/s of a rank's port")->delimiter(',');
  app.add_option("--latency", options.latency_us, "us");
  app.add_option("--memory", options.memory_gb, "GB/s of a rank");
  app.add_option("--flops", options.tera_flops, "TFLOP/s of a rank");
  app.add_option("--repeats", options.n_repeats, "Of each step; the fastest counts");
  app.add_flag("--data", options.data, "Data ranks instead of tensor ranks");
  app.add_flag("--real", options.real, "Compute the products");
  CLI11_PARSE(app, argc, argv);
  fathom::bench::Report(options);
  return 0;
}
