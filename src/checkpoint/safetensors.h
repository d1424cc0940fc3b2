// Checkpoint: the tensors of a native DeepSeek-V4 checkpoint, mapped in place
// (docs/spec/checkpoint.md 1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "base/seeded_hash.h"
#include "base/tensor.h"

namespace fathom::checkpoint {

// Owns read-only mappings of all shards; views and pointers into it live as long as the checkpoint
// (a move keeps them valid). Constant after Open: any thread may read it. Opening reads only the
// headers; the pages of a tensor are read from disk at first use.
class Checkpoint {
 public:
  struct Tensor {
    std::string name;  // without a leading "model."
    TensorView view;
    std::size_t shard;  // index in shards()
  };
  struct Shard {
    std::string file;  // without the directory
    std::int64_t bytes;
  };
  struct Inspection;

  // `path`: a directory with model.safetensors.index.json and its shards, or with a single
  // model.safetensors; or one .safetensors file. Checks all files before it fails: the error shows
  // the first 20 problems and counts the others.
  static Result<Checkpoint> Open(const std::filesystem::path& path);

  // Opens the readable files, and returns every problem separately.
  static Inspection Inspect(const std::filesystem::path& path);

  // Makes an empty checkpoint.
  Checkpoint() = default;

  // Returns nullptr if there is no such tensor. Does not allocate.
  const TensorView* Find(std::string_view name) const;
  // Returns the index in tensors().
  std::optional<std::size_t> FindIndex(std::string_view name) const;
  // Returns true if the index names the tensor, but its file or its entry there could not be read,
  // which is a separate problem.
  bool IsUnread(std::string_view name) const { return unread_.contains(std::string(name)); }

  // Returns the tensors in the order of the shards and of the bytes in a shard: reading in this
  // order reads the disk from front to back.
  std::span<const Tensor> tensors() const { return tensors_; }
  // Returns all tensors by ascending name.
  std::vector<const Tensor*> TensorsByName() const;
  // Returns the shards, ascending by file name.
  std::span<const Shard> shards() const { return shards_; }
  // The place of bytes in their shard.
  struct Place {
    std::size_t shard;    // index in shards()
    std::int64_t offset;  // offset of the first byte in the file
  };
  // Returns the place of the byte at this address; nullopt: it is not in a mapped file.
  std::optional<Place> Locate(const std::byte* address) const;

  // Returns the mapped files of all tensors.
  std::vector<std::span<const std::byte>> Memory() const;
  // Returns the argument of Open.
  const std::filesystem::path& path() const { return path_; }

 private:
  friend class CheckpointReader;

  std::filesystem::path path_;
  std::vector<Shard> shards_;
  std::vector<MappedFile> files_;  // parallel to shards_; empty where a shard cannot be mapped
  std::vector<Tensor> tensors_;
  // Keys are views into tensors_.
  std::unordered_map<std::string_view, std::size_t, SeededHash> by_name_;
  std::unordered_set<std::string, SeededHash> unread_;
};

struct Checkpoint::Inspection {
  Checkpoint checkpoint;
  std::vector<Error> problems;
};

// Returns true if the address of the first element is a multiple of its size. The format guarantees
// nothing, and published files contain unaligned tensors (an I64 table after an odd number of scale
// bytes), so this is not a fault of a file: code that uses weights in place must load such elements
// without assuming alignment.
bool IsAligned(const TensorView& view);

// Returns 12 for "layers.12.attn.wkv.weight"; nullopt for a tensor outside the layers.
std::optional<std::int64_t> ParseLayer(std::string_view tensor_name);

}  // namespace fathom::checkpoint
