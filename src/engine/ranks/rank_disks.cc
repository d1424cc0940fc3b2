#include "engine/ranks/rank_disks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace fathom::engine {
namespace {

using FinishedLoad = DiskTier::FinishedLoad;

// Loads that have ended on a rank and fit into one report; the other loads follow in the next
// report.
struct FinishedPart {
  static constexpr std::int64_t kMost = 64;
  std::int64_t n = 0;
  std::array<std::uint64_t, kMost> ids = {};
  std::array<std::int64_t, kMost> ok = {};
};

// Removes the loads of the next report from the front of `finished`.
FinishedPart TakePart(std::vector<FinishedLoad>& finished) {
  FinishedPart part;
  part.n = std::min(FinishedPart::kMost, std::ssize(finished));
  for (std::size_t i = 0; i < static_cast<std::size_t>(part.n); ++i) {
    part.ids[i] = finished[i].id;
    part.ok[i] = finished[i].ok ? 1 : 0;
  }
  finished.erase(finished.begin(), finished.begin() + part.n);
  return part;
}

void WriteKey(const BlockKey& key, RankMessage& message) {
  const auto halves = std::bit_cast<std::array<std::int64_t, 2>>(key.bytes);
  message.Write(halves[0], halves[1]);
}

BlockKey ReadKey(RankMessage& message) {
  std::array<std::int64_t, 2> halves = {};
  message.Read(halves[0], halves[1]);
  return {std::bit_cast<decltype(BlockKey::bytes)>(halves)};
}

void WriteBlock(const KeptBlock& stored, RankMessage& message) {
  message.Write(stored.data_rank);
  WriteKey(stored.key, message);
  message.Write(stored.kind);
  WriteKey(stored.parent, message);
  message.Write(stored.block);
  message.WriteList(stored.tokens);
}

KeptBlock ReadBlock(RankMessage& message) {
  KeptBlock stored;
  message.Read(stored.data_rank);
  stored.key = ReadKey(message);
  message.Read(stored.kind);
  stored.parent = ReadKey(message);
  message.Read(stored.block);
  message.ReadList(stored.tokens);
  return stored;
}

// A block that a rank has on disk at start.
struct KnownBlock {
  std::int64_t data_rank = -1;  // negative: no block
  BlockKey key;
  std::int64_t kind = 0;
};

// Gathers the block names of all ranks, if there are several data ranks. Collective: returns when
// all ranks have called it.
Result<std::vector<KnownBlock>> GatherNames(const DiskBlocks& mine, Communicator& all) {
  std::vector<KnownBlock> names;
  if (mine.data_ranks().n > 1) {
    for (const BlockFileName& name : mine.Names()) {
      names.push_back({mine.own_rank(), name.key, static_cast<std::int64_t>(name.kind)});
    }
  }
  const Result<std::vector<std::int64_t>> counts =
      all.GatherEach(static_cast<std::int64_t>(names.size()));
  if (!counts) return Unexpected(counts.error());
  names.resize(static_cast<std::size_t>(*std::ranges::max_element(*counts)));
  std::vector<KnownBlock> gathered(names.size() * static_cast<std::size_t>(all.size()));
  const Status told =
      all.AllGather(std::as_bytes(std::span(names)), std::as_writable_bytes(std::span(gathered)));
  if (!told) return Unexpected(told.error());
  return gathered;
}

}  // namespace

Result<std::unique_ptr<LeaderDisks>> LeaderDisks::Open(SequenceCache& cache,
                                                       const DiskTierOptions& options,
                                                       const BlockKey& root,
                                                       std::function<void(const std::string&)> warn,
                                                       Communicator& all, Tell tell,
                                                       OnFailure on_failure) {
  Result<std::unique_ptr<DiskBlocks>> mine =
      DiskBlocks::Open(cache, options, root, std::move(warn));
  if (!mine) return Unexpected(mine.error());
  const Status told = tell([&](RankMessage& message) {
    message.Write(DiskCall::kOpen, options.max_bytes);
    WriteKey(root, message);
    message.WriteList(options.directory.string());
  });
  if (!told) return Unexpected(told.error());
  const Result<std::vector<KnownBlock>> names = GatherNames(**mine, all);
  if (!names) {
    on_failure(names.error());
    return Unexpected(names.error());
  }
  std::vector<Names> known(static_cast<std::size_t>(cache.shape().data.n));
  for (const KnownBlock& name : *names) {
    if (name.data_rank > 0) {
      known[static_cast<std::size_t>(name.data_rank)].insert(
          {.key = name.key, .kind = static_cast<BlockKind>(name.kind)});
    }
  }
  return std::unique_ptr<LeaderDisks>(new LeaderDisks(*std::move(mine), all, std::move(tell),
                                                      std::move(on_failure), std::move(known)));
}

bool LeaderDisks::Has(int data_rank, const BlockKey& key, BlockKind kind) const {
  return mine_->Has(data_rank, key, kind) ||
         known_[static_cast<std::size_t>(data_rank)].contains({.key = key, .kind = kind});
}

bool LeaderDisks::Succeeded(const Status& status) {
  if (!status) {
    failed_ = true;
    on_failure_(status.error());
  }
  return !failed_;
}

bool LeaderDisks::SendToAll(DiskCall call, const std::function<void(RankMessage&)>& add) {
  return !failed_ && Succeeded(tell_([&](RankMessage& message) {
    message.Write(call);
    if (add) {
      add(message);
    }
  }));
}

