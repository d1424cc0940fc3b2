// model.safetensors.index.json: which shard holds which tensor.
//
//   {"metadata": {"total_size": 17164792}, "weight_map": {"embed.weight": "model-00001-of-...",
//   ...}}
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fathom {

struct SafetensorsIndex {
  struct Entry {
    std::string name;  // as the file has it
    std::size_t file;  // position in `files`
  };
  std::vector<Entry> entries;
  std::vector<std::string> files;          // ascending, each once, plain names without a directory
  std::optional<std::int64_t> total_size;  // bytes of all tensors; absent in some repacks
};

// Every problem is appended to `problems`, beginning with `file_name`; entries with a problem are
// left out. nullopt if nothing could be read. A name that occurs twice is left to the caller.
std::optional<SafetensorsIndex> ParseSafetensorsIndex(std::string_view json,
                                                      std::string_view file_name,
                                                      std::vector<Error>& problems);

}  // namespace fathom
