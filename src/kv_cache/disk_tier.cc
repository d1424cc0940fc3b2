#include "kv_cache/disk_tier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <list>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "kv_cache/block_file.h"
#include "kv_cache/layout.h"

namespace fathom {
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

struct DiskTier::Impl {
  struct WaitingLoad {
    std::uint64_t id = 0;
    BlockKey key;
    BlockKind kind = BlockKind::kHistory;
    BlockKey parent;
    std::vector<Token> tokens;
    std::span<std::byte> payload;
  };
  struct WaitingStore {
    BlockKey key;
    BlockKind kind = BlockKind::kHistory;
    BlockKey parent;
    std::vector<Token> tokens;
    std::vector<std::byte> payload;
  };

  Impl(BlockDirectory blocks, const DiskTierOptions& options, const DiskTierIdentity& whose,
       std::function<void(const std::string&)> warning)
      : directory(std::move(blocks)),
        max_bytes(options.max_bytes),
        identity(whose),
        warn(std::move(warning)) {}

  BlockFileName FileName(const BlockKey& key, BlockKind kind) const {
    return {.fingerprint = identity.fingerprint, .key = key, .kind = kind};
  }
  std::int64_t PayloadBytes(BlockKind kind) const {
    return kind == BlockKind::kHistory ? identity.history_bytes : identity.window_bytes;
  }
  template <class Waiting>
  BlockDescription Describe(const Waiting& block) const {
    return {.fingerprint = identity.fingerprint,
            .key = block.key,
            .kind = block.kind,
            .parent = block.parent,
            .tokens = block.tokens};
  }

  // Runs in the thread. `lock` holds the mutex before and after, but not while it waits for the
  // disk.
  void Run(const std::stop_token& stop);
  void RunLoad(std::unique_lock<std::mutex>& lock);
  void RunStore(std::unique_lock<std::mutex>& lock);
  bool Load(std::unique_lock<std::mutex>& lock, const WaitingLoad& load);
  void Refuse(std::unique_lock<std::mutex>& lock, const BlockFileName& name, const Error& error);
  // False: another process has stored the block. Errors: as WriteBlockFile and MakeRoom;
  // kUnavailable if the tier is off.
  Result<bool> Store(std::unique_lock<std::mutex>& lock, const WaitingStore& store);
  // Deletes files until `more_bytes` fit. Error: a file cannot be deleted.
  Status MakeRoom(std::unique_lock<std::mutex>& lock, std::int64_t more_bytes);
  // Finds the files that other processes have written and deleted, if there may be enough of them
  // to matter.
  void SeeOthers(std::unique_lock<std::mutex>& lock);
  void TurnOff(std::unique_lock<std::mutex>& lock, const Error& error);

  // Constant after construction.
  const BlockDirectory directory;
  const std::int64_t max_bytes;
  const DiskTierIdentity identity;
  const std::function<void(const std::string&)> warn;

  // Guarded by the mutex. Only the thread removes loads and stores, and it reads the first of each
  // without the mutex: the elements of a list do not move.
  mutable std::mutex mutex;
  BlockFileList files;
  std::list<WaitingLoad> loads;
  std::list<WaitingStore> stores;
  std::unordered_map<BlockFileName, const WaitingStore*, BlockFileNameHash> stores_by_name;
  std::int64_t waiting_bytes = 0;  // bytes of the payloads of `stores`
  std::vector<FinishedLoad> finished;
  DiskTierStats stats;  // without files and bytes
  std::condition_variable_any work_came;
  std::condition_variable work_ended;

