// The gain of overlap when experts are on several ranks: layers with the sizes of V4-Flash, with
// the gathering and the fused exchange.
//
//   expert_exchange_bench --ranks 4 --tokens 128,512 --rate 150,300,600 [--data] [--real]
//
// Ranks are threads on a network of a given rate (bench/shaped_communicator.h), or processes, one
// on each of these hosts, joined over TCP; rank 0 reports. --rate then names the rate of the links:
//
//   expert_exchange_bench --hosts 10.0.0.1,10.0.0.2 --rank 0 --rate 75 ...
//
// bench/exchange_hosts.py does so with network namespaces as hosts, and shapes their links.
//
// Products are paced: a call takes as long as a processor of the given speed needs to read the
// weights of its experts and to multiply, not its time on this machine, where ranks would slow each
// other down. --real computes the products of the routed experts.
//
// A row per number of tokens and rate (MB/s of every rank's port, in and out); ms per layer:
//
//   compute        the products of the rank that has most of them, all at once
//   gathered       nothing is computed while anything travels, so what it takes beyond `compute` is
//                  communication
//   fused
//   travel         the same where products take no time
//   reached        (gathered - fused) / (gathered - overlapped), where perfect overlap is the
//                  larger of `compute` and of the communication of the gathering path
//   strictly       the same, if communication were only what the fused path has to send, at the
//                  rate
//   measured       the same, if it were `travel`: what this network makes of it
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/must.h"
#include "bench/paced_products.h"
#include "bench/shaped_communicator.h"
#include "bench/tcp_mesh.h"
#include "comm/socket_mesh.h"
#include "experts/exchange/expert_exchange.h"
#include "kernels/registry.h"

namespace fathom::benchmarks {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kHidden = 4096;
constexpr std::int64_t kWidth = 2048;
constexpr std::int64_t kPerToken = 6;
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kMultiplyAdds = 3.0 * kHidden * kWidth;  // per token and expert

struct Options {
  int n_ranks = 4;
  std::vector<std::string> hosts;
  int rank = 0;
  int port = 20'407;
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

// One exchange and number of tokens at one rate; per layer, the slowest rank.
struct Figures {
  double seconds = kNever;
  double travel = kNever;
  double compute = kNever;
  double bytes = 0;  // sent
};

// One rank.
class Rank {
 public:
  // Rank 0 sets the rate.
  using SetRate = std::function<void(double)>;

  Rank(const Options& options, const Experts& experts, Communicator& ranks, SetRate set_rate)
      : options_(options),
        experts_(experts),
        ranks_(ranks),
        set_rate_(std::move(set_rate)),
        backend_(Must(MakeBackend("cpu", {}))),
        paced_({1e9 * options.memory_gb, 1e12 * options.tera_flops}, options.n_experts,
               kMultiplyAdds, kMultiplyAdds * (0.5 + 1.0 / kFp4Block)) {}

  // By rate; the same on all ranks.
  std::vector<Figures> Measure(ExpertPath path, std::int64_t n_tokens) {
    const Tokens tokens(n_tokens, options_.n_experts);
    tokens_of_rank_.clear();
    for (std::int64_t r = 0; r < ranks_.size(); ++r) {
      tokens_of_rank_.push_back(n_tokens * (r + 1) / ranks_.size() - n_tokens * r / ranks_.size());
    }
    Must(backend_->Reserve({.max_tokens = n_tokens,
                            .max_linear_inputs = kHidden,
                            .hidden = kHidden,
                            .head_dim = 128,
                            .experts_per_token = kPerToken,
                            .n_experts = options_.n_experts,
                            .moe_intermediate = kWidth}));
    const std::unique_ptr<ExpertExchange> exchange =
        Must(MakeExpertExchange(*backend_, ranks_,
                                {.max_tokens = n_tokens,
                                 .hidden = kHidden,
                                 .experts_per_token = kPerToken,
                                 .n_experts = options_.n_experts,
                                 .path = path,
                                 .own_tokens = options_.data}));
    rows_.resize(static_cast<std::size_t>(n_tokens * kPerToken * kHidden));
    y_.resize(static_cast<std::size_t>(n_tokens * kHidden));
    const ExpertWork work = MakeWork(tokens, n_tokens);
    Must(exchange->Run(work));  // touches all memory
    std::vector<Figures> figures(options_.rates.size());
    for (int repeat = 0; repeat < options_.n_repeats; ++repeat) {
      for (std::size_t i = 0; i < figures.size(); ++i) {
        Figures& best = figures[i];
        const Figures now = Time(*exchange, work, options_.rates[i]);
        computes_ = false;
        const Figures idle = Time(*exchange, work, options_.rates[i]);
        computes_ = true;
        best = {std::min(best.seconds, now.seconds), std::min(best.travel, idle.seconds),
                std::min(best.compute, now.compute), now.bytes};
      }
    }
    return figures;
  }

