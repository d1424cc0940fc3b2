#include "model/weight_pieces.h"

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "model/model_tensors.h"

namespace fathom::model {
namespace {

// Calls visit(bytes) for every run of bytes of some weights, always in the same order. visit
// returns their new address; for constant weights it must return the present address.
template <class Visit>
class WeightWalk {
 public:
  WeightWalk(const Visit& visit, WalkedWeights which)
      : visit_(visit), which_(which), all_(which == WalkedWeights::kAll) {}

  // W: ModelWeights, constant or not; likewise below.
  template <class W>
  void Walk(W& weights) const {
    const ModelConfig& config = weights.config;
    if (which_ != WalkedWeights::kDraft) {
      for (auto& block : weights.layers) Block(block, config);
    }
    if (weights.draft && which_ != WalkedWeights::kDense) {
      auto& draft = *weights.draft;
      for (auto& block : draft.blocks) Block(block, config);
      for (auto& matrix : draft.matrices) Runs(matrix);
      for (auto& vector : draft.vectors) Runs(vector);
      (*this)(StreamHead(config), draft.hc_head);
    }
    if (which_ != WalkedWeights::kDraft) VisitOutside(weights, config, *this);
  }

  template <class W>
  void operator()(const ModelTensor& tensor, W& weights) const {
    if (all_ || tensor.kind != ModelTensor::Kind::kTable) Runs(weights);
  }
  void operator()(const ModelTensor& tensor, HcWeights& gates) const { Gates(tensor, gates); }
  void operator()(const ModelTensor& tensor, const HcWeights& gates) const { Gates(tensor, gates); }

 private:
  template <class B>
  void Block(B& block, const ModelConfig& config) const {
    VisitBlock(block, config, *this);
    if (!all_) return;
    for (auto& expert : block.ffn.experts) VisitExpert(expert, config, *this);
  }

  // data: const T*.
  template <class Data>
  void Run(Data& data, std::int64_t n_elements) const {
    if (data == nullptr || n_elements == 0) return;
    const std::byte* const now =
        visit_(std::as_bytes(std::span(data, static_cast<std::size_t>(n_elements))));
    if constexpr (!std::is_const_v<Data>) {
      data = reinterpret_cast<Data>(now);
    }
  }

  template <class Hc>
  void Gates(const ModelTensor& tensor, Hc& gates) const {
    Run(gates.fn, tensor.rows * tensor.cols);
    Run(gates.base, tensor.rows);
    Run(gates.scale, tensor.GateScales());
  }

  template <class W>
  void Runs(W& weights) const {
    if constexpr (requires { weights.parts; }) {
      Runs(weights.whole);
      for (auto& part : weights.parts) Runs(part);
    } else if constexpr (requires { weights.scales; }) {
      const std::int64_t n_bytes = weights.n * weights.RowBytes();
      Run(weights.scales, std::ssize(weights.ScaleBytes()));
      Run(weights.data, n_bytes);
    } else if constexpr (requires { weights.rows; }) {
      Run(weights.data, weights.rows * weights.cols);
    } else {
      auto* data = weights.data();
      Run(data, std::ssize(weights));
      if constexpr (!std::is_const_v<W>) weights = {data, weights.size()};
    }
  }

  const Visit& visit_;
  WalkedWeights which_;
  bool all_;
};

}  // namespace

MemoryPieces WeightPieces(const ModelWeights& weights, WalkedWeights which) {
  MemoryPieces pieces;
  const auto add = [&](std::span<const std::byte> bytes) {
    pieces.push_back(bytes);
    return bytes.data();
  };
  WeightWalk(add, which).Walk(weights);
  return pieces;
}

std::int64_t WeightBytes(const ModelWeights& weights) {
  std::int64_t sum = 0;
  for (const std::span<const std::byte> piece : WeightPieces(weights)) {
    sum += std::ssize(piece);
  }
  return sum;
}

void MoveWeights(ModelWeights& weights, WalkedWeights which, const MemoryPieces& places,
                 PageMemory memory) {
  auto place = places.begin();
  const auto next = [&](std::span<const std::byte> bytes) {
    Check(place != places.end() && place->size() == bytes.size(), "a place for every weight");
    return (place++)->data();
  };
  WeightWalk(next, which).Walk(weights);
  if (which == WalkedWeights::kAll) weights.aligned_copies.clear();
  weights.column_copies.clear();
  weights.memory = std::move(memory);
}

Status ImportDenseWeights(ModelWeights& weights, Backend& backend) {
  for (const WalkedWeights which : {WalkedWeights::kDense, WalkedWeights::kDraft}) {
    const MemoryPieces pieces = WeightPieces(weights, which);
    if (pieces.empty()) continue;
    const Result<std::vector<const std::byte*>> imported = backend.Import(pieces);
    if (!imported) return Unexpected(imported.error());
    auto address = imported->begin();
    const auto next = [&](std::span<const std::byte>) { return *address++; };
    WeightWalk(next, which).Walk(weights);
  }
  return {};
}

}  // namespace fathom::model
