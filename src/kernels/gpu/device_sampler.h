// DeviceSampler: chooses tokens from rows of logits on a GPU (Backend::ChooseTokens).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "kernels/backend.h"
#include "kernels/gpu/device/sampling.h"
#include "kernels/gpu/driver.h"
#include "kernels/laid_out_buffer.h"
#include "sampling/sampling_row.h"

namespace fathom::kernels {

// The driver must be the driver of the backend passed to Reserve. One thread at a time.
class DeviceSampler {
 public:
  // Returns the bytes that Reserve allocates.
  static std::int64_t BytesFor(std::int64_t max_rows, std::int64_t vocabulary);
  // Makes room for calls of max_rows rows. Error: kOutOfMemory.
  Status Reserve(Backend& backend, std::int64_t max_rows, std::int64_t vocabulary);
  // logits [rows.size(), vocabulary] in memory of the device. Returns the choices [rows.size()] in
  // memory of the device, valid until the next call. `rows` is read before the call returns.
  // Allocates nothing.
  const TokenChoice* Choose(GpuDriver& driver, Matrix<const float> logits,
                            std::span<const SamplingRow> rows);

 private:
  // Has max_rows rows.
  struct Memory {
    Matrix<SamplingRule> rules;
    Matrix<float> changed;
    Matrix<std::uint32_t> keys;
    Matrix<std::uint64_t> weights;
    Matrix<gpu::LogitScan> scans;
    Matrix<std::int32_t> counts;
    Matrix<gpu::Draw> draws;
    Matrix<gpu::KeptTokens> kept;
    Matrix<TokenChoice> choices;
    Matrix<gpu::LogitChange> changes;
  };
  static Memory LayOut(BufferLayout& buffer, std::int64_t rows, std::int64_t vocabulary);
  gpu::SamplingArguments Arguments(Matrix<const float> logits) const;
  // Launches all changes of one kind; `append(row, add)` calls add(change) for each of a row.
  template <class Append>
  void Change(GpuDriver& driver, std::span<const SamplingRow> rows, const Append& append);
  void FlushChanges(GpuDriver& driver);
  void ChangeLogits(GpuDriver& driver, std::span<const SamplingRow> rows);

  LaidOutBuffer<Memory> memory_;
  std::vector<SamplingRule> rules_;        // rules of a call
  std::vector<gpu::LogitChange> changes_;  // changes of the next launch
};

}  // namespace fathom::kernels
