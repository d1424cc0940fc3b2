// Attention and compressors: lists the rows that an operation reads, in order.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/rope.h"

namespace fathom::kernels {
namespace {

constexpr std::int64_t kExpWork = 64;
constexpr std::int64_t kSlotWork = 8;  // per number of a key, for one head

const std::uint8_t* Bytes(const Bf16* x) { return reinterpret_cast<const std::uint8_t*>(x); }

// ListKeys for a row of a block of drafts: the positions before the block in the order of a ring,
// then the block's own positions.
void ListKeysOfBlock(const AttentionInput& input, const Segment& segment, const LayerCache& cache,
                     std::int64_t row, std::span<const std::uint8_t*> keys,
                     cpu::AttentionTask& task, FaultWord& fault) {
  Check(input.sliding_window + segment.n_tokens <= std::ssize(keys),
        "SparseAttention: a longer block of drafts than Reserve announced");
  std::size_t n = 0;
  const std::int32_t end = segment.first_position;
  const auto window = static_cast<std::int32_t>(input.sliding_window);
  for (std::int32_t slot = 0; slot < FilledSlots(end, window); ++slot, ++n) {
    keys[n] = cache.window.Row(segment.sequence, PositionInRing(slot, end, window));
    if (keys[n] == nullptr) {
      fault.Set(Fault::kKeyNotCached, row);
    }
  }
  task.keys = keys.data();
  task.first_own = static_cast<std::int64_t>(n);
  for (std::int64_t i = 0; i < segment.n_tokens; ++i) {
    keys[n++] = Bytes(input.keys.Row(segment.first_row + i));
  }
  task.end_own = task.n_slots = static_cast<std::int64_t>(n);
}

// Writes the addresses of the keys that row `row` of the batch sees, null where masked, and their
// slots to the task. Masked slots after the last key are left out: they change nothing.
void ListKeys(const AttentionInput& input, const BatchView& batch, const LayerCache& cache,
              std::int64_t row, std::span<const std::uint8_t*> keys, cpu::AttentionTask& task,
              FaultWord& fault) {
  constexpr auto kTooMany = "SparseAttention: more keys than Reserve announced";
  const Segment& segment = batch.FindSegment(row);
  if (input.sees_whole_segment) {
    return ListKeysOfBlock(input, segment, cache, row, keys, task, fault);
  }
  const std::int64_t position = batch.positions[static_cast<std::size_t>(row)];
  Check(input.sliding_window <= std::ssize(keys), kTooMany);
  std::size_t n = 0;
  const std::int64_t oldest = std::max<std::int64_t>(0, position - input.sliding_window + 1);
  for (std::int64_t p = oldest; p < segment.first_position; ++p) {
    keys[n] = cache.window.Row(segment.sequence, p);
    if (keys[n++] == nullptr) {
      fault.Set(Fault::kKeyNotCached, row);
    }
  }
  task.keys = keys.data();
  task.first_own = static_cast<std::int64_t>(n);
  for (std::int64_t p = std::max<std::int64_t>(segment.first_position, oldest); p <= position;
       ++p) {
    keys[n++] = Bytes(input.keys.Row(segment.first_row + p - segment.first_position));
  }
  task.end_own = task.n_slots = static_cast<std::int64_t>(n);
  const CompressorCache& compressor = cache.compressor;
  const std::int64_t visible = VisibleRows(position, cache.ratio);
  Check(visible <= compressor.Capacity(), "SparseAttention: more rows than the cache holds");
  const bool all = input.selected.cols == 0;
  std::int64_t count = all ? visible : input.selected.cols;
  while (!all && count > 0 && input.selected.Row(row)[count - 1] < 0) {
    --count;
  }
  if (count == 0) return;
  Check(input.sliding_window + count <= std::ssize(keys), kTooMany);
  for (; n < static_cast<std::size_t>(input.sliding_window); ++n) {
    keys[n] = nullptr;
  }
  const bool gathered = input.gathered.cols > 0;
  const std::int64_t end = gathered ? input.gathered.rows : visible;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t c = all ? i : input.selected.Row(row)[i];
    if (c >= end) {
      fault.Set(Fault::kRowNotVisible, row);
    }
    keys[n++] = c < 0 || c >= end ? nullptr
                : gathered        ? input.gathered.Row(c)
                                  : compressor.rows.Row(segment.sequence, c);
  }
  task.n_slots = static_cast<std::int64_t>(n);
}

// Returns the heads per task: the most that a task can have, or fewer so that every thread has a
// task.
std::int64_t TaskHeads(std::int64_t heads, std::int64_t rows, std::int64_t n_threads) {
  std::int64_t per_task = cpu::kTaskHeads;
  while (per_task > cpu::kHeadGroup && rows * ((heads + per_task - 1) / per_task) < n_threads) {
    per_task /= 2;
  }
  return per_task;
}

// Pools the slots of row `w` of the segment's sequence into out [width].
void PoolRow(const cpu::Kernels& kernels, const CompressorInput& input, const Segment& segment,
             const CompressorCache& cache, std::int64_t w, FaultWord& fault, std::uint16_t* out) {
  constexpr std::int64_t kMaxSlots = 128;
  const float* values[kMaxSlots];
  const float* scores[kMaxSlots];
  const std::int64_t width = std::ssize(input.norm);
  const std::int64_t end = (w + 1) * cache.ratio;
  const std::int64_t begin = end - cache.Span();
  std::int64_t n = 0;
  for (std::int64_t position = std::max<std::int64_t>(begin, 0); position < end; ++position, ++n) {
    // With two windows, the slots of the second window read the second half of the channels.
    const std::int64_t channel = (position - begin) / cache.ratio * width;
    if (position >= segment.first_position) {
      const std::int64_t row = segment.first_row + position - segment.first_position;
      values[n] = input.values.Row(row) + channel;
      scores[n] = input.scores.Row(row) + channel;
    } else {
      const CompressorInputs kept =
          cache.Before(segment.sequence, position, segment.first_position);
      if (kept.values == nullptr) {
        fault.Set(Fault::kBoundaryNotCached, segment.first_row);
        --n;
        continue;
      }
      values[n] = kept.values + channel;
      scores[n] = kept.scores + channel;
    }
  }
  kernels.pool({.values = values, .scores = scores, .n_slots = n, .width = width, .out = out});
}

}  // namespace

