#include "kv_cache/disk_tier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "kv_cache/block_file.h"
#include "kv_cache/layout.h"

namespace fathom::kv_cache {
namespace {

// Limits the warnings: a thousand damaged files are not worth a thousand warnings.
bool IsWorthAWarning(std::int64_t n_refused) {
  constexpr std::int64_t kEach = 3;
  std::int64_t power = 1;
  while (power < n_refused) {
    power *= 10;
  }
  return n_refused <= kEach || n_refused == power;
}

}  // namespace

void DiskTier::Run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_came_.wait(lock, stop, [&] { return !loads_.empty() || !stores_.empty(); });
    if (!loads_.empty() && !stop.stop_requested()) {
      RunLoad(lock);
    } else if (!stores_.empty()) {
      RunStore(lock);
    } else {
      return;  // nothing left to do: stop was requested
    }
    work_ended_.notify_all();
  }
}

void DiskTier::RunLoad(std::unique_lock<std::mutex>& lock) {
  const WaitingLoad& load = loads_.front();
  const bool ok = Load(lock, load);
  stats_.loaded += ok ? 1 : 0;
  finished_.push_back({.id = load.id, .ok = ok});
  loads_.pop_front();
}

bool DiskTier::Load(std::unique_lock<std::mutex>& lock, const WaitingLoad& load) {
  const BlockFileName name = FileName(load.block);
  if (const auto place = stores_by_name_.find(name); place != stores_by_name_.end()) {
    const WaitingStore& store = *place->second;
    lock.unlock();
    const bool is_same =
        store.block.parent == load.block.parent && store.block.tokens == load.block.tokens;
    if (is_same) {
      std::copy(store.payload.begin(), store.payload.end(), load.payload.begin());
    }
    lock.lock();
    return is_same;
  }
  lock.unlock();
  const Status read =
      ReadBlockFile(directory_.FilePath(name), name.fingerprint, load.block, load.payload);
  lock.lock();
  if (read) {
    // Another process may have written the file since the directory was listed.
    files_.Use(name, kBlockHeaderBytes + std::ssize(load.payload));
    return true;
  }
  if (read.error().code == ErrorCode::kNotFound) {
    files_.Remove(name);
  } else if (read.error().code != ErrorCode::kResourceExhausted) {
    Refuse(lock, name, read.error());
  }
  return false;
}

void DiskTier::Refuse(std::unique_lock<std::mutex>& lock, const BlockFileName& name,
                      const Error& error) {
  files_.Remove(name);
  const std::int64_t n_refused = ++stats_.refused;
  lock.unlock();
  if (error.code == ErrorCode::kInvalidData) {
    directory_.Delete(name);
  }
  if (IsWorthAWarning(n_refused)) {
    warn_(fmt::format("{}: the block is not used and computed again{}", error.message,
                      n_refused == 1 ? "" : fmt::format(" ({} such files so far)", n_refused)));
  }
  lock.lock();
}

void DiskTier::RunStore(std::unique_lock<std::mutex>& lock) {
  const WaitingStore& store = stores_.front();
  const BlockFileName name = FileName(store.block);
  const std::int64_t bytes = kBlockHeaderBytes + std::ssize(store.payload);
  const Result<bool> written = Write(lock, store);
  if (written) {
    files_.Use(name, bytes);
    stats_.stored += *written ? 1 : 0;
    unseen_bytes_ += *written ? bytes : 0;
  } else {
    ++stats_.dropped;
    if (written.error().code == ErrorCode::kIo) {
      TurnOff(lock, written.error());
    }
  }
  waiting_bytes_ -= std::ssize(store.payload);
  stores_by_name_.erase(name);
  stores_.pop_front();
}

Result<bool> DiskTier::Write(std::unique_lock<std::mutex>& lock, const WaitingStore& store) {
  if (!stats_.is_on) return MakeError(ErrorCode::kUnavailable, "the tier is off");
  SeeOthers(lock);
  const BlockFileName name = FileName(store.block);
  if (Status made = MakeRoom(lock, kBlockHeaderBytes + std::ssize(store.payload)); !made) {
    return Unexpected(made.error());
  }
  lock.unlock();
  directory_.MakeFolderFor(name);
  Result<bool> written = WriteBlockFile(directory_.TemporaryPath(name), directory_.FilePath(name),
                                        name.fingerprint, store.block, store.payload);
  lock.lock();
  return written;
}

void DiskTier::SeeOthers(std::unique_lock<std::mutex>& lock) {
  constexpr std::int64_t kLooks = 8;
  if (unseen_bytes_ < max_bytes_ / kLooks) return;
  unseen_bytes_ = 0;
  lock.unlock();
  const Result<BlockDirectory::Listing> listing = directory_.List();
  lock.lock();
  if (!listing) {
    return;  // a missing directory is reported by the next write
  }
  // In the order known here; new files were written last.
  std::vector<BlockFileName> gone;
  for (const BlockFileList::Entry& known : files_.entries()) {
    if (!listing->files.Contains(known.name)) {
      gone.push_back(known.name);
    }
  }
  for (const BlockFileName& name : gone) {
    files_.Remove(name);
  }
  for (const BlockFileList::Entry& found : listing->files.entries()) {
    if (!files_.Contains(found.name)) {
      files_.Use(found.name, found.bytes);
    }
  }
}

