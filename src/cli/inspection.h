// Inspection: all properties of a checkpoint that can be found without running it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "chat/profile.h"
#include "checkpoint/expert_formats.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "cli/options/options.h"
#include "model/draft/drafters.h"
#include "model/memory_plan.h"
#include "planning/host_report.h"

namespace fathom::cli {

struct DTypeUse {
  std::int64_t n_tensors = 0;
  std::int64_t bytes = 0;
};

// The number of layers of each kind. Each layer is counted in one of the first three fields and in
// one of the last two.
struct LayerCounts {
  std::int64_t window = 0;     // ratio 0
  std::int64_t ratio_4 = 0;    // compressed, with indexer
  std::int64_t ratio_128 = 0;  // compressed
  std::int64_t hash_routed = 0;
  std::int64_t learned = 0;
};

struct CacheMemory {
  std::int64_t constant = 0;         // bytes of one sequence, whatever its length
  std::int64_t per_1000_tokens = 0;  // bytes that 1,000 tokens of context add
  std::int64_t at_full_context = 0;  // bytes of one sequence of max_position_embeddings
};

// The problems of one part of a checkpoint.
struct ProblemGroup {
  // "files", "config.json", "tensors", "draft head", "values", "generation_config.json",
  // "tokenizer.json", "device", "host"
  std::string subject;
  std::vector<Error> problems;
};

struct Inspection {
  std::filesystem::path directory;
  std::size_t n_files = 0;
  std::map<DType, DTypeUse> dtypes;
  DTypeUse all;
  std::int64_t draft_bytes = 0;  // bytes of all tensors of a draft head
  ProfileDetection profile;
  std::optional<DraftHead> head;  // missing if its tensors contradict each other
  ExpertFormats experts;
  // Missing if config.json is not valid:
  std::optional<ModelConfig> config;
  LayerCounts layers;
  CacheMemory cache;
  // Missing: no plan was requested, or there are problems.
  std::optional<MemoryPlan> device;
  std::optional<HostPrediction> host;

  std::vector<std::string> warnings;
  std::vector<ProblemGroup> problems;  // empty groups are left out
};

// Opens the checkpoint and makes all checks of a command that answers, even after a problem. The
// result contains all problems.
Inspection InspectModel(const std::filesystem::path& directory, const InspectCommand& options);

// Writes text for people: at most 20 problems of each group; others are counted.
std::string DescribeInspection(const Inspection& inspection);
// Writes everything for programs.
std::string InspectionToJson(const Inspection& inspection);

}  // namespace fathom::cli
