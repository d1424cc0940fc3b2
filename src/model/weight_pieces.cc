#include "model/weight_pieces.h"

#include <cstddef>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace fathom {
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
    if (which_ != WalkedWeights::kDraft) {
      for (auto& block : weights.layers) {
        Block(block);
      }
    }
    if (weights.draft && which_ != WalkedWeights::kDense) {
      Draft(*weights.draft, std::ssize(weights.norm));
    }
    if (all_) {
      Run(weights.embed.data, weights.embed.rows * weights.embed.cols);
    }
    if (which_ != WalkedWeights::kDraft) {
      HyperConnection(weights.hc_head, kHcHeadRows, std::ssize(weights.norm));
      Vectors(weights.norm);
      Matrices({&weights.head});
    }
  }

 private:
  template <class D>
  void Draft(D& draft, std::int64_t hidden) const {
    for (auto& block : draft.blocks) {
      Block(block);
    }
    for (auto& matrix : draft.matrices) {
      Matrices({&matrix});
    }
    for (auto& vector : draft.vectors) {
      Vectors(vector);
    }
    HyperConnection(draft.hc_head, kHcHeadRows, hidden);
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

  template <class... Spans>
  void Vectors(Spans&... vectors) const {
    const auto one = [&](auto& vector) {
      auto* data = vector.data();
      Run(data, std::ssize(vector));
      if constexpr (!std::is_const_v<std::remove_reference_t<decltype(vector)>>) {
        vector = {data, vector.size()};
      }
    };
    (one(vectors), ...);
  }

  template <class W>
  void Matrices(std::initializer_list<W*> weights) const {
    for (W* const weight : weights) {
      const std::int64_t n_bytes = weight->n * weight->RowBytes();
      Run(weight->scales, std::ssize(weight->ScaleBytes()));
      Run(weight->data, n_bytes);
    }
  }

  template <class RowParallel>
  void Parts(RowParallel& weight) const {
    Matrices({&weight.whole});
    for (auto& part : weight.parts) {
      Matrices({&part});
    }
  }

  template <class Hc>
  void HyperConnection(Hc& hc, std::int64_t rows, std::int64_t hidden) const {
    Run(hc.fn, rows * 4 * hidden);
    Run(hc.base, rows);
    Run(hc.scale, rows == kHcHeadRows ? 1 : 3);
  }

  template <class C>
  void Compressor(C& compressor, int ratio) const {
    Run(compressor.ape, ratio * compressor.wkv.n);
    Matrices({&compressor.wkv, &compressor.wgate});
    Vectors(compressor.norm);
  }

  template <class B>
  void Block(B& block) const {
    const std::int64_t hidden = std::ssize(block.attn_norm);
    HyperConnection(block.hc_attn, kHcBlockRows, hidden);
    HyperConnection(block.hc_ffn, kHcBlockRows, hidden);
    Vectors(block.attn_norm, block.ffn_norm);
    auto& attention = block.attn;
    Matrices({&attention.wq_a, &attention.wq_b, &attention.wkv, &attention.wo_a});
    Parts(attention.wo_b);
    Vectors(attention.q_norm, attention.kv_norm, attention.attn_sink);
    Compressor(attention.compressor, block.ratio);
    Matrices({&attention.indexer.wq_b, &attention.indexer.weights_proj});
    Compressor(attention.indexer.compressor, block.ratio);
    auto& moe = block.ffn;
    Matrices({&moe.gate, &moe.shared_experts.w1, &moe.shared_experts.w3});
    Parts(moe.shared_experts.w2);
    Vectors(moe.bias);
    Run(moe.tid2eid.data, moe.tid2eid.rows * moe.tid2eid.cols);
    for (std::size_t e = 0; all_ && e < moe.experts.size(); ++e) {
      auto& expert = moe.experts[e];
      Matrices({&expert.w1, &expert.w2, &expert.w3});
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

}  // namespace fathom
