#include "kernels/gpu/host_experts.h"

#include <utility>

#include "base/check.h"

namespace fathom::kernels {
namespace {

// Returns the first rows of a buffer as a matrix.
template <class T>
Matrix<T> RowsIn(const std::unique_ptr<Buffer>& buffer, std::int64_t rows, std::int64_t cols) {
  Check(buffer != nullptr && rows * cols * static_cast<std::int64_t>(sizeof(T)) <= buffer->bytes(),
        "experts of the host: more rows than Reserve announced, or Reserve was not called");
  return {reinterpret_cast<T*>(buffer->address()), rows, cols};
}

}  // namespace

Status HostExperts::Reserve(GpuDriver& driver, const StepLimits& limits) {
  if (Status reserved = host_->Reserve(limits); !reserved) return reserved;
  const std::int64_t choices = limits.max_tokens * limits.experts_per_token;
  constexpr auto kBf16 = static_cast<std::int64_t>(sizeof(Bf16));
  const std::pair<std::unique_ptr<Buffer>*, std::int64_t> buffers[] = {
      {&x_memory_, limits.max_tokens * limits.hidden * kBf16},
      {&ids_memory_, choices * static_cast<std::int64_t>(sizeof(std::int32_t))},
      {&weights_memory_, choices * static_cast<std::int64_t>(sizeof(float))},
      {&rows_memory_, choices * limits.hidden * kBf16}};
  for (const auto& [buffer, bytes] : buffers) {
    buffer->reset();
    Result<std::unique_ptr<Buffer>> allocated = driver.Allocate(bytes, MemoryKind::kShared);
    if (!allocated) return Unexpected(allocated.error());
    *buffer = *std::move(allocated);
  }
  return {};
}

void HostExperts::Bind(std::int64_t block, std::span<const ExpertWeights> experts,
                       std::vector<std::uint8_t> is_mine) {
  if (block >= std::ssize(blocks_)) {
    blocks_.resize(static_cast<std::size_t>(block + 1));
  }
  blocks_[static_cast<std::size_t>(block)] = {host_->BindExperts(block, experts),
                                              std::move(is_mine)};
}

bool HostExperts::Has(std::int64_t block) const {
  return block < std::ssize(blocks_) && !blocks_[static_cast<std::size_t>(block)].is_mine.empty();
}

void HostExperts::Begin(GpuDriver& driver, Matrix<const Bf16> x, const Routing& routing) {
  x_ = RowsIn<Bf16>(x_memory_, x.rows, x.cols);
  routing_ = {RowsIn<std::int32_t>(ids_memory_, routing.ids.rows, routing.ids.cols),
              RowsIn<float>(weights_memory_, routing.ids.rows, routing.ids.cols)};
  driver.Download(AsBytes(routing_.ids), routing.ids.data);
  driver.Download(AsBytes(routing_.weights), routing.weights.data);
  driver.Download(AsBytes(x_), x.data);
  arrived_ = driver.Mark();
}

bool HostExperts::KeepMine(const std::vector<std::uint8_t>& is_mine) {
  bool any = false;
  for (std::int64_t i = 0; i < routing_.ids.rows * routing_.ids.cols; ++i) {
    std::int32_t& id = routing_.ids.data[i];
    const bool keeps =
        id >= 0 && id < std::ssize(is_mine) && is_mine[static_cast<std::size_t>(id)] != 0;
    if (!keeps) id = kRemoteExpert;
    any = any || keeps;
  }
  return any;
}

Status HostExperts::End(GpuDriver& driver, std::int64_t block, float clamp, Matrix<Bf16> rows) {
  if (Status arrived = driver.Wait(arrived_); !arrived) return arrived;
  const BlockExperts& experts = blocks_[static_cast<std::size_t>(block)];
  if (!KeepMine(experts.is_mine)) return {};
  const Matrix<Bf16> computed = RowsIn<Bf16>(rows_memory_, rows.rows, rows.cols);
  host_->ExpertRows(x_, routing_, experts.set, clamp, computed);
  if (Status done = host_->Synchronize(); !done) return done;
  const auto is_computed = [&](std::int64_t row) {
    return row < rows.rows && routing_.ids.data[row] != kRemoteExpert;
  };
  for (std::int64_t first = 0; first < rows.rows; ++first) {
    std::int64_t end = first;
    while (is_computed(end)) ++end;
    if (end > first) {
      driver.Upload(rows.Row(first), AsBytes(computed.Rows(first, end - first)));
      first = end;
    }
  }
  return {};
}

}  // namespace fathom::kernels