struct CpuBackend::AttentionOperations {
  CpuBackend& self;

  void Compute(const SparseAttentionOp& op) {
    const std::int64_t head_dim = op.input.keys.cols;
    const KeyLayout layout = op.cache.window.rows.layout;
    if (head_dim % 32 != 0 || PlainDims(layout) % kSimulationGroup != 0) {
      return self.ReferenceBackend::Compute(op);
    }
    const std::int64_t heads = std::ssize(op.input.sinks);
    const std::int64_t task_heads = TaskHeads(heads, op.out.rows, self.team_.n_threads());
    const std::int64_t groups = (heads + task_heads - 1) / task_heads;
    const std::int64_t work = kSlotWork * std::min(task_heads, heads) * head_dim *
                              (op.input.sliding_window + op.input.selected.cols);
    self.ForItems(op.out.rows * groups, work,
                  [&](std::int64_t first, std::int64_t end, int worker) {
                    const std::span<const std::uint8_t*> keys =
                        Piece(self.scratch_.keys, worker, self.team_.n_threads());
                    const std::span<float> floats =
                        Piece(self.scratch_.attention, worker, self.team_.n_threads());
                    Check(cpu::AttentionScratch(head_dim) <= std::ssize(floats),
                          "SparseAttention: a larger head than Reserve announced");
                    cpu::AttentionTask task = {
                        .head_dim = head_dim,
                        .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim))),
                        .scratch = floats.data()};
                    std::int64_t listed_row = -1;
                    for (std::int64_t i = first; i < end; ++i) {
                      const std::int64_t row = i / groups;
                      if (row != listed_row) {
                        ListKeys(op.input, op.batch, op.cache, row, keys, task, self.fault_);
                        listed_row = row;
                      }
                      const std::int64_t head = i % groups * task_heads;
                      task.q = Bits(op.input.q.Row(row) + head * head_dim);
                      task.heads = std::min(task_heads, heads - head);
                      task.sinks = op.input.sinks.data() + head;
                      task.rope = RotaryRowAt(op.input.rope, row);
                      task.out = Bits(op.out.Row(row) + head * head_dim);
                      self.kernels_.attention(task);
                    }
                  });
  }

  void Compute(const CompressOp& op) {
    const bool packed = op.cache.IsPacked();
    if (!packed && PlainDims(op.cache.rows.layout) % kSimulationGroup != 0) {
      return self.ReferenceBackend::Compute(op);
    }
    const std::int64_t inputs = op.input.scores.cols;
    self.ForEach(op.batch.n_tokens(), inputs * kElementWork, [&](std::int64_t row) {
      const Segment& segment = op.batch.FindSegment(row);
      const std::int64_t position = segment.first_position + row - segment.first_row;
      self.kernels_.add(op.input.ape + position % op.cache.ratio * inputs, inputs,
                        op.input.scores.Row(row));
    });
    const std::int64_t width = std::ssize(op.input.norm);
    const std::int64_t pairs = std::ssize(op.input.frequencies);
    const std::int64_t plain = width - 2 * pairs;
    for (const Segment& segment : op.batch.segments) {
      const std::int64_t first_row = segment.first_position / op.cache.ratio;
      const std::int64_t end_row = (segment.first_position + segment.n_tokens) / op.cache.ratio;
      Check(end_row <= op.cache.Capacity(), "Compress: more rows than the cache holds");
      const std::int64_t work = op.cache.Span() * width * kExpWork;
      self.ForItems(
          end_row - first_row, work, [&](std::int64_t first, std::int64_t end, int worker) {
            const std::span<float> angles =
                Piece(self.scratch_.angles, worker, self.team_.n_threads());
            Check(width <= std::ssize(angles), "Compress: more dimensions than Reserve announced");
            std::uint16_t* row =
                Bits(Piece(self.scratch_.row, worker, self.team_.n_threads()).data());
            for (std::int64_t w = first_row + first; w < first_row + end; ++w) {
              if (!op.cache.share.Has(w)) continue;
              const std::int64_t place = op.cache.share.ToPlace(w);
              PoolRow(self.kernels_, op.input, segment, op.cache, w, self.fault_, row);
              self.kernels_.rms_norm(row, Bits(op.input.norm.data()), op.input.norm_eps, width,
                                     row);
              RopeAngles(w * op.cache.ratio, op.input.frequencies, angles.data(),
                         angles.data() + pairs);
              self.kernels_.rotate(row + plain, {angles.data(), angles.data() + pairs, pairs});
              if (packed) {
                self.kernels_.pack_index(row, op.cache.packed_rows.Row(segment.sequence, place));
              } else {
                self.kernels_.pack_key(row, op.cache.rows.layout,
                                       op.cache.rows.Row(segment.sequence, place));
              }
            }
          });
    }
    StoreTail(op.input, op.batch, op.cache);
  }

  void Compute(const AppendWindowOp& op) {
    if (PlainDims(op.cache.rows.layout) % kSimulationGroup != 0) {
      return self.ReferenceBackend::Compute(op);
    }
    for (const Segment& segment : op.batch.segments) {
      const std::int64_t work = op.keys.cols * kElementWork;
      self.ForEach(segment.n_tokens, work, [&](std::int64_t i) {
        std::uint8_t* row = op.cache.Row(segment.sequence, segment.first_position + i);
        if (row != nullptr) {
          self.kernels_.pack_key(Bits(op.keys.Row(segment.first_row + i)), op.cache.rows.layout,
                                 row);
        }
      });
    }
  }

  // Runs after the rows are made, because they read the old tail.
  void StoreTail(const CompressorInput& input, const BatchView& batch,
                 const CompressorCache& cache) {
    for (const Segment& segment : batch.segments) {
      for (std::int64_t i = 0; i < segment.n_tokens; ++i) {
        const std::int64_t position = segment.first_position + i;
        const float* values = input.values.Row(segment.first_row + i);
        const float* scores = input.scores.Row(segment.first_row + i);
        if (i >= segment.n_tokens - cache.tail_slots) {
          cache.Keep(segment.sequence, position, values, scores);
        }
        if (cache.IsBoundary(position)) {
          cache.KeepBoundary(segment.sequence, position, values, scores);
        }
      }
    }
  }
};

bool CpuBackend::ComputeAttention(const Operation& operation) {
  return ComputeBy(AttentionOperations{*this}, operation);
}

}  // namespace fathom::kernels
