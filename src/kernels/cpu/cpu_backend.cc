#include "kernels/cpu/cpu_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/host_buffer.h"
#include "kernels/host_roofline.h"

namespace fathom::kernels {
namespace {

constexpr std::int64_t kSinkhornWork = 16 * 1024;
constexpr std::int64_t kGateWork = 4;  // work per number of a gate's row: rows are transposed

}  // namespace

CpuBackend::CpuBackend(Isa isa, int n_threads, std::span<const int> processors)
    : isa_(isa),
      kernels_(cpu::KernelsFor(isa)),
      processors_(processors.begin(), processors.end()),
      team_(n_threads, processors),
      name_(fmt::format("cpu {}, {} thread{}", kernels::Name(isa), n_threads,
                        n_threads == 1 ? "" : "s")) {}

Status CpuBackend::Reserve(const StepLimits& limits) {
  Result<Scratch> scratch = Scratch::Make(limits, team_.n_threads());
  if (!scratch) return Unexpected(scratch.error());
  scratch_ = std::move(*scratch);
  choosers_.clear();
  for (int thread = 0; thread < team_.n_threads(); ++thread) {
    choosers_.emplace_back(limits.vocabulary);
  }
  if (kernels_.workspace_bytes == 0 || workspaces_ != nullptr) return {};
  Result<std::unique_ptr<Buffer>> workspaces =
      AllocateHostBuffer(team_.n_threads() * kernels_.workspace_bytes);
  if (!workspaces) return Unexpected(workspaces.error());
  workspaces_ = std::move(*workspaces);
  return {};
}

Result<std::unique_ptr<RooflineProbe>> CpuBackend::MakeRooflineProbe(
    const RooflineOptions& options) const {
  return MakeHostRooflineProbe(isa_, team_.n_threads(), processors_, options);
}

struct CpuBackend::RowOperations {
  CpuBackend& self;

  void Compute(const RmsNormOp& op) {
    self.ForEach(op.x.rows, op.x.cols * kElementWork, [&](std::int64_t row) {
      self.kernels_.rms_norm(Bits(op.x.Row(row)), Bits(op.weight.data()), op.eps, op.x.cols,
                             Bits(op.out.Row(row)));
    });
  }

  void Compute(const SwiGluOp& op) {
    self.ForItems(
        op.out.rows, op.out.cols * kActivationWork, [&](std::int64_t first, std::int64_t end) {
          self.kernels_.swiglu(Bits(op.gate.Row(first)), Bits(op.up.Row(first)), op.clamp, nullptr,
                               (end - first) * op.out.cols, Bits(op.out.Row(first)));
        });
  }

  // The mix of HcPre, or none.
  template <class Op>
  void HyperGates(const Op& op, std::int64_t gates, const HcMix& mix) {
    const cpu::HyperWeights w = {
        .fn = op.w.fn,
        .base = op.w.base,
        .scale = op.w.scale,
        .gates = gates,
        .sinkhorn_iterations = gates == kHcGates ? op.options.sinkhorn_iterations : 0,
        .eps = op.options.eps,
        .norm_eps = op.options.norm_eps};
    cpu::HyperRows rows = {.streams = Bits(op.streams.data),
                           .d = op.out.cols,
                           .out = Bits(op.out.data),
                           .post = mix.post.data,
                           .comb = mix.comb.data,
                           .count = op.out.rows};
    const std::int64_t width = kStreams * rows.d;
    const std::int64_t blocks = (width + cpu::kHyperBlock - 1) / cpu::kHyperBlock;
    const std::int64_t most = std::min<std::int64_t>(
        cpu::kHyperRows, std::ssize(self.scratch_.hyper_chains) / (blocks * (w.gates + 1)));
    Check(rows.count == 0 || most > 0, "HcPre: more than Reserve announced");
    rows.chains = self.scratch_.hyper_chains.data();
    for (std::int64_t left = rows.count; left > 0; left -= rows.count) {
      rows.count = std::min(left, most);
      // Up to eight rows fill registers of 8 lanes, and so do the 24 gates of a few rows
      // (hyper_connection.cc).
      const cpu::Kernels& kernels = rows.count <= 8 ? avx2::Table() : self.kernels_;
      const std::int64_t tiles = (rows.count + cpu::kHyperTile - 1) / cpu::kHyperTile;
      const std::int64_t tile_rows = std::min(rows.count, cpu::kHyperTile);
      self.ForItems(
          blocks * tiles, tile_rows * w.gates * cpu::kHyperBlock * kGateWork,
          [&](std::int64_t first, std::int64_t end) { kernels.hyper_chains(w, rows, first, end); });
      const std::int64_t sinkhorn_work = w.gates == kHcGates ? kSinkhornWork : 0;
      self.ForItems(rows.count, width + sinkhorn_work, [&](std::int64_t first, std::int64_t end) {
        self.kernels_.hyper_pre(w, rows, first, end);
      });
      rows.streams += rows.count * width;
      rows.out += rows.count * rows.d;
      if (w.gates == kHcGates) {
        rows.post += rows.count * kStreams;
        rows.comb += rows.count * kStreams * kStreams;
      }
    }
  }