Status DiskTier::MakeRoom(std::unique_lock<std::mutex>& lock, std::int64_t more_bytes) {
  while (files_.n_files() > 0 && files_.bytes() > max_bytes_ - more_bytes) {
    const BlockFileName oldest = files_.TakeOldest().name;
    lock.unlock();
    const bool is_gone = directory_.Delete(oldest);
    const int error = errno;
    lock.lock();
    if (!is_gone) {
      return MakeError(ErrorCode::kIo, "{}: cannot delete: {}", directory_.FilePath(oldest),
                       std::strerror(error));
    }
  }
  return {};
}

void DiskTier::TurnOff(std::unique_lock<std::mutex>& lock, const Error& error) {
  stats_.is_on = false;  // waiting blocks are dropped in their turn
  lock.unlock();
  warn_(fmt::format("{}; no more blocks are written to disk", error.message));
  lock.lock();
}

Result<std::unique_ptr<DiskTier>> DiskTier::Open(const DiskTierOptions& options,
                                                 const DiskTierIdentity& identity,
                                                 std::function<void(const std::string&)> warn) {
  Result<BlockDirectory> directory = BlockDirectory::Make(options.directory, identity.fingerprint);
  if (!directory) return Unexpected(std::move(directory.error()));
  Result<BlockDirectory::Listing> listing = directory->List();
  if (!listing) return Unexpected(std::move(listing.error()));
  std::unique_ptr<DiskTier> tier(
      new DiskTier(*std::move(directory), options, identity, std::move(warn)));
  if (listing->n_foreign > 0) {
    tier->warn_(fmt::format("{}: {} files or folders are not blocks of Fathom and left alone",
                            listing->a_foreign.string(), listing->n_foreign));
  }
  tier->files_ = std::move(listing->files);
  std::unique_lock lock(tier->mutex_);
  if (const Status made = tier->MakeRoom(lock, 0); !made) {
    tier->TurnOff(lock, made.error());
  }
  lock.unlock();
  tier->thread_ = std::jthread([t = tier.get()](const std::stop_token& stop) { t->Run(stop); });
  return tier;
}

DiskTier::~DiskTier() = default;

void DiskTier::CheckBlock(const KeptBlock& block, std::int64_t payload_bytes) const {
  const bool is_history = block.kind == BlockKind::kHistory;
  Check(payload_bytes == (is_history ? identity_.history_bytes : identity_.window_bytes),
        "a payload of another size than the identity says");
  Check(std::ssize(block.tokens) == kBlockTokens, "the tokens of a block are not one block");
}

bool DiskTier::Has(const BlockKey& key, BlockKind kind) const {
  const BlockFileName name = {identity_.fingerprint, key, kind};
  const std::lock_guard lock(mutex_);
  return files_.Contains(name) || stores_by_name_.contains(name);
}

void DiskTier::Store(const KeptBlock& block, std::span<const std::byte> payload) {
  const std::int64_t bytes = std::ssize(payload);
  CheckBlock(block, bytes);
  const BlockFileName name = FileName(block);
  {
    const std::lock_guard lock(mutex_);
    if (files_.Contains(name) || stores_by_name_.contains(name)) {
      files_.UseAgain(name);
      return;
    }
    if (!stats_.is_on || bytes > kMostWaitingBytes - waiting_bytes_ ||
        kBlockHeaderBytes + bytes > max_bytes_) {
      ++stats_.dropped;
      return;
    }
    waiting_bytes_ += bytes;
  }
  // Copied without the mutex and linked in afterwards, so that the thread need not wait for the
  // copy.
  std::list<WaitingStore> store;
  store.push_back({.block = block, .payload = {payload.begin(), payload.end()}});
  {
    const std::lock_guard lock(mutex_);
    stores_by_name_[name] = &store.front();
    stores_.splice(stores_.end(), store);
  }
  work_came_.notify_one();
}

void DiskTier::Discard(const BlockKey& key, BlockKind kind) {
  const BlockFileName name = {identity_.fingerprint, key, kind};
  {
    const std::lock_guard lock(mutex_);
    if (stores_by_name_.contains(name)) return;
    files_.Remove(name);
  }
  directory_.Delete(name);
}

void DiskTier::StartLoad(std::uint64_t id, const KeptBlock& block, std::span<std::byte> payload) {
  CheckBlock(block, std::ssize(payload));
  {
    const std::lock_guard lock(mutex_);
    loads_.push_back({.id = id, .block = block, .payload = payload});
  }
  work_came_.notify_one();
}

void DiskTier::TakeFinished(std::vector<FinishedLoad>& finished) {
  const std::lock_guard lock(mutex_);
  finished.insert(finished.end(), finished_.begin(), finished_.end());
  finished_.clear();
}

void DiskTier::WaitForFinished(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  work_ended_.wait_for(lock, timeout, [&] { return !finished_.empty(); });
}

void DiskTier::Flush() {
  std::unique_lock lock(mutex_);
  work_ended_.wait(lock, [&] { return stores_.empty(); });
}

std::vector<BlockFileName> DiskTier::Names() const {
  std::vector<BlockFileName> names;
  const std::lock_guard lock(mutex_);
  for (const BlockFileList::Entry& entry : files_.entries()) {
    if (entry.name.fingerprint == identity_.fingerprint) {
      names.push_back(entry.name);
    }
  }
  for (const auto& [name, store] : stores_by_name_) {
    names.push_back(name);
  }
  return names;
}

DiskTierStats DiskTier::stats() const {
  const std::lock_guard lock(mutex_);
  DiskTierStats stats = stats_;
  stats.files = files_.n_files();
  stats.bytes = files_.bytes();
  return stats;
}

}  // namespace fathom::kv_cache
