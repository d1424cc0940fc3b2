// SafetensorsIndex: reads model.safetensors.index.json, which names the shard of each tensor.
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

namespace fathom::checkpoint {

struct SafetensorsIndex {
  struct Entry {
    std::string name;  // as in the file
    std::size_t file;  // index in `files`
  };
  std::vector<Entry> entries;
  std::vector<std::string> files;          // ascending, each once, plain names without a directory
  std::optional<std::int64_t> total_size;  // bytes of all tensors; absent in some repacks
};

// Appends every problem to `problems`, beginning with `file_name`; omits entries with a problem.
// nullopt: nothing could be read. The caller must find duplicate names.
std::optional<SafetensorsIndex> ParseSafetensorsIndex(std::string_view json,
                                                      std::string_view file_name,
                                                      std::vector<Error>& problems);

}  // namespace fathom::checkpoint
