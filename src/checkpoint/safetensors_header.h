// The header of one safetensors file:
//
//   8 bytes          n, little-endian
//   n bytes          JSON: {"name": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]},
//                    ...}
//                    padded with blanks; "__metadata__" has texts, which are not read
//   the rest         the tensors, back to back: no overlap, no hole, nothing after the last one
//
// The JSON is read as a stream of events: a full-size checkpoint has 145,116 tensors, and a tree of
// their headers would cost more than the rest of Open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace fathom::checkpoint {

// The largest header the format allows.
inline constexpr std::int64_t kLongestSafetensorsHeader = 100'000'000;

struct SafetensorsEntry {
  std::string name;  // as in the file
  DType dtype = DType::kU8;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;  // offset from the end of the header; begin <= end
  std::int64_t end = 0;
  // True: inside the file, and end - begin == shape x dtype. False: a problem has been reported,
  // and only the name may be used.
  bool valid = false;

  friend bool operator==(const SafetensorsEntry&, const SafetensorsEntry&) = default;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // ascending by begin
  std::int64_t data_offset = 0;           // offset of the first tensor in the file
};

// `json`: the n bytes of the header. data_bytes: the bytes after the header. Appends every problem
// to `problems`, beginning with `file_name`. nullopt: nothing could be read. The caller must find
// duplicate names, because they may be in different files.
std::optional<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json,
                                                        std::int64_t data_bytes,
                                                        std::string_view file_name,
                                                        std::vector<Error>& problems);

// Parses the header of a whole file in memory; reads nothing after the header.
std::optional<SafetensorsHeader> ParseSafetensorsFile(std::span<const std::byte> file,
                                                      std::string_view file_name,
                                                      std::vector<Error>& problems);

}  // namespace fathom::checkpoint
