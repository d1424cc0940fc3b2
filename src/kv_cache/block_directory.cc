#include "kv_cache/block_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <random>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kv_cache/block_file.h"

namespace fathom::kv_cache {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporaryPrefix = "partial-";
constexpr int kOwnerOnlyDirectory = 0700;

std::string FormatHex(const BlockKey& key) {
  return fmt::format("{:02x}", fmt::join(key.bytes, ""));
}

bool IsHex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::optional<BlockKey> KeyFromHex(std::string_view text) {
  BlockKey key;
  if (text.size() != 2 * key.bytes.size() || !IsHex(text)) return std::nullopt;
  for (std::size_t i = 0; i < key.bytes.size(); ++i) {
    const char* const digits = text.data() + 2 * i;
    std::from_chars(digits, digits + 2, key.bytes[i], 16);
  }
  return key;
}

std::string_view FileSuffix(BlockKind kind) {
  return kind == BlockKind::kHistory ? ".history" : ".window";
}

// Returns the file `name` in the folder `folder` (KK) of `fingerprint`, if it is the name of a
// block.
std::optional<BlockFileName> ParseFileName(const BlockKey& fingerprint, std::string_view folder,
                                           std::string_view name) {
  const std::size_t dot = std::min(name.find('.'), name.size());
  const std::optional<BlockKey> key = KeyFromHex(name.substr(0, dot));
  if (!key || !name.starts_with(folder)) return std::nullopt;
  for (const BlockKind kind : {BlockKind::kHistory, BlockKind::kWindow}) {
    if (name.substr(dot) == FileSuffix(kind)) {
      return BlockFileName{.fingerprint = fingerprint, .key = *key, .kind = kind};
    }
  }
  return std::nullopt;
}

// Like mkdir -p; only the owner may read the folders.
bool MakeFolders(const fs::path& path) {
  if (::mkdir(path.c_str(), kOwnerOnlyDirectory) == 0 || errno == EEXIST) return true;
  return errno == ENOENT && path.has_parent_path() && path.parent_path() != path &&
         MakeFolders(path.parent_path()) &&
         (::mkdir(path.c_str(), kOwnerOnlyDirectory) == 0 || errno == EEXIST);
}

bool IsFolder(const fs::directory_entry& entry) {
  std::error_code ignored;
  return entry.symlink_status(ignored).type() == fs::file_type::directory;
}

// Calls visit(entry, name) for every entry of a folder, until an error; returns the error.
template <class Visit>
std::error_code ForEachEntry(const fs::path& folder, const Visit& visit) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    visit(*entry, entry->path().filename().string());
  }
  return error;
}

// Gathers the result of List. An unreadable folder below the top is no error: it belongs to another
// user.
class Lister {
 public:
  std::error_code ListTop(const fs::path& top) {
    return ForEachEntry(top, [&](const fs::directory_entry& entry, const std::string& name) {
      const std::optional<BlockKey> fingerprint = KeyFromHex(name);
      if (fingerprint && IsFolder(entry)) {
        ListFingerprint(entry.path(), *fingerprint);
      } else {
        CountForeign(top);
      }
    });
  }

  BlockDirectory::Listing Finish() {
    std::ranges::sort(found_, {}, [](const Found& file) {
      return std::tie(file.seconds, file.nanoseconds, file.name.key, file.name.kind);
    });
    for (const Found& file : found_) {
      listing_.files.Use(file.name, file.bytes);
    }
    return std::move(listing_);
  }

 private:
  struct Found {
    BlockFileName name;
    std::int64_t bytes = 0;
    std::int64_t seconds = 0;
    std::int64_t nanoseconds = 0;
  };

  void ListFingerprint(const fs::path& folder, const BlockKey& fingerprint) {
    ForEachEntry(folder, [&](const fs::directory_entry& entry, const std::string& name) {
      if (name.size() == 2 && IsHex(name) && IsFolder(entry)) {
        ListKeys(entry.path(), fingerprint, name);
      } else if (name.starts_with(kTemporaryPrefix) && !IsFolder(entry)) {
        RemoveIfAbandoned(entry.path().string());
      } else {
        CountForeign(folder);
      }
    });
  }

