#include "checkpoint/safetensors.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/parse_text.h"
#include "base/processors.h"
#include "base/thread_team.h"
#include "checkpoint/problems.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/safetensors_index.h"

namespace fathom::checkpoint {
namespace {

constexpr std::string_view kIndexFile = "model.safetensors.index.json";
constexpr std::string_view kSingleFile = "model.safetensors";

std::string_view WithoutModelPrefix(std::string_view name) {
  constexpr std::string_view kPrefix = "model.";
  return name.substr(0, kPrefix.size()) == kPrefix ? name.substr(kPrefix.size()) : name;
}

// One shard after reading; filled by one thread.
struct ReadShard {
  MappedFile file;
  std::optional<SafetensorsHeader> header;
  std::vector<Error> problems;
};

}  // namespace

// Builds one Checkpoint, step by step. Used only once.
class CheckpointReader {
 public:
  explicit CheckpointReader(const std::filesystem::path& path) : directory_(path) {
    checkpoint_.path_ = path;
  }

  Checkpoint::Inspection Read() {
    const std::optional<SafetensorsIndex> index = FindFiles();
    ReadShards();
    CollectTensors();
    if (index) {
      // If bytes are known to be missing, a wrong sum is no additional information.
      const bool complete = problems_.empty();
      CompareNames(*index);
      if (complete) {
        CompareTotalSize(*index);
      }
    }
    return {std::move(checkpoint_), std::move(problems_)};
  }

 private:
  // Sets directory_ and the names of the shards.
  std::optional<SafetensorsIndex> FindFiles() {
    std::error_code error;
    std::error_code ignored;
    const std::filesystem::path path = directory_;
    if (!std::filesystem::exists(path, error)) {
      problems_.push_back(
          error ? Error{ErrorCode::kIo, fmt::format("{}: {}", path.string(), error.message())}
                : Error{ErrorCode::kNotFound, fmt::format("{}: does not exist", path.string())});
      return std::nullopt;
    }
    if (!std::filesystem::is_directory(path, ignored)) {
      directory_ = path.parent_path();
      file_names_.push_back(path.filename().string());
      return std::nullopt;
    }
    if (std::filesystem::exists(path / kIndexFile, ignored)) return ReadIndex();
    if (std::filesystem::exists(path / kSingleFile, ignored)) {
      file_names_.emplace_back(kSingleFile);
      return std::nullopt;
    }
    problems_.push_back(
        {ErrorCode::kNotFound, fmt::format("{}: expected {} or {}, found neither", path.string(),
                                           kIndexFile, kSingleFile)});
    return std::nullopt;
  }

  std::optional<SafetensorsIndex> ReadIndex() {
    const std::filesystem::path path = directory_ / kIndexFile;
    const Result<std::string> json = ReadFile(path, kMostTableBytes);
    if (!json) {
      problems_.push_back(json.error());
      return std::nullopt;
    }
    std::optional<SafetensorsIndex> index = ParseSafetensorsIndex(*json, path.string(), problems_);
    if (index) {
      file_names_ = index->files;
    }
    return index;
  }

  std::string ShardPath(std::size_t shard) const {
    return (directory_ / file_names_[shard]).string();
  }

