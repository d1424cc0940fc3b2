// The router and the routed experts.
#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/integer_math.h"
#include "kernels/gpu/device/experts.h"
#include "kernels/gpu/device/route.h"
#include "kernels/gpu/gpu_backend.h"
#include "kernels/gpu/memory_sizes.h"

namespace fathom::kernels {
namespace {

// Bytes of weights in memory of the host that are copied to one buffer, one after the other.
class CopiedPieces {
 public:
  // `data`: an address in a table of experts, which becomes the address of the copy.
  void Add(const std::byte*& data, std::span<const std::byte> from) {
    if (from.empty()) return;
    pieces_.push_back({&data, from, bytes_});
    bytes_ += RoundUp(std::int64_t{std::ssize(from)}, kGpuPieceAlignment);
  }
  void Add(ExpertWeights& expert) {
    for (Weight* const w : {&expert.w1, &expert.w2, &expert.w3}) {
      const std::span<const std::byte> scales = w->ScaleBytes();
      Add(w->data, w->Bytes());
      Add(w->scales, scales);
    }
  }
  std::int64_t bytes() const { return bytes_; }
  std::vector<std::span<const std::byte>> sources() const {
    std::vector<std::span<const std::byte>> sources;
    for (const Piece& piece : pieces_) sources.push_back(piece.from);
    return sources;
  }
  // Calls copy(to, from) for each piece of a buffer at this address.
  template <class Copy>
  void CopyTo(std::byte* address, const Copy& copy) const {
    for (const Piece& piece : pieces_) {
      copy(address + piece.offset, piece.from);
      *piece.data = address + piece.offset;
    }
  }

 private:
  struct Piece {
    const std::byte** data = nullptr;
    std::span<const std::byte> from;
    std::int64_t offset = 0;  // offset of the copy
  };

  std::vector<Piece> pieces_;
  std::int64_t bytes_ = 0;
};

void TakeData(ExpertWeights& expert) {
  for (Weight* const w : {&expert.w1, &expert.w2, &expert.w3}) {
    w->data = nullptr;
    w->scales = nullptr;
  }
}

}  // namespace

struct GpuBackend::ExpertOperations {
  GpuBackend& self;

  static void CheckChosen(const Routing& routing) {
    Check(routing.ids.cols <= gpu::kMostChosen, "Route: more experts of a token than kMostChosen");
  }

  void Compute(const RouteOp& op) {
    CheckChosen(op.out);
    const std::int64_t scores = RoundUp(4 * op.logits.cols, 16);
    self.Launch(GpuKernel::kRoute, op.logits.rows,
                gpu::RouteArguments{.logits = op.logits,
                                    .bias = op.bias.data(),
                                    .scale = op.scale,
                                    .ids = op.out.ids,
                                    .weights = op.out.weights},
                scores + 4 * op.logits.cols);
  }

  void Compute(const RouteByTokenOp& op) {
    CheckChosen(op.out);
    self.Launch(GpuKernel::kRouteByToken, op.logits.rows,
                gpu::RouteByTokenArguments{.tokens = self.batch_.View(op.batch).tokens,
                                           .logits = op.logits,
                                           .table = op.table,
                                           .scale = op.scale,
                                           .ids = op.out.ids,
                                           .weights = op.out.weights,
                                           .fault = self.fault()});
  }

  void Compute(const ExpertRowsOp& op) {
    Check(op.experts.block < std::ssize(self.experts_), "ExpertRows: experts that are not bound");
    const BoundExperts& bound = self.experts_[static_cast<std::size_t>(op.experts.block)];
    const std::int64_t k = op.routing.ids.cols;
    if (op.rows.rows == 0 || bound.table == nullptr) return;
    const std::int64_t row_bytes = k * bound.width * static_cast<std::int64_t>(sizeof(Bf16));
    const std::int64_t fitting = self.hidden_ == nullptr ? 0
                                 : row_bytes == 0        ? op.x.rows
                                                         : self.hidden_->bytes() / row_bytes;
    const std::int64_t tile =
        std::min({fitting, self.RowsOfCodes(op.x.cols), self.RowsOfCodes(k * bound.width)});
    Check(tile > 0, "ExpertRows: more than Reserve announced, or Reserve was not called");
    const bool host_helps = self.host_experts_ && self.host_experts_->Has(op.experts.block);
    if (host_helps) {
      self.host_experts_->Begin(*self.driver_, op.x, op.routing);
    }
    for (std::int64_t first = 0; first < op.x.rows; first += tile) {
      ExpertTile(bound, first, op.x.Rows(first, std::min(tile, op.x.rows - first)), op.routing,
                 op.clamp, op.rows);
    }
    if (host_helps) {
      if (Status s = self.host_experts_->End(*self.driver_, op.experts.block, op.clamp, op.rows);
          !s) {
        self.kept_ = s;
      }
    }
  }

