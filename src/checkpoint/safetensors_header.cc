#include "checkpoint/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/git_lfs.h"
#include "checkpoint/json_bytes.h"
#include "checkpoint/problems.h"

namespace fathom::checkpoint {
namespace {

// The format needs three levels; unknown keys of a tensor may nest a little further.
constexpr int kMaxHeaderDepth = 16;

// Receives the events of the JSON parser. The parser keeps its own stack on the heap, and the depth
// is limited here, so no input can exhaust the thread's stack.
class HeaderReader {
 public:
  HeaderReader(std::string_view file_name, std::vector<Error>& problems)
      : file_name_(file_name), problems_(problems) {}

  std::vector<SafetensorsEntry> TakeEntries() { return std::move(entries_); }

  bool null() { return (depth_ == 1 && in_metadata_) || Scalar("null"); }
  bool boolean(bool value) { return Scalar(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) { return Scalar(fmt::to_string(value)); }
  bool number_unsigned(std::uint64_t value) {
    if (!in_list_) return Scalar(fmt::to_string(value));
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      Spoil("{}: {} is too large", Name(field_), value);
    }
    list_->push_back(static_cast<std::int64_t>(value));
    return true;
  }
  bool number_float(double, const std::string& text) { return Scalar(text); }
  bool string(std::string& value) {
    if (depth_ == 2 && in_metadata_) return true;
    if (depth_ != 2 || field_ != Field::kDType) return Scalar(Quoted(value));
    if (const std::optional<DType> dtype = DTypeFromName(value)) {
      entries_.back().dtype = *dtype;
    } else {
      Spoil("unknown dtype {}", Quoted(value));
    }
    return true;
  }
  bool binary(std::vector<std::uint8_t>&) { return false; }

