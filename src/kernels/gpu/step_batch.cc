#include "kernels/gpu/step_batch.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/integer_math.h"

namespace fathom::kernels {
namespace {

constexpr std::int64_t kArrayAlignment = 256;

std::int64_t ArrayBytes(std::int64_t n, std::size_t element) {
  return RoundUp(n * static_cast<std::int64_t>(element), kArrayAlignment);
}

// The bytes of the arrays of a batch, which follow each other.
struct ArraySizes {
  ArraySizes(std::int64_t n_tokens, std::int64_t n_segments)
      : tokens(ArrayBytes(n_tokens, sizeof(Token))),
        numbers(ArrayBytes(n_tokens, sizeof(std::int32_t))),
        segments(ArrayBytes(n_segments, sizeof(Segment))) {}
  std::int64_t Total() const { return tokens + 2 * numbers + segments; }

  std::int64_t tokens;
  std::int64_t numbers;  // positions, or segments of rows
  std::int64_t segments;
};

gpu::DeviceBatch ArraysAt(const std::byte* memory, const ArraySizes& sizes) {
  const std::byte* const numbers = memory + sizes.tokens;
  return {.tokens = reinterpret_cast<const Token*>(memory),
          .positions = reinterpret_cast<const std::int32_t*>(numbers),
          .segment_of_row = reinterpret_cast<const std::int32_t*>(numbers + sizes.numbers),
          .segments = reinterpret_cast<const Segment*>(numbers + 2 * sizes.numbers)};
}

// `to`: an address in the header's memory.
template <class T>
void CopyArray(std::span<const T> from, const T* to) {
  std::ranges::copy(from, const_cast<T*>(to));
}

}  // namespace

std::int64_t StepBatch::BytesFor(std::int64_t max_tokens) {
  return ArraySizes(max_tokens, max_tokens).Total();
}

Status StepBatch::Reserve(GpuDriver& driver, std::int64_t max_tokens) {
  const std::int64_t bytes = BytesFor(max_tokens);
  Result<std::unique_ptr<Buffer>> memory = driver.Allocate(bytes, MemoryKind::kDevice);
  if (!memory) return Unexpected(memory.error());
  memory_ = *std::move(memory);
  header_.resize(static_cast<std::size_t>(bytes));
  max_tokens_ = max_tokens;
  whole_ = {};
  host_ = {};
  return {};
}

void StepBatch::Begin(GpuDriver& driver, const BatchView& batch) {
  Check(batch.n_tokens() <= max_tokens_ && std::ssize(batch.segments) <= max_tokens_,
        "a batch of more tokens than Reserve announced, or Reserve was not called");
  host_ = batch;
  const ArraySizes sizes(batch.n_tokens(), std::ssize(batch.segments));
  const gpu::DeviceBatch header = ArraysAt(header_.data(), sizes);
  CopyArray(batch.tokens, header.tokens);
  CopyArray(batch.positions, header.positions);
  CopyArray(batch.segment_of_row, header.segment_of_row);
  CopyArray(batch.segments, header.segments);
  driver.Upload(memory_->address(),
                std::span(header_).first(static_cast<std::size_t>(sizes.Total())));
  whole_ = ArraysAt(memory_->address(), sizes);
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

}  // namespace fathom::kernels
