#include "measure/slice/write_slice.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "checkpoint/safetensors_writer.h"
#include "measure/slice/random_values.h"
#include "measure/slice/shapes.h"
#include "measure/slice/tensors.h"
#include "measure/slice/tokenizer_json.h"

namespace fathom::measure {
namespace {

namespace fs = std::filesystem;

// Bytes computed by all threads together, then written. Large enough that starting the threads
// costs nothing.
constexpr std::int64_t kBlockBytes = std::int64_t{8} << 20;
// Bytes that one thread computes at a time: an even share of any block, and a multiple of 4 bytes.
constexpr std::int64_t kPieceBytes = std::int64_t{64} << 10;

struct Shard {
  std::string file;
  std::vector<SliceTensor> tensors;
};

// Begins a new file where one more tensor would exceed the limit. Fills in the summary.
std::vector<Shard> MakeShards(std::vector<std::vector<SliceTensor>> parts,
                              std::int64_t max_shard_bytes, SliceSummary& summary) {
  std::vector<Shard> shards;
  for (std::vector<SliceTensor>& part : parts) {
    shards.emplace_back();
    std::int64_t bytes = 0;
    for (SliceTensor& tensor : part) {
      const std::int64_t more = ByteCount(tensor);
      if (bytes > 0 && bytes + more > max_shard_bytes) {
        shards.emplace_back();
        bytes = 0;
      }
      bytes += more;
      summary.bytes += more;
      ++summary.n_tensors;
      shards.back().tensors.push_back(std::move(tensor));
    }
  }
  summary.n_shards = std::ssize(shards);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    shards[i].file = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  }
  return shards;
}

std::string IndexJson(std::span<const Shard> shards, std::int64_t total_size) {
  std::map<std::string_view, std::string_view> file_of;
  for (const Shard& shard : shards) {
    for (const SliceTensor& tensor : shard.tensors) {
      file_of[tensor.name] = shard.file;
    }
  }
  // Names of tensors and files contain nothing that JSON would escape.
  std::string json = fmt::format(
      "{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n"
      "  \"weight_map\": {{",
      total_size);
  std::string_view separator = "\n";
  for (const auto& [name, file] : file_of) {
    fmt::format_to(std::back_inserter(json), "{}    \"{}\": \"{}\"", separator, name, file);
    separator = ",\n";
  }
  return json + "\n  }\n}\n";
}

// A directory that is being filled. Unless Keep is called, its destructor removes all contents: the
// directory was empty at the start.
class NewDirectory {
 public:
  static Result<NewDirectory> Make(const fs::path& path) {
    NewDirectory directory;
    std::error_code error;
    if (fs::exists(path, error)) {
      const bool empty = fs::is_empty(path, error);
      if (error || !fs::is_directory(path, error)) {
        return MakeError(ErrorCode::kInvalidArgument,
                         "{}: expected an empty directory or none, found a file or a directory "
                         "that cannot be read",
                         path.string());
      }
      if (!empty) {
        return MakeError(ErrorCode::kInvalidArgument,
                         "{}: expected an empty directory or none, found {} in it", path.string(),
                         fs::directory_iterator(path, error)->path().filename().string());
      }
    } else {
      directory.made_ = fs::create_directories(path, error);
      if (error) {
        return MakeError(ErrorCode::kIo, "{}: cannot create the directory: {}", path.string(),
                         error.message());
      }
    }
    directory.path_ = path;
    return directory;
  }
  NewDirectory(NewDirectory&& other) noexcept
      : path_(std::exchange(other.path_, fs::path())), made_(other.made_) {}
  ~NewDirectory() {
    std::error_code ignored;
    if (path_.empty()) return;
    for (const fs::path& file : files_) {
      fs::remove(file, ignored);
    }
    if (made_) {
      fs::remove(path_, ignored);
    }
  }

  // Records that a file of this name will be written.
  fs::path Add(std::string_view name) { return files_.emplace_back(path_ / name); }
  void Keep() { path_.clear(); }

 private:
  NewDirectory() = default;

  fs::path path_;  // empty: nothing to undo
  bool made_ = false;
  std::vector<fs::path> files_;
};

Status WriteText(const fs::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) {
    return MakeError(ErrorCode::kIo, "{}: cannot write: {}", path.string(), std::strerror(errno));
  }
  return {};
}

Status CheckSpace(const fs::path& directory, std::int64_t bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(directory, error);
  if (!error && space.available < static_cast<std::uintmax_t>(bytes)) {
    return MakeError(ErrorCode::kIo, "{}: {} bytes are needed, {} are free", directory.string(),
                     bytes, space.available);
  }
  return {};
}

// Computes the bytes of a shard block by block and appends them to its file.
class ShardFiller {
 public:
  ShardFiller(const RandomValues& values, ThreadTeam& team)
      : values_(values), team_(team), block_(static_cast<std::size_t>(kBlockBytes)) {}