 private:
  ExpertWork MakeWork(const Tokens& tokens, std::int64_t n_tokens) {
    const std::int64_t first = options_.data ? n_tokens * ranks_.rank() / ranks_.size() : 0;
    const std::int64_t t =
        options_.data ? tokens_of_rank_[static_cast<std::size_t>(ranks_.rank())] : n_tokens;
    // Routing is not const, but nothing writes it.
    auto* ids = const_cast<std::int32_t*>(tokens.ids.data());
    auto* weights = const_cast<float*>(tokens.weights.data());
    return {.x = {tokens.x.data() + first * kHidden, t, kHidden},
            .routing = {.ids = {ids + first * kPerToken, t, kPerToken},
                        .weights = {weights + first * kPerToken, t, kPerToken}},
            .positions = std::span(tokens.positions)
                             .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(t)),
            .tokens_of_rank = tokens_of_rank_,
            .home = ContiguousHomes(options_.n_experts, ranks_.size()),
            .local =
                [this](Matrix<const Bf16> x, const Routing& routing, Matrix<Bf16> out) {
                  const auto start = Clock::now();
                  if (!computes_) {
                    return Status();
                  }
                  if (options_.real) {
                    backend_->ExpertRows(x, routing, backend_->BindExperts(0, experts_.view()),
                                         10.0f, out);
                  } else {
                    paced_.Run(routing.ids);
                  }
                  busy_ += Since(start);
                  return Status();
                },
            .shared =
                [this, t] {
                  if (computes_) {
                    PassShared(t);
                  }
                  return Status();
                },
            .rows = {rows_.data(), t * kPerToken, kHidden},
            .y = {y_.data(), t, kHidden}};
  }

  // The shared expert: E4M3 of the same size, whole for data ranks, a share of its columns for
  // tensor ranks. Their sum is not part of the exchange, and left out.
  void PassShared(std::int64_t n_tokens) {
    const auto start = Clock::now();
    const double share = options_.data ? 1.0 : 1.0 / ranks_.size();
    paced_.Run(share * kMultiplyAdds, share * kMultiplyAdds * static_cast<double>(n_tokens));
    busy_ += Since(start);
  }

  static double Since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  Figures Time(ExpertExchange& exchange, const ExpertWork& work, double rate) {
    Must(ranks_.Barrier());
    if (ranks_.rank() == 0) {
      set_rate_(rate);
    }
    busy_ = 0;
    paced_.Forget();
    Must(ranks_.Barrier());
    const std::int64_t before = ranks_.traffic().n_bytes;
    Span mine = {.begin = Clock::now().time_since_epoch().count()};
    for (int layer = 0; layer < options_.n_layers; ++layer) {
      Must(exchange.Run(work));
    }
    mine.end = Clock::now().time_since_epoch().count();
    mine.busy = busy_;
    mine.bytes = static_cast<double>(ranks_.traffic().n_bytes - before);
    // From the first rank's start to the last rank's end; hosts on one machine have one clock.
    Span all = mine;
    for (const Span& span : Must(ranks_.GatherEach(mine))) {
      all = {std::min(all.begin, span.begin), std::max(all.end, span.end),
             std::max(all.busy, span.busy), std::max(all.bytes, span.bytes)};
    }
    const double seconds =
        std::chrono::duration<double>(Clock::duration(all.end - all.begin)).count();
    return {.seconds = seconds / options_.n_layers,
            .compute = all.busy / options_.n_layers,
            .bytes = all.bytes / options_.n_layers};
  }

  struct Span {
    Clock::rep begin = 0;
    Clock::rep end = 0;
    double busy = 0;
    double bytes = 0;
  };

