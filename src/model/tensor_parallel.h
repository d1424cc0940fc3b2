// TensorParallel: the points of a forward pass at which several processes share a model's work.
//
// The base class is one process with the whole model: each call is the plain operation, or nothing.
// distributed/rank_tensor_parallel.h implements the calls for ranks. Every result equals the result
// of one process bit for bit (docs/numerics.md).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"
#include "base/tensor.h"
#include "checkpoint/model_config.h"
#include "kernels/backend.h"
#include "kv_cache/data_ranks.h"
#include "kv_cache/layout.h"
#include "model/token_position.h"
#include "model/weights.h"
#include "model/workspace.h"

namespace fathom::model {

// The share of this process.
struct Stage {
  std::int64_t first_layer = 0;
  std::int64_t end_layer = 0;
  bool is_first = true;    // embeds the tokens
  bool is_last = true;     // has the head and the draft block
  bool is_whole = true;    // has every weight of the model
  DataRanks data;          // assigns the sequences
  int most_in_flight = 1;  // steps whose logits may be awaited together
};

// The inputs of the choice of compressed rows (docs/spec/model.md 6).
struct IndexInput {
  const BatchView& batch;
  const CompressorCache& cache;
  const Activations& a;
  // Writes the queries and head weights of tokens [first, first + n) into rows [0, n) of
  // a.index_packed and a.index_weights.
  std::function<void(std::int64_t first, std::int64_t n)> compute_queries;
};

// Used by one model, by one thread at a time. With several ranks, all call the same functions in
// the same order, and every Status may be the error of a rank that cannot be reached.
class TensorParallel {
 public:
  // The backend must outlive this object.
  TensorParallel(Backend& backend, const Stage& stage) : backend_(backend), stage_(stage) {}
  virtual ~TensorParallel() = default;

  // --- Loading ---
  Backend& backend() const { return backend_; }
  const Stage& stage() const { return stage_; }
  // Returns true if this process has every weight of the model.
  bool is_whole() const { return stage_.is_whole; }
  // Returns true if this process computes the sequence.
  bool IsLocal(std::int32_t sequence) const { return stage_.data.IsOwn(sequence); }
  // Returns how many steps may have logits in flight.
  int most_in_flight() const { return stage_.most_in_flight; }
  // Narrows bound weights to this process's shard.
  virtual void ShardWeights(ModelWeights& /*weights*/) const {}
  // Returns the shape of this process's caches, given the shape for the whole model.
  virtual Result<CacheShape> ShardCache(CacheShape whole) const { return whole; }
  // Returns the memory that this object has allocated.
  virtual std::int64_t bytes() const { return 0; }

  // --- A step ---
  // Writes out [t, c * d]: the embedding of each token, c times. table: this process's rows.
  virtual Status Embed(const BatchView& batch, Matrix<const Bf16> table, const Activations& a,
                       Matrix<Bf16> out);
  // Sets a.streams before the first block of the stage: to the embedding, or to the streams of the
  // stage before.
  virtual Status BeginStreams(const BatchView& batch, Matrix<const Bf16> table,
                              const Activations& a) {
    return Embed(batch, table, a, a.streams);
  }
  // Sends the streams to the next stage.
  virtual Status EndStreams(Matrix<Bf16> /*streams*/) { return {}; }

  // --- A block ---
  // Computes out [t, n] from x [t, columns of this process]: x times a matrix whose sums the ranks
  // share.
  virtual Status RowParallelLinear(Matrix<const Bf16> x, const RowParallelWeight& weight,
                                   Matrix<Bf16> out);
  // Writes a.selected: the compressed rows each query attends to.
  virtual Status ChooseCompressedRows(const IndexInput& input);
  // Computes the attention of the backend; input.selected is a.selected or empty.
  virtual Status Attend(const AttentionInput& input, const BatchView& batch,
                        const LayerCache& cache, const Activations& a, Matrix<Bf16> out);

  // --- The head ---
  // Gathers out [n, d]: rows[i] is a row of a pass with these positions. Before the call, the first
  // rows of out are the local rows, in order; after it, out has all rows.
  virtual Status GatherRows(std::span<const TokenPosition> /*positions*/,
                            std::span<const std::int32_t> /*rows*/, Matrix<Bf16> /*out*/) {
    return {};
  }
  // The four functions below gather logits that several processes share: not called for a process
  // that has the whole model (model/token_choices.h).
  // Returns memory for n rows of this process's logits: [n, its columns of the vocabulary].
  virtual Matrix<float> LocalLogits(std::int64_t n) const { return logits_.Rows(0, n); }
  // Sends the n local rows to the process that needs logits; a slot (0 to most_in_flight() - 1) is
  // in use until FinishLogits.
  virtual Status StartLogits(std::int64_t /*n*/, int /*slot*/) { return {}; }
  // Sends and receives logits without waiting.
  virtual Status PollLogits() { return {}; }
  // Returns n rows [vocabulary], valid until the next call of LocalLogits or FinishLogits; no rows
  // on ranks other than 0.
  virtual Result<Matrix<const float>> FinishLogits(int /*slot*/) { return logits_.Rows(0, 0); }
  // Sets logits [rows, vocabulary], which must stay valid as long as this object.
  void set_logits(Matrix<float> logits) { logits_ = logits; }

 protected:
  Backend& backend_;
  Stage stage_;
  Matrix<float> logits_;
};

}  // namespace fathom::model
