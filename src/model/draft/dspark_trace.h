// DSparkTrace: the values of a DSpark drafter, for comparison with goldens of the official code.
#pragma once

#include <span>
#include <vector>

#include "base/check.h"
#include "base/float_types.h"
#include "base/tensor.h"
#include "kernels/backend.h"

namespace fathom::model {

// In host memory; for one process, and blocks of one request at a time. Slow: every call waits for
// the backend.
struct DSparkTrace {
  std::vector<Bf16> main_x;  // [positions, hidden], appended by every forward pass
  // The last block:
  std::vector<Bf16> streams;  // [stages + 1, block, 4 * hidden]: the embedding, then each stage
  std::vector<float> base_logits;  // [drafts, vocabulary]: without the bias
  std::vector<float> logits;       // [drafts, vocabulary]
  std::vector<float> confidences;  // [drafts]

  // Called by the drafter.
  void AddMainX(Backend& backend, Matrix<const Bf16> rows) { Append(backend, rows, main_x); }
  void BeginBlocks(Backend& backend, Matrix<const Bf16> embedded) {
    streams.clear();
    base_logits.clear();
    logits.clear();
    confidences.clear();
    Append(backend, embedded, streams);
  }
  void AddStreams(Backend& backend, Matrix<const Bf16> rows) { Append(backend, rows, streams); }
  void AddBaseLogits(Backend& backend, Matrix<const float> rows) {
    Append(backend, rows, base_logits);
  }
  void AddLogits(Backend& backend, Matrix<const float> rows) { Append(backend, rows, logits); }
  void AddConfidences(std::span<const float> found) {
    confidences.insert(confidences.end(), found.begin(), found.end());
  }

 private:
  template <class T>
  static void Append(Backend& backend, Matrix<const T> rows, std::vector<T>& to) {
    const std::size_t before = to.size();
    to.resize(before + static_cast<std::size_t>(rows.rows * rows.cols));
    backend.Download(std::as_writable_bytes(std::span(to).subspan(before)), rows.data);
    Check(backend.Synchronize().has_value(), "a trace of a backend without faults");
  }
};

}  // namespace fathom::model
