// BlockDirectory: where the files of blocks lie, and which of them to delete first.
//
//   DIR/FINGERPRINT/KK/KEY.history   KK: the first two digits of KEY, so that no folder gets so
//   DIR/FINGERPRINT/KK/KEY.window    large that a file system slows down
//   DIR/FINGERPRINT/partial-KEY.history   being written; the same name for all processes
//
// FINGERPRINT and KEY are 32 hexadecimal digits in lower case.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <list>
#include <string>
#include <unordered_map>

#include "base/result.h"
#include "kv_cache/block_key.h"

namespace fathom {

struct BlockFileName {
  BlockKey fingerprint;
  BlockKey key;
  BlockKind kind = BlockKind::kHistory;
  friend bool operator==(const BlockFileName&, const BlockFileName&) = default;
};

struct BlockFileNameHash {
  std::size_t operator()(const BlockFileName& name) const {
    // Keys are hashes already and differ between models.
    return BlockKeyHash()(name.key) ^ static_cast<std::size_t>(name.kind);
  }
};

// Files in the order of their last use. One thread at a time.
class BlockFileList {
 public:
  struct Entry {
    BlockFileName name;
    std::int64_t bytes = 0;
  };

  BlockFileList() = default;
  BlockFileList(BlockFileList&&) = default;
  BlockFileList& operator=(BlockFileList&&) = default;

  bool Contains(const BlockFileName& name) const { return places_.contains(name); }
  // Adds the file, or sets its size; it is now the one that was used last.
  void Use(const BlockFileName& name, std::int64_t bytes);
  // Makes the file, if it exists, the most recently used.
  void UseAgain(const BlockFileName& name);
  void Remove(const BlockFileName& name);
  // Removes the file that was not used for the longest time. There must be one.
  Entry TakeOldest();

  const std::list<Entry>& entries() const { return entries_; }  // the oldest first
  std::int64_t n_files() const { return static_cast<std::int64_t>(entries_.size()); }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::list<Entry> entries_;
  std::unordered_map<BlockFileName, std::list<Entry>::iterator, BlockFileNameHash> places_;
  std::int64_t bytes_ = 0;
};

// Knows paths only; copies nothing into memory. Const functions from any thread.
class BlockDirectory {
 public:
  // Makes the folder of `fingerprint` with all above it, and tries to write there. Error: that
  // fails for another reason than a full disk.
  static Result<BlockDirectory> Make(const std::filesystem::path& directory,
                                     const BlockKey& fingerprint);

  struct Listing {
    BlockFileList files;              // files of all fingerprints, by the time of their last use
    std::int64_t n_foreign = 0;       // entries that are not ours: left alone
    std::filesystem::path a_foreign;  // the folder that holds one of them
  };
  // Lists the files there are and removes what interrupted writes left. Error: the directory cannot
  // be read.
  Result<Listing> List() const;

  std::string FilePath(const BlockFileName& name) const;
  // Makes the folder of a file of our fingerprint. A failure shows when the file is written.
  void MakeFolderFor(const BlockFileName& name) const;
  // Returns the path at which any process writes a file of this fingerprint before it is renamed.
  std::string TemporaryPath(const BlockFileName& name) const;
  // True if there is no file of that name any more.
  bool Delete(const BlockFileName& name) const;

  const std::filesystem::path& path() const { return path_; }

 private:
  BlockDirectory(std::filesystem::path path, std::filesystem::path own_folder);

  std::filesystem::path path_;
  std::filesystem::path own_folder_;  // folder of this fingerprint
};

}  // namespace fathom
