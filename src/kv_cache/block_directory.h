// BlockDirectory: the paths of the files of blocks, and the order in which to delete them.
//
//   DIR/FINGERPRINT/KK/KEY.history   KK: the first two digits of KEY, so that no folder gets so
//   DIR/FINGERPRINT/KK/KEY.window    large that a file system slows down
//   DIR/FINGERPRINT/partial-KEY.history   while it is written; the same name for all processes
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

namespace fathom::kv_cache {

struct BlockFileName {
  BlockKey fingerprint;
  BlockKey key;
  BlockKind kind = BlockKind::kHistory;
  friend bool operator==(const BlockFileName&, const BlockFileName&) = default;
};

struct BlockFileNameHash {
  std::size_t operator()(const BlockFileName& name) const {
    // Keys are hashes already, and they differ between models.
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
  // Adds the file, or sets its size; it is now the most recently used file.
  void Use(const BlockFileName& name, std::int64_t bytes);
  // Makes the file, if it exists, the most recently used.
  void UseAgain(const BlockFileName& name);
  void Remove(const BlockFileName& name);
  // Removes the least recently used file. The list must not be empty.
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
  // Makes the folder of `fingerprint` with all its parents, and tries to write there. Error: the
  // folder cannot be made or written, for another reason than a full disk.
  static Result<BlockDirectory> Make(const std::filesystem::path& directory,
                                     const BlockKey& fingerprint);

  struct Listing {
    BlockFileList files;              // files of all fingerprints, ordered by their last use
    std::int64_t n_foreign = 0;       // entries that are not ours; we leave them alone
    std::filesystem::path a_foreign;  // a folder that holds such an entry
  };
  // Lists the existing files and removes the remains of interrupted writes. Error: the directory
  // cannot be read.
  Result<Listing> List() const;

  std::string FilePath(const BlockFileName& name) const;
  // Makes the folder of a file of our fingerprint. A failure is reported when the file is written.
  void MakeFolderFor(const BlockFileName& name) const;
  // Returns the path at which any process writes a file of this fingerprint before it is renamed.
  std::string TemporaryPath(const BlockFileName& name) const;
  // Returns true if no file of that name exists any more.
  bool Delete(const BlockFileName& name) const;

  const std::filesystem::path& path() const { return path_; }

 private:
  BlockDirectory(std::filesystem::path path, std::filesystem::path own_folder);

  std::filesystem::path path_;
  std::filesystem::path own_folder_;  // folder of this fingerprint
};

}  // namespace fathom::kv_cache