void LeaderDisks::Store(const KeptBlock& stored) {
  if (!SendToAll(DiskCall::kStore, [&](RankMessage& message) { WriteBlock(stored, message); })) {
    return;
  }
  mine_->Store(stored);
  if (stored.data_rank != mine_->own_rank()) {
    known_[static_cast<std::size_t>(stored.data_rank)].insert(
        {.key = stored.key, .kind = stored.kind});
  }
}

void LeaderDisks::StartLoad(std::uint64_t id, const KeptBlock& stored) {
  const bool is_mine = stored.data_rank == mine_->own_rank();
  loads_[id] = {
      .data_rank = stored.data_rank, .key = stored.key, .kind = stored.kind, .ended = !is_mine};
  SendToAll(DiskCall::kLoad, [&](RankMessage& message) {
    message.Write(id);
    WriteBlock(stored, message);
  });
  if (is_mine) {
    mine_->StartLoad(id, stored);
  }
}

// Ends a load when every rank of its data rank has ended it. If ranks are gone, a load fails when
// this rank has ended it.
void LeaderDisks::TakeFinished(std::vector<FinishedLoad>& finished) {
  if (loads_.empty()) return;
  mine_->TakeFinished(mine_finished_);
  const FinishedPart mine = TakePart(mine_finished_);
  std::vector<FinishedPart> parts = {mine};
  if (SendToAll(DiskCall::kFinished)) {
    if (Result<std::vector<FinishedPart>> all = all_.GatherEach(mine);
        Succeeded(all ? Status() : Unexpected(all.error()))) {
      parts = *std::move(all);
    }
  }
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(parts[rank].n); ++i) {
      const auto load = loads_.find(parts[rank].ids[i]);
      Check(load != loads_.end(), "the finished load was started");
      load->second.n_ended += 1;
      load->second.ended = load->second.ended || rank == 0;
      load->second.ok = load->second.ok && parts[rank].ok[i] != 0;
    }
  }
  const int n_parts = all_.size() / static_cast<int>(known_.size());
  std::erase_if(loads_, [&](const auto& entry) {
    const auto& [id, load] = entry;
    const bool has_ended = failed_ ? load.ended : load.n_ended == n_parts;
    if (has_ended) {
      finished.push_back({.id = id, .ok = load.ok && !failed_});
      Discard(load);
    }
    return has_ended;
  });
}

// Deletes a block on all ranks if one rank cannot load it, so that all ranks store it again.
void LeaderDisks::Discard(const Loading& load) {
  const auto add = [&](RankMessage& message) {
    message.Write(load.data_rank);
    WriteKey(load.key, message);
    message.Write(load.kind);
  };
  if (load.ok || !SendToAll(DiskCall::kDiscard, add)) return;
  if (load.data_rank == mine_->own_rank()) {
    mine_->Discard(load.key, load.kind);
  } else {
    known_[static_cast<std::size_t>(load.data_rank)].erase({.key = load.key, .kind = load.kind});
  }
}

// Waits for the local disk only a moment, because another rank may be slower.
void LeaderDisks::WaitForFinished(std::chrono::milliseconds timeout) {
  mine_->WaitForFinished(timeout);
}

void LeaderDisks::Flush() {
  const bool told = SendToAll(DiskCall::kFlush);
  mine_->Flush();
  if (told) {
    Succeeded(all_.Barrier());
  }
}

Status FollowerDisk::Open(RankMessage& message) {
  DiskTierOptions options;
  options.max_bytes = message.Read();
  const BlockKey root = ReadKey(message);
  std::string path;
  message.ReadList(path);
  options.directory = path;
  Result<std::unique_ptr<DiskBlocks>> mine = DiskBlocks::Open(cache_, options, root, warn_);
  if (!mine) return Unexpected(mine.error());
  mine_ = *std::move(mine);
  const Result<std::vector<KnownBlock>> names = GatherNames(*mine_, all_);
  return names ? Status() : Unexpected(names.error());
}

Status FollowerDisk::Run(RankMessage& message) {
  const auto call = static_cast<DiskCall>(message.Read());
  if (call == DiskCall::kOpen) return Open(message);
  if (mine_ == nullptr) {
    return MakeError(ErrorCode::kInvalidData,
                     "message of rank 0: expected kOpen before other disk calls, found call {}",
                     static_cast<std::int64_t>(call));
  }
  switch (call) {
    case DiskCall::kStore:
      mine_->Store(ReadBlock(message));
      return {};
    case DiskCall::kLoad: {
      const auto id = static_cast<std::uint64_t>(message.Read());
      const KeptBlock stored = ReadBlock(message);
      if (stored.data_rank == mine_->own_rank()) {
        mine_->StartLoad(id, stored);
      }
      return {};
    }
    case DiskCall::kFinished: {
      mine_->TakeFinished(finished_);
      const Result<std::vector<FinishedPart>> all = all_.GatherEach(TakePart(finished_));
      return all ? Status() : Unexpected(all.error());
    }
    case DiskCall::kDiscard: {
      const bool is_mine = message.Read() == mine_->own_rank();
      const BlockKey key = ReadKey(message);
      const auto kind = static_cast<BlockKind>(message.Read());
      if (is_mine) {
        mine_->Discard(key, kind);
      }
      return {};
    }
    case DiskCall::kFlush:
      mine_->Flush();
      return all_.Barrier();
    case DiskCall::kOpen:
      break;
  }
  return MakeError(ErrorCode::kInvalidData,
                   "message of rank 0: expected a disk call, found call {}",
                   static_cast<std::int64_t>(call));
}

}  // namespace fathom::engine