  std::int64_t unseen_bytes = 0;  // bytes since the thread last listed the files
  std::jthread thread;            // last: ends before the members that it uses
};

void DiskTier::Impl::Run(const std::stop_token& stop) {
  std::unique_lock lock(mutex);
  for (;;) {
    work_came.wait(lock, stop, [&] { return !loads.empty() || !stores.empty(); });
    if (!loads.empty() && !stop.stop_requested()) {
      RunLoad(lock);
    } else if (!stores.empty()) {
      RunStore(lock);
    } else {
      return;  // nothing left to do: stop was requested
    }
    work_ended.notify_all();
  }
}

void DiskTier::Impl::RunLoad(std::unique_lock<std::mutex>& lock) {
  const WaitingLoad& load = loads.front();
  const bool ok = Load(lock, load);
  stats.loaded += ok ? 1 : 0;
  finished.push_back({.id = load.id, .ok = ok});
  loads.pop_front();
}

bool DiskTier::Impl::Load(std::unique_lock<std::mutex>& lock, const WaitingLoad& load) {
  const BlockFileName name = FileName(load.key, load.kind);
  if (const auto place = stores_by_name.find(name); place != stores_by_name.end()) {
    const WaitingStore& store = *place->second;
    lock.unlock();
    const bool is_same = store.parent == load.parent && store.tokens == load.tokens;
    if (is_same) {
      std::copy(store.payload.begin(), store.payload.end(), load.payload.begin());
    }
    lock.lock();
    return is_same;
  }
  lock.unlock();
  const Status read = ReadBlockFile(directory.FilePath(name), Describe(load), load.payload);
  lock.lock();
  if (read) {
    // Another process may have written the file since the directory was listed.
    files.Use(name, kBlockHeaderBytes + std::ssize(load.payload));
    return true;
  }
  if (read.error().code == ErrorCode::kNotFound) {
    files.Remove(name);
  } else if (read.error().code != ErrorCode::kResourceExhausted) {
    Refuse(lock, name, read.error());
  }
  return false;
}

void DiskTier::Impl::Refuse(std::unique_lock<std::mutex>& lock, const BlockFileName& name,
                            const Error& error) {
  files.Remove(name);
  const std::int64_t n_refused = ++stats.refused;
  lock.unlock();
  if (error.code == ErrorCode::kInvalidData) {
    directory.Delete(name);
  }
  if (IsWorthAWarning(n_refused)) {
    warn(fmt::format("{}: the block is not used and computed again{}", error.message,
                     n_refused == 1 ? "" : fmt::format(" ({} such files so far)", n_refused)));
  }
  lock.lock();
}

void DiskTier::Impl::RunStore(std::unique_lock<std::mutex>& lock) {
  const WaitingStore& store = stores.front();
  const BlockFileName name = FileName(store.key, store.kind);
  const std::int64_t bytes = kBlockHeaderBytes + std::ssize(store.payload);
  const Result<bool> written = Store(lock, store);
  if (written) {
    files.Use(name, bytes);
    stats.stored += *written ? 1 : 0;
    unseen_bytes += *written ? bytes : 0;
  } else {
    ++stats.dropped;
    if (written.error().code == ErrorCode::kIo) {
      TurnOff(lock, written.error());
    }
  }
  waiting_bytes -= std::ssize(store.payload);
  stores_by_name.erase(name);
  stores.pop_front();
}

Result<bool> DiskTier::Impl::Store(std::unique_lock<std::mutex>& lock, const WaitingStore& store) {
  if (!stats.is_on) return MakeError(ErrorCode::kUnavailable, "the tier is off");
  SeeOthers(lock);
  const BlockFileName name = FileName(store.key, store.kind);
  if (Status made = MakeRoom(lock, kBlockHeaderBytes + std::ssize(store.payload)); !made) {
    return Unexpected(made.error());
  }
  lock.unlock();
  directory.MakeFolderFor(name);
  Result<bool> written = WriteBlockFile(directory.TemporaryPath(name), directory.FilePath(name),
                                        Describe(store), store.payload);
  lock.lock();
  return written;
}

void DiskTier::Impl::SeeOthers(std::unique_lock<std::mutex>& lock) {
  constexpr std::int64_t kLooks = 8;
  if (unseen_bytes < max_bytes / kLooks) return;
  unseen_bytes = 0;
  lock.unlock();
  const Result<BlockDirectory::Listing> listing = directory.List();
  lock.lock();
  if (!listing) {
    return;  // a missing directory is reported by the next write
  }
  // In the order known here; new files were written last.
  std::vector<BlockFileName> gone;
  for (const BlockFileList::Entry& known : files.entries()) {
    if (!listing->files.Contains(known.name)) {
      gone.push_back(known.name);
    }
  }
  for (const BlockFileName& name : gone) {
    files.Remove(name);
  }
  for (const BlockFileList::Entry& found : listing->files.entries()) {
    if (!files.Contains(found.name)) {
      files.Use(found.name, found.bytes);
    }
  }
}

Status DiskTier::Impl::MakeRoom(std::unique_lock<std::mutex>& lock, std::int64_t more_bytes) {
  while (files.n_files() > 0 && files.bytes() > max_bytes - more_bytes) {
    const BlockFileName oldest = files.TakeOldest().name;
    lock.unlock();
    const bool is_gone = directory.Delete(oldest);
    const int error = errno;
    lock.lock();
    if (!is_gone) {
      return MakeError(ErrorCode::kIo, "{}: cannot delete: {}", directory.FilePath(oldest),
                       std::strerror(error));
    }
  }
  return {};
}

void DiskTier::Impl::TurnOff(std::unique_lock<std::mutex>& lock, const Error& error) {
  stats.is_on = false;  // waiting blocks are dropped in their turn
  lock.unlock();
  warn(fmt::format("{}; no more blocks are written to disk", error.message));
  lock.lock();
}

Result<std::unique_ptr<DiskTier>> DiskTier::Open(const DiskTierOptions& options,
                                                 const DiskTierIdentity& identity,
                                                 std::function<void(const std::string&)> warn) {
  Result<BlockDirectory> directory = BlockDirectory::Make(options.directory, identity.fingerprint);
  if (!directory) return Unexpected(std::move(directory.error()));
  Result<BlockDirectory::Listing> listing = directory->List();
  if (!listing) return Unexpected(std::move(listing.error()));
  auto impl = std::make_unique<Impl>(std::move(*directory), options, identity, std::move(warn));
  if (listing->n_foreign > 0) {
    impl->warn(fmt::format("{}: {} files or folders are not blocks of Fathom and left alone",
                           listing->a_foreign.string(), listing->n_foreign));
  }
  impl->files = std::move(listing->files);
  std::unique_lock lock(impl->mutex);
  if (const Status made = impl->MakeRoom(lock, 0); !made) {
    impl->TurnOff(lock, made.error());
  }
  lock.unlock();
  impl->thread =
      std::jthread([tier = impl.get()](const std::stop_token& stop) { tier->Run(stop); });
  return std::unique_ptr<DiskTier>(new DiskTier(std::move(impl)));
}

DiskTier::DiskTier(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DiskTier::~DiskTier() = default;

bool DiskTier::Has(const BlockKey& key, BlockKind kind) const {
  const BlockFileName name = impl_->FileName(key, kind);
  const std::lock_guard lock(impl_->mutex);
  return impl_->files.Contains(name) || impl_->stores_by_name.contains(name);
}

void DiskTier::Store(const BlockKey& key, BlockKind kind, const BlockKey& parent,
                     std::span<const Token> tokens, std::span<const std::byte> payload) {
  const std::int64_t bytes = std::ssize(payload);
  Check(bytes == impl_->PayloadBytes(kind), "a payload of another size than the identity says");
  Check(std::ssize(tokens) == kBlockTokens, "the tokens of a block are not one block");
  const BlockFileName name = impl_->FileName(key, kind);
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->files.Contains(name) || impl_->stores_by_name.contains(name)) {
      impl_->files.UseAgain(name);
      return;
    }
    if (!impl_->stats.is_on || bytes > kMostWaitingBytes - impl_->waiting_bytes ||
        kBlockHeaderBytes + bytes > impl_->max_bytes) {
      ++impl_->stats.dropped;
      return;
    }
    impl_->waiting_bytes += bytes;
  }
  // Copied without the mutex and linked in afterwards, so that the thread need not wait for the
  // copy.
  std::list<Impl::WaitingStore> store;
  store.push_back({.key = key,
                   .kind = kind,
                   .parent = parent,
                   .tokens = {tokens.begin(), tokens.end()},
                   .payload = {payload.begin(), payload.end()}});
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stores_by_name[name] = &store.front();
    impl_->stores.splice(impl_->stores.end(), store);
  }
  impl_->work_came.notify_one();
}

