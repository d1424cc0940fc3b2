#include "kernels/gpu/step_batch.h"

#include <span>
#include <utility>

#include "base/check.h"
#include "base/integer_math.h"

namespace fathom {
namespace {

constexpr std::int64_t kArrayAlignment = 256;

std::int64_t ArrayBytes(std::int64_t n, std::size_t element) {
  return RoundUp(n * static_cast<std::int64_t>(element), kArrayAlignment);
}

// The bytes of each array, for batches of so many tokens.
struct ArraySizes {
  explicit ArraySizes(std::int64_t max_tokens)
      : tokens(ArrayBytes(max_tokens, sizeof(Token))),
        numbers(ArrayBytes(max_tokens, sizeof(std::int32_t))),
        segments(ArrayBytes(max_tokens, sizeof(Segment))) {}
  std::int64_t Total() const { return tokens + 2 * numbers + segments; }

  std::int64_t tokens;
  std::int64_t numbers;  // positions, or segments of rows
  std::int64_t segments;
};

template <class T>
void UploadArray(GpuDriver& driver, const T* to, std::span<const T> from) {
  driver.Upload(const_cast<T*>(to), std::as_bytes(from));
}

}  // namespace

std::int64_t StepBatch::BytesFor(std::int64_t max_tokens) { return ArraySizes(max_tokens).Total(); }

Status StepBatch::Reserve(GpuDriver& driver, std::int64_t max_tokens) {
  const ArraySizes sizes(max_tokens);
  Result<std::unique_ptr<Buffer>> memory = driver.Allocate(sizes.Total(), MemoryKind::kDevice);
  if (!memory) return Unexpected(memory.error());
  memory_ = *std::move(memory);
  max_tokens_ = max_tokens;
  std::byte* const tokens = memory_->address();
  std::byte* const numbers = tokens + sizes.tokens;
  whole_ = {.tokens = reinterpret_cast<const Token*>(tokens),
            .positions = reinterpret_cast<const std::int32_t*>(numbers),
            .segment_of_row = reinterpret_cast<const std::int32_t*>(numbers + sizes.numbers),
            .segments = reinterpret_cast<const Segment*>(numbers + 2 * sizes.numbers)};
  host_ = {};
  return {};
}

void StepBatch::Begin(GpuDriver& driver, const BatchView& batch) {
  Check(batch.n_tokens() <= max_tokens_ && std::ssize(batch.segments) <= max_tokens_,
        "a batch of more tokens than Reserve announced, or Reserve was not called");
  host_ = batch;
  UploadArray(driver, whole_.tokens, batch.tokens);
  UploadArray(driver, whole_.positions, batch.positions);
  UploadArray(driver, whole_.segment_of_row, batch.segment_of_row);
  UploadArray(driver, whole_.segments, batch.segments);
}

gpu::DeviceBatch StepBatch::View(const BatchView& batch) const {
  if (batch.n_tokens() == 0) return whole_;
  const std::ptrdiff_t first = batch.tokens.data() - host_.tokens.data();
  Check(first >= 0 && first + batch.n_tokens() <= host_.n_tokens() &&
            batch.segments.data() == host_.segments.data(),
        "a batch that BeginStep was not given");
  return {.tokens = whole_.tokens + first,
          .positions = whole_.positions + first,
          .segment_of_row = whole_.segment_of_row + first,
          .segments = whole_.segments};
}

}  // namespace fathom