  bool start_object(std::size_t) {
    if (depth_ == 1 && !in_metadata_) {
      in_tensor_ = true;
    } else if (in_list_ || (depth_ == 2 && IsList(field_))) {
      Spoil("{}: expected a list of integers, found an object", Name(field_));
    } else if (depth_ == 2 && field_ == Field::kDType) {
      Spoil("dtype: expected text, found an object");
    } else if (depth_ == 2 && in_metadata_) {
      Scalar("an object");
    }
    return Descend();
  }
  bool end_object() {
    --depth_;
    if (depth_ == 1 && in_tensor_) {
      in_tensor_ = false;
      FinishEntry();
    }
    return true;
  }
  bool start_array(std::size_t) {
    if (depth_ == 0) return Scalar("a list");
    if (depth_ == 2 && in_tensor_ && IsList(field_)) {
      in_list_ = true;
      list_ = field_ == Field::kShape ? &entries_.back().shape : &offsets_;
    } else if (in_list_ || depth_ == 1 ||
               (depth_ == 2 && (in_metadata_ || field_ == Field::kDType))) {
      Scalar("a list");
    }
    return Descend();
  }
  bool end_array() {
    --depth_;
    in_list_ = in_list_ && depth_ > 2;
    return true;
  }
  bool key(std::string& name) {
    if (depth_ == 1) {
      in_metadata_ = name == "__metadata__";
      if (in_metadata_ && std::exchange(has_metadata_, true)) {
        AddProblem(problems_, "{}: has __metadata__ twice", file_name_);
      } else if (!in_metadata_) {
        entries_.emplace_back().name = std::move(name);
        entries_.back().valid = true;
        offsets_.clear();
        seen_ = 0;
      }
      field_ = Field::kOther;
    } else if (depth_ == 2 && in_tensor_) {
      BeginField(name);
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) {
    AddProblem(problems_, "{}: the header is not valid JSON: byte {} of it", file_name_, position);
    return false;
  }

 private:
  enum class Field { kOther = 0, kDType = 1, kShape = 2, kOffsets = 4 };

  static std::string_view Name(Field field) {
    switch (field) {
      case Field::kDType:
        return "dtype";
      case Field::kShape:
        return "shape";
      case Field::kOffsets:
        return "data_offsets";
      case Field::kOther:
        break;
    }
    return "value";
  }
  static bool IsList(Field field) { return field == Field::kShape || field == Field::kOffsets; }

  bool Descend() {
    if (++depth_ > kMaxHeaderDepth) {
      AddProblem(problems_, "{}: the header is nested deeper than {} levels", file_name_,
                 kMaxHeaderDepth);
      return false;
    }
    return true;
  }

  void BeginField(std::string_view name) {
    field_ = Field::kOther;
    for (const Field known : {Field::kDType, Field::kShape, Field::kOffsets}) {
      if (name == Name(known)) {
        field_ = known;
      }
    }
    const int bit = static_cast<int>(field_);
    if ((seen_ & bit) != 0) {
      Spoil("has {} twice", name);
    }
    seen_ |= bit;
  }

  // Handles a value where no plain value is allowed, or a value of the wrong type. Returns false to
  // stop reading.
  bool Scalar(std::string_view found) {
    if (depth_ == 0) {
      AddProblem(problems_, "{}: the header is not a JSON object but {}", file_name_, found);
      return false;
    }
    if (in_list_) {
      Spoil("{}: expected integers from 0, found {}", Name(field_), found);
    } else if (depth_ == 1 && in_metadata_) {
      AddProblem(problems_, "{}: __metadata__: expected an object, found {}", file_name_, found);
    } else if (depth_ == 2 && in_metadata_) {
      AddProblem(problems_, "{}: __metadata__: expected texts, found {}", file_name_, found);
    } else if (depth_ == 1) {
      Spoil("expected an object with dtype, shape and data_offsets, found {}", found);
    } else if (depth_ == 2 && in_tensor_ && IsList(field_)) {
      Spoil("{}: expected a list of integers, found {}", Name(field_), found);
    } else if (depth_ == 2 && in_tensor_ && field_ == Field::kDType) {
      Spoil("dtype: expected text, found {}", found);
    }
    return true;
  }

  // Reports only the first problem of the current tensor: further ones mostly follow from it.
  template <class... Args>
  void Spoil(fmt::format_string<Args...> format, Args&&... args) {
    if (entries_.empty() || !entries_.back().valid) return;
    entries_.back().valid = false;
    AddProblem(problems_, "{}: tensor {}: {}", file_name_, Quoted(entries_.back().name),
               fmt::format(format, std::forward<Args>(args)...));
  }

  void FinishEntry() {
    SafetensorsEntry& entry = entries_.back();
    for (const Field known : {Field::kDType, Field::kShape, Field::kOffsets}) {
      if ((seen_ & static_cast<int>(known)) == 0) {
        Spoil("has no {}", Name(known));
      }
    }
    if (offsets_.size() != 2) {
      Spoil("data_offsets: expected 2 integers, found {}", offsets_.size());
    }
    if (!entry.valid) return;
    entry.begin = offsets_[0];
    entry.end = offsets_[1];
    const std::optional<std::int64_t> expected = TensorBytes(entry.dtype, entry.shape);
    if (entry.begin > entry.end) {
      Spoil("data_offsets: begin {} is behind end {}", entry.begin, entry.end);
    } else if (!expected) {
      Spoil("shape {} of {} has more bytes than an integer holds, or a part of a byte",
            ShapeToString(entry.shape), fathom::Name(entry.dtype));
    } else if (*expected != entry.end - entry.begin) {
      Spoil("expected {} bytes for {} {}, found {} (data_offsets [{}, {}])", *expected,
            fathom::Name(entry.dtype), ShapeToString(entry.shape), entry.end - entry.begin,
            entry.begin, entry.end);
    }
  }

  const std::string_view file_name_;
  std::vector<Error>& problems_;
  std::vector<SafetensorsEntry> entries_;
  std::vector<std::int64_t> offsets_;          // data_offsets of the current tensor
  std::vector<std::int64_t>* list_ = nullptr;  // the list to which values are appended
  int depth_ = 0;                              // open objects and lists
  int seen_ = 0;                               // Fields seen in the current tensor
  Field field_ = Field::kOther;                // field of the current tensor
  bool in_metadata_ = false;
  bool has_metadata_ = false;
  bool in_tensor_ = false;
  bool in_list_ = false;  // inside shape or data_offsets
};

// Reports tensors outside the file in one line, because they have one cause.
void CheckEnds(std::vector<SafetensorsEntry>& entries, std::int64_t data_bytes,
               std::string_view file_name, std::vector<Error>& problems) {
  std::int64_t outside = 0;
  const SafetensorsEntry* first = nullptr;
  std::int64_t needed = 0;
  for (SafetensorsEntry& entry : entries) {
    if (entry.valid && entry.end > data_bytes) {
      entry.valid = false;
      first = first == nullptr ? &entry : first;
      needed = std::max(needed, entry.end);
      ++outside;
    }
  }
  if (outside > 0) {
    AddProblem(problems,
               "{}: expected {} bytes behind the header, found {}: truncated, or wrong offsets; {} "
               "tensor(s) reach past the end, first {}",
               file_name, needed, data_bytes, outside, Quoted(first->name));
  }
}

// entries: ascending by begin, all valid.
void CheckLayout(const std::vector<SafetensorsEntry>& entries, std::int64_t data_bytes,
                 std::string_view file_name, std::vector<Error>& problems) {
  std::int64_t covered = 0;
  const SafetensorsEntry* last = nullptr;  // the tensor that ends at `covered`
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin > covered) {
      AddProblem(problems, "{}: {} bytes before tensor {} belong to no tensor (offsets {} to {})",
                 file_name, entry.begin - covered, Quoted(entry.name), covered, entry.begin);
    } else if (entry.begin < covered) {
      AddProblem(problems, "{}: tensors {} [{}, {}] and {} [{}, {}] overlap", file_name,
                 Quoted(last->name), last->begin, last->end, Quoted(entry.name), entry.begin,
                 entry.end);
    }
    if (entry.end > covered || last == nullptr) {
      covered = entry.end;
      last = &entry;
    }
  }
  if (covered < data_bytes) {
    AddProblem(problems, "{}: expected {} bytes behind the header, found {}: {} too many",
               file_name, covered, data_bytes, data_bytes - covered);
  }
}

}  // namespace