  void ListKeys(const fs::path& folder, const BlockKey& fingerprint, const std::string& digits) {
    ForEachEntry(folder, [&](const fs::directory_entry& entry, const std::string& text) {
      struct stat info = {};
      if (::lstat(entry.path().c_str(), &info) != 0) {
        return;  // another process has deleted it
      }
      const std::optional<BlockFileName> name = ParseFileName(fingerprint, digits, text);
      if (name && S_ISREG(info.st_mode)) {
        found_.push_back({.name = *name,
                          .bytes = info.st_size,
                          .seconds = info.st_mtim.tv_sec,
                          .nanoseconds = info.st_mtim.tv_nsec});
      } else {
        CountForeign(folder);
      }
    });
  }

  void CountForeign(const fs::path& folder) {
    ++listing_.n_foreign;
    listing_.a_foreign = folder;
  }

  BlockDirectory::Listing listing_;
  std::vector<Found> found_;
};

}  // namespace

void BlockFileList::Use(const BlockFileName& name, std::int64_t bytes) {
  Remove(name);
  places_[name] = entries_.insert(entries_.end(), {name, bytes});
  bytes_ += bytes;
}

void BlockFileList::UseAgain(const BlockFileName& name) {
  if (const auto place = places_.find(name); place != places_.end()) {
    entries_.splice(entries_.end(), entries_, place->second);
  }
}

void BlockFileList::Remove(const BlockFileName& name) {
  if (const auto place = places_.find(name); place != places_.end()) {
    bytes_ -= place->second->bytes;
    entries_.erase(place->second);
    places_.erase(place);
  }
}

BlockFileList::Entry BlockFileList::TakeOldest() {
  Check(!entries_.empty(), "no file to take");
  const Entry oldest = entries_.front();
  Remove(oldest.name);
  return oldest;
}

Result<BlockDirectory> BlockDirectory::Make(const fs::path& directory,
                                            const BlockKey& fingerprint) {
  BlockDirectory made(directory, directory / FormatHex(fingerprint));
  const auto failure = [&](std::string_view what) {
    return MakeError(ErrorCode::kIo, "{}: {}: {}", directory.string(), what, std::strerror(errno));
  };
  if (!MakeFolders(made.own_folder_)) return failure("cannot make a directory for blocks");
  // Permissions do not show that a file system is read only.
  // The process ID is not enough: containers that share the directory use the same IDs.
  std::random_device random;
  const fs::path probe =
      made.own_folder_ / fmt::format("{}{:08x}{:08x}", kTemporaryPrefix, random(), random());
  const int fd =
      ::open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerOnlyDirectory & 0600);
  if (fd >= 0) {
    ::close(fd);
    ::unlink(probe.c_str());
  } else if (errno != ENOSPC && errno != EDQUOT) {
    return failure("cannot write blocks there");
  }
  return made;
}

BlockDirectory::BlockDirectory(fs::path path, fs::path own_folder)
    : path_(std::move(path)), own_folder_(std::move(own_folder)) {}

Result<BlockDirectory::Listing> BlockDirectory::List() const {
  Lister lister;
  if (const std::error_code error = lister.ListTop(path_)) {
    return MakeError(ErrorCode::kIo, "{}: cannot list the blocks: {}", path_.string(),
                     error.message());
  }
  return lister.Finish();
}

std::string BlockDirectory::FilePath(const BlockFileName& name) const {
  const std::string key = FormatHex(name.key);
  return fmt::format("{}/{}/{}/{}{}", path_.string(), FormatHex(name.fingerprint), key.substr(0, 2),
                     key, FileSuffix(name.kind));
}

void BlockDirectory::MakeFolderFor(const BlockFileName& name) const {
  static_cast<void>(::mkdir(fs::path(FilePath(name)).parent_path().c_str(), kOwnerOnlyDirectory));
}

std::string BlockDirectory::TemporaryPath(const BlockFileName& name) const {
  return fmt::format("{}/{}{}{}", own_folder_.string(), kTemporaryPrefix, FormatHex(name.key),
                     FileSuffix(name.kind));
}

bool BlockDirectory::Delete(const BlockFileName& name) const {
  return ::unlink(FilePath(name).c_str()) == 0 || errno == ENOENT;
}

}  // namespace fathom::kv_cache
