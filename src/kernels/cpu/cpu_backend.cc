#include "kernels/cpu/cpu_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernels/cpu/kernel_tables.h"
#include "kernels/host_buffer.h"
#include "kernels/host_roofline.h"
#include "kernels/shape_checks.h"

namespace fathom {
namespace {

constexpr std::int64_t kSinkhornWork = 16 * 1024;
constexpr std::int64_t kGateWork = 4;  // work per number of a gate's row: rows are transposed

}  // namespace

CpuBackend::CpuBackend(Isa isa, int n_threads, std::span<const int> processors)
    : isa_(isa),
      kernels_(cpu::KernelsFor(isa)),
      processors_(processors.begin(), processors.end()),
      team_(n_threads, processors),
      name_(fmt::format("cpu {}, {} thread{}", fathom::Name(isa), n_threads,
                        n_threads == 1 ? "" : "s")) {}

Status CpuBackend::Reserve(const StepLimits& limits) {
  Result<Scratch> scratch = Scratch::Make(limits, team_.n_threads());
  if (!scratch) return Unexpected(scratch.error());
  scratch_ = std::move(*scratch);
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

void CpuBackend::RmsNorm(Matrix<const Bf16> x, std::span<const Bf16> weight, float eps,
                         Matrix<Bf16> out) {
  CheckRmsNorm(x, weight, out);
  ForItems(x.rows, x.cols * kElementWork, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t row = first; row < end; ++row) {
      kernels_.rms_norm(Bits(x.Row(row)), Bits(weight.data()), eps, x.cols, Bits(out.Row(row)));
    }
  });
}

void CpuBackend::SwiGlu(Matrix<const Bf16> gate, Matrix<const Bf16> up, float clamp,
                        Matrix<Bf16> out) {
  CheckSwiGlu(gate, up, out);
  ForItems(out.rows, out.cols * kActivationWork, [&](std::int64_t first, std::int64_t end) {
    kernels_.swiglu(Bits(gate.Row(first)), Bits(up.Row(first)), clamp, nullptr,
                    (end - first) * out.cols, Bits(out.Row(first)));
  });
}

void CpuBackend::HyperGates(const cpu::HyperWeights& w, cpu::HyperRows rows) {
  const std::int64_t width = kStreams * rows.d;
  const std::int64_t blocks = (width + cpu::kHyperBlock - 1) / cpu::kHyperBlock;
  const std::int64_t most = std::min<std::int64_t>(
      cpu::kHyperRows, std::ssize(scratch_.hyper_chains) / (blocks * (w.gates + 1)));
  Check(rows.count == 0 || most > 0, "HcPre: more than Reserve announced");
  rows.chains = scratch_.hyper_chains.data();
  for (std::int64_t left = rows.count; left > 0; left -= rows.count) {
    rows.count = std::min(left, most);
    // Up to eight rows fill registers of 8 lanes, and so do the 24 gates of a few rows
    // (hyper_connection.cc).
    const cpu::Kernels& kernels = rows.count <= 8 ? avx2::Table() : kernels_;
    const std::int64_t tiles = (rows.count + cpu::kHyperTile - 1) / cpu::kHyperTile;
    const std::int64_t tile_rows = std::min(rows.count, cpu::kHyperTile);
    ForItems(
        blocks * tiles, tile_rows * w.gates * cpu::kHyperBlock * kGateWork,
        [&](std::int64_t first, std::int64_t end) { kernels.hyper_chains(w, rows, first, end); });
    const std::int64_t sinkhorn_work = w.gates == kHcGates ? kSinkhornWork : 0;
    ForItems(rows.count, width + sinkhorn_work, [&](std::int64_t first, std::int64_t end) {
      kernels_.hyper_pre(w, rows, first, end);
    });
    rows.streams += rows.count * width;
    rows.out += rows.count * rows.d;
    if (w.gates == kHcGates) {
      rows.post += rows.count * kStreams;
      rows.comb += rows.count * kStreams * kStreams;
    }
  }
}