  void Compute(const HcPreOp& op) {
    if (op.streams.cols % 16 != 0) return self.ReferenceBackend::Compute(op);
    HyperGates(op, kHcGates, op.mix);
  }

  void Compute(const HcHeadOp& op) {
    if (op.streams.cols % 16 != 0) return self.ReferenceBackend::Compute(op);
    HyperGates(op, kStreams, {});
  }

  void Compute(const HcPostOp& op) {
    self.ForEach(op.y.rows, op.streams.cols * kElementWork, [&](std::int64_t row) {
      self.kernels_.hyper_post(Bits(op.y.Row(row)), op.mix.post.Row(row), op.mix.comb.Row(row),
                               op.y.cols, Bits(op.streams.Row(row)));
    });
  }

  void Compute(const AddToStreamsOp& op) {
    self.ForEach(op.x.rows, op.streams.cols * kElementWork, [&](std::int64_t row) {
      for (std::int64_t stream = 0; stream < kStreams; ++stream) {
        self.kernels_.add_bf16(Bits(op.x.Row(row)), op.x.cols,
                               Bits(op.streams.Row(row) + stream * op.x.cols));
      }
    });
  }

  void Compute(const MeanOfStreamsOp& op) {
    self.ForEach(op.out.rows, op.streams.cols * kElementWork, [&](std::int64_t row) {
      self.kernels_.mean_of_streams(Bits(op.streams.Row(row)), op.streams.cols / kStreams,
                                    Bits(op.out.Row(row) + op.first_column));
    });
  }

  void Compute(const AddOp& op) {
    self.ForItems(op.out.rows, op.out.cols * kElementWork,
                  [&](std::int64_t first, std::int64_t end) {
                    self.kernels_.add_rows(op.x.Row(first), op.y.Row(first),
                                           (end - first) * op.out.cols, op.out.Row(first));
                  });
  }

  void Compute(const QueryHeadsOp& op) {
    const std::int64_t heads = op.q.cols / op.head_dim;
    self.ForEach(op.q.rows * heads, op.head_dim * kElementWork, [&](std::int64_t i) {
      self.kernels_.query_head(Bits(op.q.data + i * op.head_dim), op.head_dim, op.eps,
                               RotaryRowAt(op.rope, i / heads));
    });
  }

  void Compute(const WindowKeysOp& op) {
    const std::int64_t plain = op.kv.cols - 2 * op.rope.cos.cols;
    self.ForEach(op.kv.rows, 2 * op.kv.cols * kElementWork, [&](std::int64_t row) {
      std::uint16_t* key = Bits(op.kv.Row(row));
      self.kernels_.rms_norm(key, Bits(op.norm.data()), op.eps, op.kv.cols, key);
      self.kernels_.rotate(key + plain, RotaryRowAt(op.rope, row));
      self.kernels_.simulate_fp8(key, plain);
    });
  }

  void Compute(const ChooseTokensOp& op) {
    self.team_.For(op.logits.rows, 1, [&](std::int64_t first, std::int64_t end, int worker) {
      const auto from = static_cast<std::size_t>(first);
      const auto n = static_cast<std::size_t>(end - first);
      self.choosers_[static_cast<std::size_t>(worker)].ChooseEach(
          op.logits.Rows(first, end - first), op.rows.subspan(from, n),
          op.choices.subspan(from, n));
    });
  }
};

void CpuBackend::Compute(const Operation& operation) {
  const bool has_kernel = ComputeLinear(operation) || ComputeRow(operation) ||
                          ComputeAttention(operation) || ComputeIndexer(operation) ||
                          ComputeExpert(operation);
  if (!has_kernel) ReferenceBackend::Compute(operation);
}

bool CpuBackend::ComputeRow(const Operation& operation) {
  return ComputeBy(RowOperations{*this}, operation);
}

}  // namespace fathom::kernels