  const Options& options_;
  const Experts& experts_;
  Communicator& ranks_;
  SetRate set_rate_;
  std::unique_ptr<Backend> backend_;
  std::vector<std::int64_t> tokens_of_rank_;
  std::vector<Bf16> rows_;
  std::vector<Bf16> y_;
  bool computes_ = true;
  double busy_ = 0;  // seconds in products
  PacedProducts paced_;
};

void PrintTitle(const Options& options, int n_ranks) {
  fmt::print("{} {} ranks, {} experts, {}, products {}\n", n_ranks,
             options.data ? "data" : "tensor", options.n_experts,
             options.hosts.empty() ? fmt::format("{} us latency", options.latency_us) : "over TCP",
             options.real
                 ? "real"
                 : fmt::format("of {} GB/s and {} TFLOP/s", options.memory_gb, options.tera_flops));
  fmt::print("{:>6} {:>6} {:>8} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9}\n", "tokens",
             "MB/s", "compute", "gathered", "fused", "travel", "reached", "strictly", "measured",
             "MB gath.", "MB fused");
}

void PrintRow(std::int64_t n_tokens, double rate, double compute, const Figures& gathered,
              const Figures& fused) {
  // The share that is saved if communication takes this long and overlaps perfectly.
  const auto share = [&](double communication) {
    const double overlapped = std::max(compute, communication);
    return 100 * (gathered.seconds - fused.seconds) / (gathered.seconds - overlapped);
  };
  fmt::print(
      "{:>6} {:>6} {:>8.1f} {:>9.1f} {:>8.1f} {:>8.1f} {:>7.0f}% {:>8.0f}% {:>8.0f}% {:>9.2f} "
      "{:>9.2f}\n",
      n_tokens, rate, 1e3 * compute, 1e3 * gathered.seconds, 1e3 * fused.seconds,
      1e3 * fused.travel, share(gathered.seconds - compute), share(fused.bytes / (1e6 * rate)),
      share(fused.travel), 1e-6 * gathered.bytes, 1e-6 * fused.bytes);
}

void RunRank(const Options& options, const Experts& experts, Communicator& ranks,
             const Rank::SetRate& set_rate) {
  Rank rank(options, experts, ranks, set_rate);
  const bool reports = ranks.rank() == 0;
  if (reports) {
    PrintTitle(options, ranks.size());
  }
  for (const std::int64_t n_tokens : options.tokens) {
    const std::vector<Figures> gathered = rank.Measure(ExpertPath::kGather, n_tokens);
    const std::vector<Figures> fused = rank.Measure(ExpertPath::kFused, n_tokens);
    double compute = kNever;
    for (const Figures& figures : gathered) {
      compute = std::min(compute, figures.compute);
    }
    for (std::size_t i = 0; reports && i < gathered.size(); ++i) {
      PrintRow(n_tokens, options.rates[i], compute, gathered[i], fused[i]);
    }
  }
}

void RunThreads(const Options& options) {
  const Experts experts(options.real ? options.n_experts : 0);
  ShapedNetwork network(options.n_ranks);
  const auto set_rate = [&](double rate) {
    network.SetShape(
        {.bytes_per_second = 1e6 * rate, .latency_seconds = 1e-6 * options.latency_us});
  };
  set_rate(options.rates.at(0));
  std::vector<std::jthread> threads;
  for (int r = 0; r < options.n_ranks; ++r) {
    threads.emplace_back(
        [&, r] { RunRank(options, experts, *MakeShapedCommunicator(r, network), set_rate); });
  }
}

void RunProcess(const Options& options) {
  const Experts experts(options.real ? options.n_experts : 0);
  const AbortFlag abort_flag;
  const std::unique_ptr<Communicator> ranks = MakeSocketCommunicator(
      options.rank, Must(JoinTcpMesh(options.rank, options.hosts, options.port)), abort_flag);
  RunRank(options, experts, *ranks, [](double) {});
}

}  // namespace
}  // namespace fathom::benchmarks

int main(int argc, char** argv) {
  fathom::benchmarks::Options options;
  CLI::App app("Experts on several ranks, on a given network: ms per layer");
  app.add_option("--ranks", options.n_ranks, "Ranks, each a thread");
  app.add_option("--hosts", options.hosts, "Instead: addresses of all ranks")->delimiter(',');
  app.add_option("--rank", options.rank, "Which of them this process is");
  app.add_option("--port", options.port, "Where they listen");
  app.add_option("--layers", options.n_layers, "Layers of a step");
  app.add_option("--experts", options.n_experts, "Routed experts of a layer");
  app.add_option("--tokens", options.tokens, "Tokens of a step")->delimiter(',');
  app.add_option("--rate", options.rates, "MB/s of a rank's port; of hosts one")->delimiter(',');
  app.add_option("--latency", options.latency_us, "us");
  app.add_option("--memory", options.memory_gb, "GB/s of a rank");
  app.add_option("--flops", options.tera_flops, "TFLOP/s of a rank");
  app.add_option("--repeats", options.n_repeats, "Of each step; the fastest counts");
  app.add_flag("--data", options.data, "Data ranks instead of tensor ranks");
  app.add_flag("--real", options.real, "Compute the products");
  CLI11_PARSE(app, argc, argv);
  options.hosts.empty() ? fathom::benchmarks::RunThreads(options)
                        : fathom::benchmarks::RunProcess(options);
  return 0;
}