  // Computes the rows of tokens first, first + 1, ..., whose inputs are x.
  void ExpertTile(const BoundExperts& bound, std::int64_t first, Matrix<const Bf16> x,
                  const Routing& routing, float clamp, Matrix<Bf16> rows) {
    constexpr std::int64_t kOutputsOfBlock = kMaxBlockThreads / kGroupThreads;
    const std::int64_t k = routing.ids.cols;
    const std::int64_t n = x.rows * k;
    const auto blocks = [&](std::int64_t outputs) {
      return n * DivideUp(outputs, kOutputsOfBlock);
    };
    gpu::ExpertArguments arguments = {
        .x = x,
        .ids = routing.ids.Rows(first, x.rows),
        .weights = routing.weights.Row(first),
        .experts = reinterpret_cast<const ExpertWeights*>(bound.table->address()),
        .n_experts = bound.n,
        .first_token = first,
        .clamp = clamp,
        .hidden = {reinterpret_cast<Bf16*>(self.hidden_->address()), n, bound.width},
        .rows = rows.Rows(first * k, n),
        .fault = self.fault()};
    const auto quantize = [&](Matrix<const Bf16> input) {
      if (bound.is_quantized) {
        self.Quantize(input);
        arguments.codes = self.Codes(input.rows, input.cols);
        arguments.scales = self.CodeScales(input.rows, input.cols);
      }
    };
    quantize(x);
    self.Launch(GpuKernel::kExpertHidden, blocks(bound.width), arguments);
    quantize(arguments.hidden);
    self.Launch(GpuKernel::kExpertOutput, blocks(rows.cols), arguments);
  }

  void Compute(const CombineExpertsOp& op) {
    self.LaunchOnNumbers(
        GpuKernel::kCombineExperts, op.out.rows * op.out.cols,
        gpu::CombineArguments{.rows = op.rows,
                              .shared = op.shared,
                              .k = op.out.rows == 0 ? 0 : op.rows.rows / op.out.rows,
                              .out = op.out});
  }
};

bool GpuBackend::ComputeExpert(const Operation& operation) {
  return ComputeBy(ExpertOperations{*this}, operation);
}

Status GpuBackend::PlaceExperts(const ExpertPlaces& places) {
  places_ = places;
  host_experts_.reset();
  if (!places.host_computes) return {};
  if (make_host_ == nullptr) {
    return MakeError(ErrorCode::kUnsupported,
                     "experts that the host computes: expected a backend of the host beside {}, "
                     "found none",
                     name_);
  }
  Result<std::unique_ptr<Backend>> host = make_host_();
  if (!host) return Unexpected(host.error());
  host_experts_.emplace(*std::move(host));
  return {};
}

ExpertSet GpuBackend::BindExperts(std::int64_t block, std::span<const ExpertWeights> experts) {
  if (block >= std::ssize(experts_)) {
    experts_.resize(static_cast<std::size_t>(block + 1));
  }
  BoundExperts& bound = experts_[static_cast<std::size_t>(block)];
  if (Status s = CopyExperts(block, experts, bound); !s) {
    kept_ = s;
    bound = {};
    return {.block = block};
  }
  bound.n = std::ssize(experts);
  bound.width = experts.empty() ? 0 : experts.front().w1.n;
  bound.is_quantized = std::any_of(experts.begin(), experts.end(), [](const ExpertWeights& e) {
    return e.w1.IsQuantized() || e.w2.IsQuantized() || e.w3.IsQuantized();
  });
  return {.block = block, .experts = experts, .is_uniform = AreUniform(experts)};
}

Status GpuBackend::CopyExperts(std::int64_t block, std::span<const ExpertWeights> experts,
                               BoundExperts& bound) {
  std::vector<ExpertWeights> table(experts.begin(), experts.end());
  std::vector<std::uint8_t> is_of_host(table.size(), 0);
  CopiedPieces on_device, shared;
  const bool is_placed = block < std::ssize(places_.on_device);
  std::int64_t room =
      is_placed ? places_.on_device[static_cast<std::size_t>(block)] : std::ssize(experts);
  for (std::size_t id = 0; id < table.size(); ++id) {
    ExpertWeights& expert = table[id];
    if (expert.w1.data == nullptr || ledger_.Has(expert.w1.data)) continue;
    if (room-- > 0) {
      on_device.Add(expert);
    } else if (!host_experts_) {
      shared.Add(expert);
    } else {
      is_of_host[id] = 1;
      TakeData(expert);
    }
  }
  if (ReadsWeightsInPlace()) {
    if (Status s = driver_->ReadInPlace(on_device.sources()); !s) return s;
  } else if (on_device.bytes() > 0) {
    if (Status s = EnsureBytes(bound.on_device, on_device.bytes()); !s) return s;
    on_device.CopyTo(
        bound.on_device->address(),
        [&](std::byte* to, std::span<const std::byte> from) { driver_->Upload(to, from); });
  }
  if (shared.bytes() > 0) {
    if (Status s = Synchronize(); !s) return s;  // operations may read memory that is overwritten
    if (Status s = EnsureBytes(bound.shared, shared.bytes(), MemoryKind::kSharedReadOnly); !s) {
      return s;
    }
    shared.CopyTo(bound.shared->address(), [](std::byte* to, std::span<const std::byte> from) {
      std::memcpy(to, from.data(), from.size());
    });
  }
  if (host_experts_) {
    const bool any = std::ranges::find(is_of_host, 1) != is_of_host.end();
    host_experts_->Bind(block, experts, any ? std::move(is_of_host) : std::vector<std::uint8_t>());
  }
  const std::span<const std::byte> table_bytes = std::as_bytes(std::span(table));
  if (Status s = EnsureBytes(bound.table, std::ssize(table_bytes)); !s) return s;
  driver_->Upload(bound.table->address(), table_bytes);
  return {};
}

}  // namespace fathom::kernels