void DiskTier::Discard(const BlockKey& key, BlockKind kind) {
  const BlockFileName name = impl_->FileName(key, kind);
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->stores_by_name.contains(name)) return;
    impl_->files.Remove(name);
  }
  impl_->directory.Delete(name);
}

void DiskTier::StartLoad(std::uint64_t id, const BlockKey& key, BlockKind kind,
                         const BlockKey& parent, std::span<const Token> tokens,
                         std::span<std::byte> payload) {
  Check(std::ssize(payload) == impl_->PayloadBytes(kind),
        "a payload of another size than the identity says");
  Check(std::ssize(tokens) == kBlockTokens, "the tokens of a block are not one block");
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->loads.push_back({.id = id,
                            .key = key,
                            .kind = kind,
                            .parent = parent,
                            .tokens = {tokens.begin(), tokens.end()},
                            .payload = payload});
  }
  impl_->work_came.notify_one();
}

void DiskTier::TakeFinished(std::vector<FinishedLoad>& finished) {
  const std::lock_guard lock(impl_->mutex);
  finished.insert(finished.end(), impl_->finished.begin(), impl_->finished.end());
  impl_->finished.clear();
}

void DiskTier::WaitForFinished(std::chrono::milliseconds timeout) {
  std::unique_lock lock(impl_->mutex);
  impl_->work_ended.wait_for(lock, timeout, [&] { return !impl_->finished.empty(); });
}

void DiskTier::Flush() {
  std::unique_lock lock(impl_->mutex);
  impl_->work_ended.wait(lock, [&] { return impl_->stores.empty(); });
}

std::vector<BlockFileName> DiskTier::Names() const {
  std::vector<BlockFileName> names;
  const std::lock_guard lock(impl_->mutex);
  for (const BlockFileList::Entry& entry : impl_->files.entries()) {
    if (entry.name.fingerprint == impl_->identity.fingerprint) {
      names.push_back(entry.name);
    }
  }
  for (const auto& [name, store] : impl_->stores_by_name) {
    names.push_back(name);
  }
  return names;
}

DiskTierStats DiskTier::stats() const {
  const std::lock_guard lock(impl_->mutex);
  DiskTierStats stats = impl_->stats;
  stats.files = impl_->files.n_files();
  stats.bytes = impl_->files.bytes();
  return stats;
}

}  // namespace fathom