std::optional<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json,
                                                        std::int64_t data_bytes,
                                                        std::string_view file_name,
                                                        std::vector<Error>& problems) {
  if (const std::optional<std::size_t> byte = FindForeignByte(json)) {
    AddProblem(problems, "{}: the header is not valid JSON: byte {} of it", file_name, *byte);
    return std::nullopt;
  }
  HeaderReader reader(file_name, problems);
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &reader)) return std::nullopt;
  SafetensorsHeader header;
  header.entries = reader.TakeEntries();
  std::stable_sort(header.entries.begin(), header.entries.end(),
                   [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                     return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
                   });
  // A repeated identical entry counts once, as in other readers of the format.
  const auto last = std::unique(header.entries.begin(), header.entries.end());
  header.entries.erase(last, header.entries.end());
  CheckEnds(header.entries, data_bytes, file_name, problems);
  // A tensor with its own problem leaves a gap, which needs no second line.
  if (std::all_of(header.entries.begin(), header.entries.end(),
                  [](const SafetensorsEntry& entry) { return entry.valid; })) {
    CheckLayout(header.entries, data_bytes, file_name, problems);
  }
  return header;
}

std::optional<SafetensorsHeader> ParseSafetensorsFile(std::span<const std::byte> file,
                                                      std::string_view file_name,
                                                      std::vector<Error>& problems) {
  constexpr std::size_t kLengthBytes = 8;
  if (file.size() < kLengthBytes) {
    AddProblem(problems, "{}: expected a safetensors file of at least 8 bytes, found {}", file_name,
               file.size());
    return std::nullopt;
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (IsGitLfsPointer(text)) {
    AddProblem(problems, "{}: {}", file_name, kGitLfsPointer);
    return std::nullopt;
  }
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | std::to_integer<std::uint64_t>(file[i]);
  }
  if (length > static_cast<std::uint64_t>(kLongestSafetensorsHeader)) {
    AddProblem(problems,
               "{}: expected a header of at most {} bytes, found {}: not a safetensors file?",
               file_name, kLongestSafetensorsHeader, length);
    return std::nullopt;
  }
  const std::size_t available = file.size() - kLengthBytes;
  if (length > available) {
    AddProblem(problems, "{}: expected a header of {} bytes, found {} bytes in the file: truncated",
               file_name, length, available);
    return std::nullopt;
  }
  const std::string_view json(reinterpret_cast<const char*>(file.data()) + kLengthBytes,
                              static_cast<std::size_t>(length));
  std::optional<SafetensorsHeader> header = ParseSafetensorsHeader(
      json, static_cast<std::int64_t>(available - json.size()), file_name, problems);
  if (header) {
    header->data_offset = static_cast<std::int64_t>(kLengthBytes + json.size());
  }
  return header;
}

}  // namespace fathom::checkpoint