  // written: called with the number of bytes after each block; false stops.
  template <class Written>
  Status Fill(const Shard& shard, SafetensorsWriter& writer, const Written& written) {
    for (const SliceTensor& tensor : shard.tensors) {
      const std::int64_t bytes = ByteCount(tensor);
      for (std::int64_t first = 0; first < bytes;) {
        const std::int64_t count = std::min(kPieceBytes, bytes - first);
        if (block_bytes_ + count > kBlockBytes) {
          if (Status flushed = Flush(writer, written); !flushed) return flushed;
        }
        pieces_.push_back({&tensor, first, block_bytes_, count});
        block_bytes_ += count;
        first += count;
      }
    }
    return Flush(writer, written);
  }

 private:
  struct Piece {
    const SliceTensor* tensor;
    std::int64_t first;  // byte in the tensor
    std::int64_t place;  // byte in the block
    std::int64_t count;
  };

  template <class Written>
  Status Flush(SafetensorsWriter& writer, const Written& written) {
    const std::span<std::byte> block(block_.data(), static_cast<std::size_t>(block_bytes_));
    team_.For(static_cast<std::int64_t>(pieces_.size()), 1,
              [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) {
                  const Piece& piece = pieces_[static_cast<std::size_t>(i)];
                  values_.Fill(*piece.tensor, piece.first,
                               block.subspan(static_cast<std::size_t>(piece.place),
                                             static_cast<std::size_t>(piece.count)));
                }
              });
    if (Status appended = writer.Append(block); !appended) return appended;
    const bool go_on = written(block_bytes_);
    pieces_.clear();
    block_bytes_ = 0;
    if (!go_on) {
      return MakeError(ErrorCode::kIo, "interrupted; nothing was written");
    }
    return {};
  }

  const RandomValues& values_;
  ThreadTeam& team_;
  std::vector<std::byte> block_;
  std::int64_t block_bytes_ = 0;
  std::vector<Piece> pieces_;  // pieces of the block
};

Status WriteShards(std::span<const Shard> shards, const SliceOptions& options,
                   std::int64_t total_bytes, ThreadTeam& team, const SliceProgress& progress,
                   NewDirectory& directory) {
  const RandomValues values(options.seed);
  ShardFiller filler(values, team);
  std::int64_t written = 0;
  for (const Shard& shard : shards) {
    std::vector<SafetensorsWriter::Declaration> declarations;
    for (const SliceTensor& tensor : shard.tensors) {
      declarations.push_back({tensor.name, tensor.dtype, tensor.shape});
    }
    Result<SafetensorsWriter> writer =
        SafetensorsWriter::Create(directory.Add(shard.file), declarations);
    if (!writer) return Unexpected(writer.error());
    const Status filled = filler.Fill(shard, *writer, [&](std::int64_t bytes) {
      written += bytes;
      return !progress || progress(static_cast<double>(written) / static_cast<double>(total_bytes));
    });
    if (!filled) return filled;
    if (Status finished = writer->Finish(); !finished) return finished;
  }
  return {};
}

// Checks the vocabulary against the sizes that the tokenizer supports.
Status CheckVocabulary(std::int64_t vocab_size) {
  if (vocab_size < SmallestVocabulary() || vocab_size > LargestVocabulary()) {
    return MakeError(ErrorCode::kInvalidArgument, "vocab_size: expected {} to {}, found {}",
                     SmallestVocabulary(), LargestVocabulary(), vocab_size);
  }
  return {};
}

}  // namespace

Result<SliceSummary> WriteSlice(const fs::path& path, const SliceOptions& options, ThreadTeam& team,
                                const SliceProgress& progress) {
  const std::string config_json = ConfigJson(options.config);
  const Result<ModelConfig> config = ParseModelConfig(config_json, (path / "config.json").string());
  if (!config) return Unexpected(config.error());
  if (Status fits = CheckVocabulary(config->vocab_size); !fits) return Unexpected(fits.error());

  Result<NewDirectory> directory = NewDirectory::Make(path);
  if (!directory) return Unexpected(directory.error());
  SliceSummary summary;
  const std::vector<Shard> shards =
      MakeShards(SliceParts(*config), options.max_shard_bytes, summary);
  const Status has_space = CheckSpace(path, summary.bytes);
  if (!has_space) return Unexpected(has_space.error());
  const Status written = WriteShards(shards, options, summary.bytes, team, progress, *directory);
  if (!written) return Unexpected(written.error());
  // Writes config.json last: without this file no program takes the directory for a model.
  for (const auto& [name, text] :
       {std::pair("model.safetensors.index.json", IndexJson(shards, summary.bytes)),
        std::pair("tokenizer.json", TokenizerJson(config->vocab_size)),
        std::pair("tokenizer_config.json", TokenizerConfigJson(config->max_position_embeddings)),
        std::pair("generation_config.json", GenerationConfigJson()),
        std::pair("config.json", config_json)}) {
    const Status saved = WriteText(directory->Add(name), text);
    if (!saved) return Unexpected(saved.error());
  }
  directory->Keep();
  return summary;
}

}  // namespace fathom::measure