  void ReadShards() {
    const auto n_shards = static_cast<std::int64_t>(file_names_.size());
    shards_.resize(file_names_.size());
    // Parsing JSON is the whole cost of opening; more threads gain nothing.
    constexpr std::int64_t kMostThreads = 8;
    const std::int64_t n_threads = std::clamp<std::int64_t>(
        AvailableCores(), 1, std::clamp<std::int64_t>(n_shards, 1, kMostThreads));
    ThreadTeam team(static_cast<int>(n_threads));
    team.For(n_shards, 1, [this](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        ReadOneShard(static_cast<std::size_t>(i));
      }
    });
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      checkpoint_.shards_.push_back(
          {file_names_[i], static_cast<std::int64_t>(shards_[i].file.bytes().size())});
      std::move(shards_[i].problems.begin(), shards_[i].problems.end(),
                std::back_inserter(problems_));
    }
  }

  void ReadOneShard(std::size_t i) {
    ReadShard& shard = shards_[i];
    Result<MappedFile> file = MappedFile::Open(ShardPath(i));
    if (!file) {
      shard.problems.push_back(std::move(file.error()));
      return;
    }
    shard.file = std::move(*file);
    shard.header = ParseSafetensorsFile(shard.file.bytes(), ShardPath(i), shard.problems);
  }

  void CollectTensors() {
    std::size_t n_entries = 0;
    for (const ReadShard& shard : shards_) {
      n_entries += shard.header ? shard.header->entries.size() : 0;
    }
    checkpoint_.tensors_.reserve(n_entries);  // by_name_ contains views into it
    checkpoint_.by_name_.reserve(n_entries);
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      if (shards_[i].header) {
        for (SafetensorsEntry& entry : shards_[i].header->entries) {
          AddTensor(i, entry);
        }
      }
      checkpoint_.files_.push_back(std::move(shards_[i].file));
    }
  }

  void AddTensor(std::size_t shard, SafetensorsEntry& entry) {
    const std::string_view name = WithoutModelPrefix(entry.name);
    if (const std::optional<std::size_t> first = checkpoint_.FindIndex(name)) {
      const std::size_t first_shard = checkpoint_.tensors_[*first].shard;
      AddProblem(problems_, "{}: tensor {} occurs twice{}", ShardPath(shard), Quoted(name),
                 first_shard == shard ? std::string()
                                      : fmt::format(", first in {}", file_names_[first_shard]));
      return;
    }
    if (!entry.valid) {
      broken_.emplace(name);
      return;
    }
    const auto begin = static_cast<std::size_t>(shards_[shard].header->data_offset + entry.begin);
    Checkpoint::Tensor& tensor = checkpoint_.tensors_.emplace_back();
    tensor.name = name;
    tensor.shard = shard;
    tensor.view = {entry.dtype, std::move(entry.shape),
                   shards_[shard].file.bytes().subspan(
                       begin, static_cast<std::size_t>(entry.end - entry.begin))};
    checkpoint_.by_name_.emplace(tensor.name, checkpoint_.tensors_.size() - 1);
  }

  void CompareNames(const SafetensorsIndex& index) {
    const std::string index_path = (directory_ / kIndexFile).string();
    std::vector<bool> named(checkpoint_.tensors_.size());
    for (const SafetensorsIndex::Entry& entry : index.entries) {
      const std::string_view name = WithoutModelPrefix(entry.name);
      const std::optional<std::size_t> found = checkpoint_.FindIndex(name);
      if (!found) {
        // A shard that cannot be read, or a broken tensor, has already been reported.
        if (!shards_[entry.file].header || broken_.contains(std::string(name))) {
          checkpoint_.unread_.emplace(name);
        } else {
          AddProblem(problems_, "{}: has no tensor {}, which {} places there",
                     ShardPath(entry.file), Quoted(name), kIndexFile);
        }
        continue;
      }
      const std::size_t shard = checkpoint_.tensors_[*found].shard;
      if (named[*found]) {
        AddProblem(problems_, "{}: tensor {} occurs twice", index_path, Quoted(name));
      } else if (shard != entry.file) {
        AddProblem(problems_, "{}: tensor {}: expected in {}, found in {}", index_path,
                   Quoted(name), file_names_[entry.file], file_names_[shard]);
      }
      named[*found] = true;
    }
    for (std::size_t i = 0; i < named.size(); ++i) {
      if (!named[i]) {
        AddProblem(problems_, "{}: tensor {} of {} is missing from the index", index_path,
                   Quoted(checkpoint_.tensors_[i].name),
                   file_names_[checkpoint_.tensors_[i].shard]);
      }
    }
  }

  void CompareTotalSize(const SafetensorsIndex& index) {
    if (!index.total_size) return;
    std::int64_t sum = 0;
    for (const Checkpoint::Tensor& tensor : checkpoint_.tensors_) {
      sum += static_cast<std::int64_t>(tensor.view.bytes.size());
    }
    if (sum != *index.total_size) {
      AddProblem(problems_, "{}: metadata.total_size is {}, but the tensors have {} bytes",
                 (directory_ / kIndexFile).string(), *index.total_size, sum);
    }
  }

  Checkpoint checkpoint_;
  std::vector<Error> problems_;
  std::filesystem::path directory_;      // directory of the shards
  std::vector<std::string> file_names_;  // names of the shards, ascending
  std::vector<ReadShard> shards_;        // parallel to file_names_
  std::unordered_set<std::string, SeededHash> broken_;
};

Result<Checkpoint> Checkpoint::Open(const std::filesystem::path& path) {
  Inspection inspection = Inspect(path);
  if (inspection.problems.size() == 1) return Unexpected(std::move(inspection.problems.front()));
  if (!inspection.problems.empty()) {
    return Unexpected(
        SummarizeProblems(fmt::format("the files of {}", path.string()), inspection.problems));
  }
  return std::move(inspection.checkpoint);
}

Checkpoint::Inspection Checkpoint::Inspect(const std::filesystem::path& path) {
  return CheckpointReader(path).Read();
}

std::optional<std::size_t> Checkpoint::FindIndex(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return std::nullopt;
  return found->second;
}

const TensorView* Checkpoint::Find(std::string_view name) const {
  const std::optional<std::size_t> index = FindIndex(name);
  return index ? &tensors_[*index].view : nullptr;
}

std::vector<const Checkpoint::Tensor*> Checkpoint::TensorsByName() const {
  std::vector<const Tensor*> sorted;
  sorted.reserve(tensors_.size());
  for (const Tensor& tensor : tensors_) {
    sorted.push_back(&tensor);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const Tensor* a, const Tensor* b) { return a->name < b->name; });
  return sorted;
}

std::vector<std::span<const std::byte>> Checkpoint::Memory() const {
  std::vector<std::span<const std::byte>> memory;
  for (const MappedFile& file : files_) {
    if (!file.bytes().empty()) {
      memory.push_back(file.bytes());
    }
  }
  return memory;
}

std::optional<Checkpoint::Place> Checkpoint::Locate(const std::byte* address) const {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const std::span<const std::byte> bytes = files_[i].bytes();
    // std::less also orders pointers into different mappings.
    if (!std::less<>()(address, bytes.data()) &&
        std::less<>()(address, bytes.data() + bytes.size())) {
      return Place{.shard = i, .offset = address - bytes.data()};
    }
  }
  return std::nullopt;
}

bool IsAligned(const TensorView& view) {
  return reinterpret_cast<std::uintptr_t>(view.bytes.data()) %
             static_cast<std::uintptr_t>(ElementBytes(view.dtype)) ==
         0;
}

std::optional<std::int64_t> ParseLayer(std::string_view tensor_name) {
  if (!TakePrefix(tensor_name, "layers.")) return std::nullopt;
  return TakeNumber<std::uint32_t>(tensor_name);
}

}  // namespace fathom::checkpoint
