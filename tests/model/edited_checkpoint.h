// Copies of a checkpoint with some tensors changed.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {

// Owns all tensors of a checkpoint in memory; writes them as one file beside the same config.json.
class EditedCheckpoint {
 public:
  struct Tensor {
    TensorSpec spec;
    std::string bytes;
  };

  // Fails the calling test if the checkpoint cannot be read.
  explicit EditedCheckpoint(const std::filesystem::path& source);

  std::vector<Tensor>& tensors() { return tensors_; }
  // A tensor that the checkpoint has.
  Tensor& Find(std::string_view name);
  void Remove(std::string_view prefix);

  // Writes everything and returns the directory, which lives as long as this object.
  const std::filesystem::path& Write();

 private:
  std::filesystem::path source_;
  std::vector<Tensor> tensors_;
  TemporaryDirectory directory_;
};

}  // namespace fathom::testing
