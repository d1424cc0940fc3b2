// Invariants for any bytes given to the checkpoint reader; shared by the fuzz targets and by the
// test that replays their seeds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/safetensors_index.h"

namespace fathom::fuzz {

inline void CheckHeader(const std::optional<SafetensorsHeader>& header, std::int64_t data_bytes,
                        const std::vector<Error>& problems) {
  Check(header.has_value() || !problems.empty(), "a header that cannot be read has a problem");
  if (!header) {
    return;
  }
  std::int64_t covered = 0;
  for (const SafetensorsEntry& entry : header->entries) {
    Check(entry.valid || !problems.empty(), "an invalid tensor has a problem");
    if (!entry.valid) {
      continue;
    }
    Check(entry.begin >= 0 && entry.begin <= entry.end && entry.end <= data_bytes,
          "a tensor lies in its file");
    Check(ElementCount(entry.shape).value_or(-1) * ElementBytes(entry.dtype) ==
              entry.end - entry.begin,
          "a tensor has the bytes of its shape");
    Check(!problems.empty() || entry.begin == covered, "tensors lie back to back");
    covered = entry.end;
  }
  Check(!problems.empty() || covered == data_bytes, "tensors cover the file");
}

// input: a whole safetensors file, and also two bytes for the size of the data and a header or an
// index, which saves the fuzzer from finding the length.
inline void SafetensorsInput(std::span<const std::uint8_t> input) {
  std::vector<Error> problems;
  const std::span<const std::byte> file = std::as_bytes(input);
  const std::optional<SafetensorsHeader> whole = ParseSafetensorsFile(file, "file", problems);
  const std::int64_t data_offset = whole ? whole->data_offset : 0;
  CheckHeader(whole, static_cast<std::int64_t>(file.size()) - data_offset, problems);
  if (input.size() < 2) {
    return;
  }
  const std::int64_t data_bytes = input[0] + 256 * input[1];
  const std::string_view json(reinterpret_cast<const char*>(input.data()) + 2, input.size() - 2);
  problems.clear();
  const std::optional<SafetensorsHeader> header =
      ParseSafetensorsHeader(json, data_bytes, "header", problems);
  CheckHeader(header, data_bytes, problems);
  problems.clear();
  const std::optional<SafetensorsIndex> index = ParseSafetensorsIndex(json, "index", problems);
  Check(index.has_value() || !problems.empty(), "an index that cannot be read has a problem");
  if (index) {
    for (const SafetensorsIndex::Entry& entry : index->entries) {
      Check(entry.file < index->files.size(), "an entry names one of the files");
    }
    for (const std::string& name : index->files) {
      Check(name.find('/') == std::string::npos && name != "..", "a shard lies beside its index");
    }
  }
}

inline void ModelConfigInput(std::string_view text) {
  const Result<ModelConfig> config = ParseModelConfig(text, "config.json");
  if (!config) {
    Check(config.error().message.starts_with("config.json: ") ||
              config.error().message.find(" with config.json:\n") != std::string::npos,
          "an error names the file");
    return;
  }
  Check(config->num_attention_heads % config->o_groups == 0, "heads divide into groups");
  Check(config->hidden_size > 0 && config->hidden_size % 128 == 0, "hidden_size is whole blocks");
  Check(static_cast<std::int64_t>(config->compress_ratios.size()) >= config->num_hidden_layers,
        "every layer has a ratio");
  Check(config->rms_norm_eps > 0 && config->hc_eps > 0, "no division by zero");
}

}  // namespace fathom::fuzz