void CpuBackend::HcPre(Matrix<const Bf16> streams, const HcWeights& w, const HcOptions& options,
                       Matrix<Bf16> out, HcMix mix) {
  if (streams.cols % 16 != 0) return ReferenceBackend::HcPre(streams, w, options, out, mix);
  CheckHcPre(streams, options, out, mix);
  const cpu::HyperWeights weights = {.fn = w.fn,
                                     .base = w.base,
                                     .scale = w.scale,
                                     .gates = kHcGates,
                                     .sinkhorn_iterations = options.sinkhorn_iterations,
                                     .eps = options.eps,
                                     .norm_eps = options.norm_eps};
  const cpu::HyperRows rows = {.streams = Bits(streams.data),
                               .d = out.cols,
                               .out = Bits(out.data),
                               .post = mix.post.data,
                               .comb = mix.comb.data,
                               .count = out.rows};
  HyperGates(weights, rows);
}

void CpuBackend::HcPost(Matrix<const Bf16> y, const HcMix& mix, Matrix<Bf16> streams) {
  CheckHcPost(y, mix, streams);
  ForItems(y.rows, streams.cols * kElementWork, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t row = first; row < end; ++row) {
      kernels_.hyper_post(Bits(y.Row(row)), mix.post.Row(row), mix.comb.Row(row), y.cols,
                          Bits(streams.Row(row)));
    }
  });
}

void CpuBackend::HcHead(Matrix<const Bf16> streams, const HcWeights& w, const HcOptions& options,
                        Matrix<Bf16> out) {
  if (streams.cols % 16 != 0) return ReferenceBackend::HcHead(streams, w, options, out);
  CheckHcHead(streams, out);
  const cpu::HyperWeights weights = {.fn = w.fn,
                                     .base = w.base,
                                     .scale = w.scale,
                                     .gates = kStreams,
                                     .sinkhorn_iterations = 0,
                                     .eps = options.eps,
                                     .norm_eps = options.norm_eps};
  const cpu::HyperRows rows = {
      .streams = Bits(streams.data), .d = out.cols, .out = Bits(out.data), .count = out.rows};
  HyperGates(weights, rows);
}

void CpuBackend::AddToStreams(Matrix<const Bf16> x, Matrix<Bf16> streams) {
  CheckAddToStreams(x, streams);
  ForItems(x.rows, streams.cols * kElementWork, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t row = first; row < end; ++row) {
      for (std::int64_t stream = 0; stream < kStreams; ++stream) {
        kernels_.add_bf16(Bits(x.Row(row)), x.cols, Bits(streams.Row(row) + stream * x.cols));
      }
    }
  });
}

void CpuBackend::MeanOfStreams(Matrix<const Bf16> streams, std::int64_t first_column,
                               Matrix<Bf16> out) {
  CheckMeanOfStreams(streams, first_column, out);
  ForItems(out.rows, streams.cols * kElementWork, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t row = first; row < end; ++row) {
      kernels_.mean_of_streams(Bits(streams.Row(row)), streams.cols / kStreams,
                               Bits(out.Row(row) + first_column));
    }
  });
}

void CpuBackend::Add(Matrix<const float> x, Matrix<const float> y, Matrix<float> out) {
  CheckAdd(x, y, out);
  ForItems(out.rows, out.cols * kElementWork, [&](std::int64_t first, std::int64_t end) {
    kernels_.add_rows(x.Row(first), y.Row(first), (end - first) * out.cols, out.Row(first));
  });
}

void CpuBackend::QueryHeads(Matrix<Bf16> q, std::int64_t head_dim, float eps,
                            const RopeRows& rope) {
  CheckQueryHeads(q, head_dim, rope);
  const std::int64_t heads = q.cols / head_dim;
  ForItems(q.rows * heads, head_dim * kElementWork, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t i = first; i < end; ++i) {
      kernels_.query_head(Bits(q.data + i * head_dim), head_dim, eps, RotaryRowAt(rope, i / heads));
    }
  });
}

void CpuBackend::WindowKeys(Matrix<Bf16> kv, std::span<const Bf16> norm, float eps,
                            const RopeRows& rope) {
  CheckWindowKeys(kv, norm, rope);
  const std::int64_t plain = kv.cols - 2 * rope.cos.cols;
  ForItems(kv.rows, 2 * kv.cols * kElementWork, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t row = first; row < end; ++row) {
      std::uint16_t* key = Bits(kv.Row(row));
      kernels_.rms_norm(key, Bits(norm.data()), eps, kv.cols, key);
      kernels_.rotate(key + plain, RotaryRowAt(rope, row));
      kernels_.simulate_fp8(key, plain);
    }
  });
}

}  // namespace fathom
