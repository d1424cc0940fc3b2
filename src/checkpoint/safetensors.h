// Checkpoint: the tensors of a native DeepSeek-V4 checkpoint, in place (docs/spec/checkpoint.md 1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "base/tensor.h"

namespace fathom {

// Owns read-only mappings of all shards; views and pointers into it live as long as it does (moving
// it keeps them valid). Constant after Open: any
// thread may read it. Opening reads the headers only; the pages of a tensor come from disk when
// they are first used.
class Checkpoint {
 public:
  struct Tensor {
    std::string name;  // without a leading "model."
    TensorView view;
    std::size_t shard;  // position in shards()
  };
  struct Shard {
    std::string file;  // without the directory
    std::int64_t bytes;
  };
  struct Inspection;

  // `path`: a directory with model.safetensors.index.json and its shards, or with a single
  // model.safetensors; or one .safetensors file. Everything wrong with the files is found before
  // this fails: one error shows the first 20 problems and counts the others.
  static Result<Checkpoint> Open(const std::filesystem::path& path);

  // The same, with every problem on its own and a checkpoint of what can be read in spite of them.
  static Inspection Inspect(const std::filesystem::path& path);

  // An empty checkpoint.
  Checkpoint() = default;

  // nullptr if there is no such tensor. Does not allocate.
  const TensorView* Find(std::string_view name) const;
  // Position in tensors().
  std::optional<std::size_t> IndexOf(std::string_view name) const;

  // In the order of the shards, and within a shard of the bytes: reading them in this order reads
  // the disk from front to back.
  std::span<const Tensor> tensors() const { return tensors_; }
  // The same, by ascending name.
  std::vector<const Tensor*> TensorsByName() const;
  // Ascending by file name.
  std::span<const Shard> shards() const { return shards_; }
  // The files that hold all tensors.
  std::vector<std::span<const std::byte>> Memory() const;
  // What Open was given.
  const std::filesystem::path& path() const { return path_; }

 private:
  friend class CheckpointReader;

  std::filesystem::path path_;
  std::vector<Shard> shards_;
  std::vector<MappedFile> files_;  // parallel to shards_; empty where a shard cannot be mapped
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string_view, std::size_t> by_name_;  // keys point into tensors_
};

struct Checkpoint::Inspection {
  Checkpoint checkpoint;
  std::vector<Error> problems;
};

// Whether the address of the first element is a multiple of its size. The format promises nothing
// and published files contain tensors where it is not (an I64 table behind an odd number of scale
// bytes), so this is no problem of a file: code that uses weights in place must load such elements
// without assuming alignment.
bool IsAligned(const TensorView& view);

}  // namespace fathom
