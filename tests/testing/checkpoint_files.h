// Checkpoint files for tests: small ones byte by byte, well formed or not, and full-size ones that
// take no disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/tensor.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"

namespace fathom::testing {

struct TensorSpec {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
};
std::int64_t Bytes(const TensorSpec& tensor);

// Any text as a safetensors header, with its length before it and `data` behind it.
std::string SafetensorsBytes(std::string_view header, std::string_view data);
// The header of tensors that lie back to back in this order, padded with blanks to 8 bytes.
std::string SafetensorsHeaderText(std::span<const TensorSpec> tensors);

// These fail the calling test if the file cannot be written.
void WriteFile(const std::filesystem::path& path, std::string_view bytes);
// Tensors of zeros, as a sparse file.
void WriteSafetensors(const std::filesystem::path& path, std::span<const TensorSpec> tensors);
// A single-file checkpoint of zeros in `directory`, opened; empty and a failed test if that goes
// wrong.
Checkpoint OpenZeros(const std::filesystem::path& directory, std::span<const TensorSpec> tensors);
// model.safetensors.index.json: pairs of tensor and file.
void WriteIndex(const std::filesystem::path& directory,
                std::span<const std::pair<std::string, std::string>> weight_map,
                std::int64_t total_size);

enum class NativeHead { kNone, kMtp, kDSpark };
struct NativeOptions {
  NativeHead head = NativeHead::kMtp;
  int n_draft_stages = 1;
  ExpertDType experts = ExpertDType::kFp4;
  DType scales = DType::kF8E8M0;  // of the FP8 matrices: kF8E8M0 or kF32
};
// The tensors of a native checkpoint, one list per shard, generated from the configuration by the
// formulas of docs/spec/checkpoint.md 2 and docs/spec/mtp.md 1.1 and 2.2.
std::vector<std::vector<TensorSpec>> NativeShards(const ModelConfig& config,
                                                  const NativeOptions& options);

// A complete checkpoint of true names, types, shapes and file sizes; the weights are zeros and take
// no disk. `config_json` must be a valid configuration: it becomes config.json.
void WriteSparseCheckpoint(const std::filesystem::path& directory, std::string_view config_json,
                           const NativeOptions& options);

}  // namespace fathom::testing
