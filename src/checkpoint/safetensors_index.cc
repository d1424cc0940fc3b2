#include "checkpoint/safetensors_index.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/git_lfs.h"
#include "checkpoint/json_bytes.h"
#include "checkpoint/problems.h"

namespace fathom::checkpoint {
namespace {

// The format needs two levels; metadata may nest a little further.
constexpr int kMaxIndexDepth = 16;

// Accepts only a file beside the index: otherwise a downloaded file could name any file of the
// machine.
bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

// Receives the events of the JSON parser, whose own stack is on the heap.
class IndexReader {
 public:
  IndexReader(std::string_view file_name, std::vector<Error>& problems)
      : file_name_(file_name), problems_(problems) {}

  std::optional<SafetensorsIndex> Take() {
    if (!has_weight_map_) {
      AddProblem(problems_, "{}: has no weight_map", file_name_);
      return std::nullopt;
    }
    SortFiles();
    return std::move(index_);
  }

  bool null() { return Scalar("null"); }
  bool boolean(bool value) { return Scalar(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) { return Scalar(fmt::to_string(value)); }
  bool number_unsigned(std::uint64_t value) {
    if (IsTotalSize() && value <= std::numeric_limits<std::int64_t>::max()) {
      index_.total_size = static_cast<std::int64_t>(value);
      return true;
    }
    return Scalar(fmt::to_string(value));
  }
  bool number_float(double value, const std::string& text) {
    // Some writers store the sum as 1.5e9; up to 2^53 this is exact.
    if (IsTotalSize() && value >= 0 && value <= 0x1p53 && std::floor(value) == value) {
      index_.total_size = static_cast<std::int64_t>(value);
      return true;
    }
    return Scalar(text);
  }
  bool string(std::string& value) {
    if (depth_ != 2 || !in_weight_map_) return Scalar(Quoted(value));
    if (!IsPlainFileName(value)) {
      AddProblem(problems_,
                 "{}: tensor {}: expected the name of a file in the same directory, found {}",
                 file_name_, Quoted(key_), Quoted(value));
      return true;
    }
    index_.entries.push_back({std::move(key_), FileNumber(value)});
    return true;
  }
  bool binary(std::vector<std::uint8_t>&) { return false; }

  bool start_object(std::size_t) {
    if (depth_ == 1 && key_ == "weight_map") {
      in_weight_map_ = true;
      has_weight_map_ = true;
    } else if (depth_ == 1 && key_ == "metadata") {
      in_metadata_ = true;
    } else if (depth_ > 0) {
      Scalar("an object");
    }
    return Descend();
  }
  bool end_object() { return Ascend(); }
  bool start_array(std::size_t) { return Scalar("a list") && Descend(); }
  bool end_array() { return Ascend(); }
  bool key(std::string& name) {
    if (depth_ <= 2) {
      key_ = std::move(name);
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) {
    AddProblem(problems_, "{}: not valid JSON: byte {}", file_name_, position);
    return false;
  }

 private:
  bool IsTotalSize() const { return depth_ == 2 && in_metadata_ && key_ == "total_size"; }

  bool Descend() {
    if (++depth_ > kMaxIndexDepth) {
      AddProblem(problems_, "{}: nested deeper than {} levels", file_name_, kMaxIndexDepth);
      return false;
    }
    return true;
  }
  bool Ascend() {
    if (--depth_ == 1) {
      in_weight_map_ = false;
      in_metadata_ = false;
    }
    return true;
  }

  // Handles a value of the wrong type where the type matters. Returns false to stop reading.
  bool Scalar(std::string_view found) {
    if (depth_ == 0) {
      AddProblem(problems_, "{}: expected a JSON object, found {}", file_name_, found);
      return false;
    }
    if (depth_ == 1 && (key_ == "weight_map" || key_ == "metadata")) {
      AddProblem(problems_, "{}: {}: expected an object, found {}", file_name_, key_, found);
    } else if (depth_ == 2 && in_weight_map_) {
      AddProblem(problems_, "{}: tensor {}: expected a file name, found {}", file_name_,
                 Quoted(key_), found);
    } else if (IsTotalSize()) {
      AddProblem(problems_, "{}: metadata.total_size: expected a count of bytes, found {}",
                 file_name_, found);
    }
    return true;
  }

  std::size_t FileNumber(const std::string& file) {
    return numbers_.emplace(file, numbers_.size()).first->second;
  }

  // Files are numbered in order of appearance; renumbers them in ascending order of names.
  void SortFiles() {
    std::vector<std::size_t> sorted(numbers_.size());
    for (const auto& [file, number] : numbers_) {
      sorted[number] = index_.files.size();
      index_.files.push_back(file);
    }
    for (SafetensorsIndex::Entry& entry : index_.entries) {
      entry.file = sorted[entry.file];
    }
  }

  const std::string_view file_name_;
  std::vector<Error>& problems_;
  SafetensorsIndex index_;
  std::map<std::string, std::size_t> numbers_;
  std::string key_;  // the last key of level 1 or 2
  int depth_ = 0;    // open objects and lists
  bool in_weight_map_ = false;
  bool in_metadata_ = false;
  bool has_weight_map_ = false;
};

}  // namespace

std::optional<SafetensorsIndex> ParseSafetensorsIndex(std::string_view json,
                                                      std::string_view file_name,
                                                      std::vector<Error>& problems) {
  if (IsGitLfsPointer(json)) {
    AddProblem(problems, "{}: {}", file_name, kGitLfsPointer);
    return std::nullopt;
  }
  if (const std::optional<std::size_t> byte = FindForeignByte(json)) {
    AddProblem(problems, "{}: not valid JSON: byte {}", file_name, *byte);
    return std::nullopt;
  }
  IndexReader reader(file_name, problems);
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &reader)) return std::nullopt;
  return reader.Take();
}

}  // namespace fathom::checkpoint
