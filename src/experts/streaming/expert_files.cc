#include "experts/streaming/expert_files.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "base/integer_math.h"
#include "checkpoint/block_reader.h"
#include "experts/balance/expert_transfer.h"

namespace fathom::experts {
namespace {

std::int64_t BlockAt(std::int64_t offset) { return offset / kReadBlockBytes * kReadBlockBytes; }
std::int64_t BlockBehind(std::int64_t end) {
  return DivideUp(end, kReadBlockBytes) * kReadBlockBytes;
}

// A tensor in its shard.
struct PlacedTensor {
  std::size_t tensor;
  std::size_t file;
  std::int64_t offset;
  std::int64_t end;
};

}  // namespace

Result<ExpertFiles::Expert> ExpertFiles::List(const Checkpoint& checkpoint,
                                              const ExpertWeights& weights) {
  Expert expert;
  expert.tensors.fill(kElsewhere);
  const std::array<std::span<const std::byte>, 6> tensors = DataPieces(weights);
  std::vector<PlacedTensor> pieces;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].empty()) continue;
    const std::optional<Checkpoint::Place> place = checkpoint.Locate(tensors[i].data());
    if (!place) continue;
    pieces.push_back({i, place->shard, place->offset, place->offset + std::ssize(tensors[i])});
  }
  std::ranges::sort(pieces, {}, [](const PlacedTensor& p) { return std::tuple(p.file, p.offset); });
  std::int64_t in_slot = 0;
  for (const PlacedTensor& piece : pieces) {
    FileRange* range = expert.n_ranges == 0 ? nullptr : &expert.all[expert.n_ranges - 1];
    // Blocks that two tensors share, or that touch, are read once.
    if (range == nullptr || range->file != piece.file ||
        BlockAt(piece.offset) > range->offset + range->bytes) {
      if (expert.n_ranges == kMostRanges) {
        return MakeError(ErrorCode::kUnsupported, "expected at most {} byte ranges, found more",
                         kMostRanges);
      }
      range = &expert.all[expert.n_ranges++];
      *range = {.file = piece.file, .offset = BlockAt(piece.offset), .in_slot = in_slot};
    }
    range->n_needed = std::max(range->n_needed, piece.end - range->offset);
    range->bytes = BlockBehind(range->offset + range->n_needed) - range->offset;
    expert.tensors[piece.tensor] = range->in_slot + piece.offset - range->offset;
    in_slot = range->in_slot + range->bytes;
  }
  return expert;
}

Result<ExpertFiles> ExpertFiles::Create(const Checkpoint& checkpoint,
                                        std::span<const std::span<const ExpertWeights>> blocks) {
  ExpertFiles files;
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    for (std::size_t e = 0; e < blocks[block].size(); ++e) {
      Result<Expert> expert = List(checkpoint, blocks[block][e]);
      if (!expert) {
        return MakeError(expert.error().code, "{}: expert {} of block {}: {}",
                         checkpoint.path().string(), e, block, expert.error().message);
      }
      files.experts_.push_back(*std::move(expert));
      files.slot_bytes_ = std::max(files.slot_bytes_, files.SizeInBytes(files.n_keys() - 1));
    }
  }
  return files;
}

std::int64_t ExpertFiles::SizeInBytes(std::size_t key) const {
  std::int64_t bytes = 0;
  for (const FileRange& range : Ranges(key)) bytes += range.bytes;
  return bytes;
}

ExpertWeights ExpertFiles::InSlot(std::size_t key, ExpertWeights expert,
                                  const std::byte* slot) const {
  const std::array<std::int64_t, 6>& tensors = experts_[key].tensors;
  const auto place = [&](const std::byte*& tensor, std::size_t i) {
    if (tensors[i] != kElsewhere) tensor = slot + tensors[i];
  };
  std::size_t i = 0;
  for (Weight* weight : {&expert.w1, &expert.w2, &expert.w3}) {
    place(weight->scales, i++);
    place(weight->data, i++);
  }
  return expert;
}

}  // namespace fathom::experts
