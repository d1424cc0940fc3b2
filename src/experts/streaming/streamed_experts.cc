#include "experts/streaming/streamed_experts.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "experts/streaming/calibration.h"
#include "model/draft/drafters.h"
#include "model/weight_values.h"

namespace fathom::experts {
namespace {

// A segment with more tokens than a step with drafts can have is a piece of a prompt.
constexpr std::int64_t kMostDecodedTokens = 16;

std::size_t Index(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

Status StreamedExperts::CheckOptions(const Backend& backend, const ModelConfig& config,
                                     const StreamingOptions& options) {
  const std::int64_t fewest = FewestExpertSlots(config.num_experts_per_tok);
  if (options.slots < fewest) {
    return MakeError(ErrorCode::kOutOfMemory,
                     "experts streamed from disk: expected memory for at least {} experts, found "
                     "memory for {}",
                     fewest, options.slots);
  }
  if (!backend.OnHost()) {
    return MakeError(ErrorCode::kUnsupported,
                     "experts streamed from disk: expected the backend cpu, found {}",
                     backend.Name());
  }
  return {};
}

Result<std::unique_ptr<StreamedExperts>> StreamedExperts::Create(Backend& backend,
                                                                 const ModelConfig& config,
                                                                 const Stage& stage,
                                                                 std::int64_t max_tokens,
                                                                 StreamingOptions options) {
  if (Status possible = CheckOptions(backend, config, options); !possible) {
    return Unexpected(possible.error());
  }
  options.slots = std::min(options.slots, NumBlocks(config) * config.n_routed_experts);
  return std::unique_ptr<StreamedExperts>(
      new StreamedExperts(backend, config, stage, max_tokens, std::move(options)));
}

StreamedExperts::StreamedExperts(Backend& backend, const ModelConfig& config, const Stage& stage,
                                 std::int64_t max_tokens, StreamingOptions options)
    : backend_(backend),
      stage_(stage),
      n_layers_(config.num_hidden_layers),
      n_hash_layers_(config.num_hash_layers),
      n_experts_(config.n_routed_experts),
      n_blocks_(NumBlocks(config)),
      experts_per_token_(config.num_experts_per_tok),
      options_(std::move(options)),
      directory_(Index(n_blocks_ * n_experts_), Index(options_.slots)),
      guesses_(options_.guesses, config, directory_, options_.change_guesses),
      is_checked_(Index(n_blocks_ * n_experts_)),
      was_ahead_(Index(options_.slots)),
      hangs_(Index(options_.slots)),
      uses_(Index(n_experts_)),
      is_in_group_(Index(n_experts_)),
      group_ids_(Index(max_tokens * experts_per_token_)),
      wanted_slots_(options_.slots) {
  for (std::vector<std::int32_t>* list : {&wanted_, &missing_}) list->reserve(Index(n_experts_));
  for (std::vector<Waiting>* list : {&waiting_, &group_}) list->reserve(Index(n_experts_));
  ahead_.reserve(Index(options_.slots));
  ended_.reserve(Index(options_.slots));
}

StreamedExperts* StreamedExperts::FindIn(Model& model) {
  return dynamic_cast<StreamedExperts*>(&model.expert_store());
}

StreamedExperts::~StreamedExperts() {
  preparer_.Stop();
  if (counts_.tokens > 0) SaveHeat();
  if (pool_ != nullptr && pool_->queue != nullptr && !pool_->queue->Stop()) {
    static_cast<void>(pool_.release());  // a thread still reads into it
  }
}

MoeWeights& StreamedExperts::Moe(std::int64_t block) const {
  return block < n_layers_ ? weights_->layers[Index(block)].ffn
                           : weights_->draft->blocks[Index(block - n_layers_)].ffn;
}

Status StreamedExperts::Bind(ModelWeights& weights, const BoundWeights& bound) {
  weights_ = &weights;
  if (bound.is_mapped) read_ahead_ = BlockReadAhead(bound.checkpoint, stage_.end_layer);
  n_blocks_ = n_layers_ + (weights.draft ? std::ssize(weights.draft->blocks) : 0);
  // Blocks of other stages have no experts; experts of other ranks have no data.
  const std::vector<ExpertWeights> none(Index(n_experts_));
  const auto experts_of = [&](std::int64_t block) -> const std::vector<ExpertWeights>& {
    return HasBlock(block) ? Moe(block).experts : none;
  };
  std::vector<std::span<const ExpertWeights>> blocks;
  for (std::int64_t block = 0; block < n_blocks_; ++block) blocks.emplace_back(experts_of(block));
  Result<ExpertFiles> files = ExpertFiles::Create(bound.checkpoint, blocks);
  if (!files) return Unexpected(files.error());
  auto pool = std::make_unique<Pool>();
  pool->files = *std::move(files);
  for (std::int64_t block = 0; block < n_blocks_; ++block) {
    std::vector<ExpertWeights>& table = tables_.emplace_back(experts_of(block));
    for (ExpertWeights& expert : table) expert = WithoutData(expert);
  }
  for (std::int64_t block = 0; block < n_blocks_; ++block) {
    sets_.push_back(HasBlock(block) ? backend_.BindExperts(block, tables_[Index(block)])
                                    : ExpertSet{});
  }
  if (Status opened = OpenPool(bound.checkpoint, *pool); !opened) return opened;
  if (Status ready = guesses_.Bind(backend_, *pool->queue); !ready) return ready;
  pool_ = std::move(pool);
  PrepareSlotsBehind(0);
  WarmUp();
  return {};
}

Status StreamedExperts::OpenPool(const Checkpoint& checkpoint, Pool& pool) {
  Result<PageMemory> memory = PageMemory::Allocate(options_.slots * pool.files.slot_bytes());
  if (!memory) return Unexpected(memory.error());
  pool.memory = *std::move(memory);
  // Prepares pages while the disk is measured, when processors have little to do. Otherwise the
  // reading threads would wait for pages in the first steps.
  PagePreparer preparer(pool.memory.bytes());
  Result<OpenedReader> opened = OpenReader(checkpoint, pool.files, options_);
  if (!opened) return Unexpected(opened.error());
  pool.reader = std::move(opened->reader);
  const Calibration& found = opened->found;
  Result<std::unique_ptr<ReadQueue>> queue =
      ReadQueue::Create(*pool.reader, Index(options_.slots), found.n_threads);
  if (!queue) return Unexpected(queue.error());
  pool.queue = *std::move(queue);
  preparer_ = std::move(preparer);
  const std::lock_guard lock(mutex_);
  counts_.slots = options_.slots;
  counts_.slot_bytes = pool.files.slot_bytes();
  counts_.read_threads = found.n_threads;
  counts_.reads_directly = found.direct;
  counts_.measured_bytes_per_second = found.bytes_per_second;
  return {};
}

// A draft pass is part of the step of the last main pass.
void StreamedExperts::BeginPass(ForwardPass& pass) {
  Cancel();
  TakeEnded();
  ReleaseAhead(-1);
  const BatchView& whole = pass.whole;
  guesses_.Allow(allows_guesses_);
  guesses_.BeginPass(pass.kind == Pass::kMain ? whole.n_tokens() : 0);
  pass.is_scan = IsScan();
  pass_ = &pass;
  if (pass.kind == Pass::kDraft) return;
  ResizePool();
  guesses_.KeepReserve();
  directory_.EndStep(std::exchange(step_tokens_, whole.n_tokens()));
  pass.is_scan = std::ranges::any_of(
      whole.segments, [](const Segment& s) { return s.n_tokens > kMostDecodedTokens; });
  {
    const std::lock_guard lock(mutex_);
    counts_.tokens += whole.n_tokens();
    counts_.policy_switches = directory_.race().n_switches();
    counts_.evicts_least_frequent = directory_.race().best() == EvictionPolicy::kLeastFrequent;
    counts_.used_slots = static_cast<std::int64_t>(directory_.n_ready());
  }
  if (Clock::now() - last_save_ >= options_.save_interval) SaveHeat();
  if (options_.prefetch) Prefetch(whole);
}

// Experts that were read ahead for a pass stay until another pass begins.
Status StreamedExperts::BeginBlock(ForwardPass& pass, std::int64_t block) {
  Cancel();
  if (std::exchange(pass_, &pass) != &pass) guesses_.EndStep();  // another pass has run
  read_ahead_.Request(block);
  read_ahead_.Request(block + 1);
  return {};
}

Status StreamedExperts::EndBlock(std::int64_t block) {
  ReleaseAhead(block);
  guesses_.EndBlock(block);
  return {};
}

void StreamedExperts::SetSlots(std::int64_t slots) {
  wanted_slots_ = std::clamp(slots, FewestExpertSlots(experts_per_token_), options_.slots);
}

void StreamedExperts::ResizePool() {
  const std::size_t wanted = Index(wanted_slots_);
  if (directory_.n_slots() == wanted) return;
  directory_.SetReserve(0);
  while (directory_.n_slots() < wanted) directory_.Restore();
  if (directory_.n_slots() > wanted) preparer_.Stop();  // else retired slots get memory again
  while (directory_.n_slots() > wanted) {
    const std::uint32_t slot = directory_.Retire();
    if (slot == SlotDirectory::kNone) break;  // the next step retires the others
    ReleasePages({SlotMemory(slot), Index(files().slot_bytes())});
  }
  const std::lock_guard lock(mutex_);
  counts_.slots = static_cast<std::int64_t>(directory_.n_slots());
}

// --- Reading ahead ---

void StreamedExperts::Prefetch(const BatchView& batch) {
  const std::int64_t end = std::min(n_hash_layers_, stage_.end_layer);
  for (std::int64_t block = stage_.first_layer; block < end && MayReadAhead(); ++block) {
    PrefetchBlock(block, batch);
  }
}

// Half of the pool is left to the running blocks, and a prompt reads ahead no more than keeps the
// disk busy.
bool StreamedExperts::MayReadAhead() const {
  return ahead_.size() < (IsScan() ? MostScanReads() : directory_.n_slots() / 2);
}

void StreamedExperts::PrefetchBlock(std::int64_t block, const BatchView& batch) {
  const MoeWeights& moe = Moe(block);
  std::ranges::fill(uses_, 0);
  for (std::int64_t row = 0; row < batch.n_tokens(); ++row) {
    for (const std::int64_t id : moe.ExpertsOfToken(batch.tokens[Index(row)])) {
      if (id < 0 || id >= n_experts_) continue;  // the kernel reports it
      const auto expert = static_cast<std::int32_t>(id);
      if (Computes(block, batch.positions[Index(row)], expert)) uses_[Index(id)] = 1;
    }
  }
  for (std::int32_t expert = 0; expert < n_experts_ && MayReadAhead(); ++expert) {
    if (uses_[Index(expert)] == 0) continue;
    const std::uint32_t key = ExpertKey(block, expert);
    const bool is_missing = directory_.FindSlot(key) == SlotDirectory::kNone;
    if (is_missing) {
      if (!StartRead(key, ReadUrgency::kAhead)) return;
      was_ahead_[directory_.FindSlot(key)] = 1;
      const std::lock_guard lock(mutex_);
      ++counts_.ahead_experts;
    }
    directory_.Lease(directory_.FindSlot(key));
    ahead_.push_back({block, directory_.FindSlot(key), is_missing});
  }
}

void StreamedExperts::ReleaseAhead(std::int64_t block) {
  std::erase_if(ahead_, [&](const Ahead& ahead) {
    if (block >= 0 && ahead.block != block) return false;
    directory_.Release(ahead.slot, IsScan() && ahead.was_read);
    return true;
  });
}

// --- The running block ---

void StreamedExperts::ListWanted(Matrix<const std::int32_t> ids) {
  std::ranges::fill(uses_, 0);
  for (std::int64_t i = 0; i < ids.rows * ids.cols; ++i) {
    const std::int32_t id = ids.data[i];
    if (id == kRemoteExpert || pass_->failed.HasRow(i / ids.cols)) continue;
    Check(id >= 0 && id < n_experts_, "Acquire: unknown expert");
    ++uses_[Index(id)];
  }
  wanted_.clear();
  for (std::int32_t id = 0; id < n_experts_; ++id) {
    if (uses_[Index(id)] > 0) wanted_.push_back(id);
  }
}

// Preparing the whole pool at the start would take processors from a run that never fills it.
void StreamedExperts::PrepareSlotsBehind(std::uint32_t slot) {
  constexpr std::uint32_t kAhead = 32;
  last_slot_ = std::max(last_slot_, slot);  // slots are first used in the order of their numbers
  preparer_.SetEnd(Index((last_slot_ + kAhead) * files().slot_bytes()));
}

bool StreamedExperts::StartRead(std::uint32_t key, ReadUrgency urgency) {
  const std::uint32_t slot = directory_.Assign(key);
  if (slot == SlotDirectory::kNone) return false;
  SubmitRead(key, slot, urgency);
  return true;
}

void StreamedExperts::SubmitRead(std::uint32_t key, std::uint32_t slot, ReadUrgency urgency) {
  was_ahead_[slot] = 0;
  PrepareSlotsBehind(slot);
  pool_->queue->Submit(slot, pool_->files.Ranges(key), SlotMemory(slot), urgency);
}

std::optional<GuessBuffers> StreamedExperts::BeginGuess(std::int64_t block, std::int64_t t) {
  return pass_->kind == Pass::kMain ? guesses_.Begin(block, t) : std::nullopt;
}

// Other ranks may have some of the experts.
void StreamedExperts::EndGuess() {
  guesses_.End([this](std::uint32_t key) { return !files().Ranges(key).empty(); });
}

bool StreamedExperts::MayStartMissing() const {
  return !missing_.empty() && directory_.n_available() > 0 &&
         (!IsScan() || waiting_.size() < MostScanReads());
}

void StreamedExperts::StartMissing() {
  while (MayStartMissing()) {
    const std::uint32_t key = ExpertKey(block_, missing_.back());
    StartRead(key, ReadUrgency::kDemand);
    const std::uint32_t slot = directory_.FindSlot(key);
    directory_.Lease(slot);
    waiting_.push_back({missing_.back(), slot, /*was_read=*/true});
    missing_.pop_back();
  }
}

Result<ExpertLease> StreamedExperts::Acquire(std::int64_t block, Matrix<std::int32_t> ids) {
  Cancel();
  TakeEnded();
  block_ = block;
  ids_ = ids;
  ListWanted(ids);
  std::int64_t n_hits = 0;
  std::int64_t n_ahead = 0;
  for (const std::int32_t expert : wanted_) {
    const std::uint32_t key = ExpertKey(block, expert);
    directory_.Use(key, uses_[Index(expert)], IsScan());
    const std::uint32_t slot = directory_.FindSlot(key);
    if (slot != SlotDirectory::kNone && hangs_[slot] != 0) {  // a guess ends with its block
      FailExpert(expert, {ErrorCode::kIo, DescribeRead(slot, options_.longest_read)});
      continue;
    }
    const bool was_guessed = guesses_.Use(key);
    if (slot == SlotDirectory::kNone) {
      missing_.push_back(expert);
      continue;
    }
    if (!was_guessed) directory_.Lease(slot);
    const bool was_ahead = std::exchange(was_ahead_[slot], 0) != 0;
    const bool was_read = was_ahead || was_guessed;
    n_ahead += was_ahead ? 1 : 0;
    n_hits += was_read ? 0 : 1;
    if (directory_.IsReady(slot)) {
      group_.push_back({expert, slot, was_read});
    } else {
      pool_->queue->Promote(slot);
      waiting_.push_back({expert, slot, was_read});
    }
  }
  guesses_.AdoptUsed();
  std::ranges::reverse(missing_);
  StartMissing();
  guesses_.StartReads([this](std::uint32_t key, std::uint32_t slot) {
    SubmitRead(key, slot, ReadUrgency::kGuess);
  });
  {
    const std::lock_guard lock(mutex_);
    (IsHashBlock(block) ? counts_.hash_uses : counts_.learned_uses) += std::ssize(wanted_);
    (IsHashBlock(block) ? counts_.hash_hits : counts_.learned_hits) += n_hits;
    counts_.ahead_used += n_ahead;
    counts_.guesses = guesses_.counts();
  }
  return LeaseGroup();  // Await reports whether the step has failed
}

ExpertLease StreamedExperts::LeaseGroup() {
  ExpertLease lease{.experts = sets_[Index(block_)]};
  if (group_.empty()) return lease;
  for (const Waiting& member : group_) {
    const std::uint32_t key = ExpertKey(block_, member.expert);
    tables_[Index(block_)][Index(member.expert)] =
        files().InSlot(key, Moe(block_).experts[Index(member.expert)], SlotMemory(member.slot));
    is_in_group_[Index(member.expert)] = 1;
  }
  for (std::int64_t i = 0; i < ids_.rows * ids_.cols; ++i) {
    const std::int32_t id = ids_.data[i];
    const bool is_used =
        id != kRemoteExpert && is_in_group_[Index(id)] != 0 && !pass_->failed.HasRow(i / ids_.cols);
    group_ids_[Index(i)] = is_used ? id : kRemoteExpert;
  }
  lease.ids = {group_ids_.data(), ids_.rows, ids_.cols};
  return lease;
}

// An expert that is not leased has no data, so that reading it by mistake faults.
void StreamedExperts::ReleaseGroup() {
  for (const Waiting& member : group_) {
    ExpertWeights& expert = tables_[Index(block_)][Index(member.expert)];
    expert = WithoutData(expert);
    is_in_group_[Index(member.expert)] = 0;
    directory_.Release(member.slot, IsScan() && member.was_read);
  }
  group_.clear();
}

Status StreamedExperts::Await(const VisitExperts& visit) {
  for (;;) {
    ReleaseGroup();
    TakeEnded();
    if (pass_->should_stop && pass_->should_stop()) {
      failed_ = MakeError(ErrorCode::kResourceExhausted, "the pass has been stopped");
    }
    StartMissing();
    if (!failed_) break;
    std::erase_if(waiting_, [this](const Waiting& one) {
      if (!directory_.IsReady(one.slot)) return false;
      group_.push_back(one);
      return true;
    });
    if (!group_.empty()) {
      visit(LeaseGroup());
    } else if (waiting_.empty() && missing_.empty()) {
      return {};
    } else {
      WaitForOne();
    }
  }
  Status failed = std::exchange(failed_, {});
  Cancel();
  return failed;
}

bool StreamedExperts::MayGoOn() const {
  if (!failed_ || MayStartMissing() || (waiting_.empty() && missing_.empty())) return true;
  return std::ranges::any_of(waiting_,
                             [this](const Waiting& one) { return directory_.IsReady(one.slot); });
}

// Names the first read that the block waits for.
std::string StreamedExperts::DescribeWait(Clock::duration waited) const {
  if (!waiting_.empty()) return DescribeRead(waiting_.front().slot, waited);
  return fmt::format("storage_error: all {} slots of experts wait for reads for {:.1f} s",
                     directory_.n_slots(), std::chrono::duration<double>(waited).count());
}

std::string StreamedExperts::DescribeRead(std::uint32_t slot, Clock::duration waited) const {
  const FileRange& range = files().Ranges(directory_.KeyAt(slot)).front();
  return fmt::format("storage_error: {}, offset {}: a read has not ended for {:.1f} s",
                     pool_->reader->FileName(range.file), range.offset,
                     std::chrono::duration<double>(waited).count());
}

void StreamedExperts::WaitForOne() {
  const Clock::time_point begin = Clock::now();
  const ReadCounts before = pool_->queue->counts();
  bool is_reported = false;
  while (!MayGoOn()) {
    const Clock::duration waited = Clock::now() - begin;
    if (waited >= options_.longest_read) {
      CountFailure();
      GiveUpReads({ErrorCode::kIo, DescribeWait(waited)});
    } else if (waited >= options_.slow_read && !is_reported) {
      is_reported = true;
      if (options_.warn) options_.warn(DescribeWait(waited));
    } else {
      pool_->queue->WaitForEnd((is_reported ? options_.longest_read
                                            : std::min(options_.slow_read, options_.longest_read)) -
                               waited);
      TakeEnded();
    }
  }
  const ReadCounts after = pool_->queue->counts();
  const std::lock_guard lock(mutex_);
  counts_.stall_seconds += std::chrono::duration<double>(Clock::now() - begin).count();
  counts_.stall_busy_seconds += after.busy_seconds - before.busy_seconds;
  counts_.stall_bytes += after.bytes - before.bytes;
}

// The slots remain in use by the reads.
void StreamedExperts::GiveUpReads(const Error& error) {
  for (const Waiting& one : waiting_) {
    FailExpert(one.expert, error);
    hangs_[one.slot] = 1;
    directory_.Release(one.slot);
  }
  waiting_.clear();
  for (const std::int32_t expert : missing_) FailExpert(expert, error);
  missing_.clear();
}

void StreamedExperts::FailExpert(std::int32_t expert, const Error& error) {
  if (pass_->kind == Pass::kDraft) return;
  if (FailUsers(*pass_, block_, expert, error) && failed_) failed_ = Unexpected(error);
}

bool StreamedExperts::FailUsers(ForwardPass& pass, std::int64_t /*block*/, std::int32_t expert,
                                const Error& error) {
  pass.failed.FailUsers(ids_, expert, error);
  return pass.failed.HasAll();
}

void StreamedExperts::TakeEnded() {
  ended_.clear();
  pool_->queue->TakeEnded(ended_);
  for (const EndedRead& ended : ended_) EndRead(ended);
}

void StreamedExperts::EndRead(const EndedRead& ended) {
  const std::uint32_t slot = ended.slot;
  const std::uint32_t key = directory_.KeyAt(slot);
  hangs_[slot] = 0;
  Status status = ended.status;
  if (status && is_checked_[key] == 0) {
    const std::int64_t block = key / n_experts_;
    const auto expert = static_cast<std::int32_t>(key % n_experts_);
    status =
        CheckExpertScales(files().InSlot(key, Moe(block).experts[Index(expert)], SlotMemory(slot)),
                          Moe(block).name, expert);
    is_checked_[key] = status ? 1 : 0;
  }
  if (status) directory_.MarkReady(slot);
  if (directory_.IsGuess(slot)) {
    guesses_.EndRead(slot, status.has_value());  // a failed guess fails nothing
    return;
  }
  if (status) return;
  const auto of_slot = [slot](const auto& one) { return one.slot == slot; };
  const auto n_waiting = std::erase_if(waiting_, of_slot);
  const auto n_ahead = std::erase_if(ahead_, of_slot);
  for (std::size_t i = 0; i < n_waiting + n_ahead; ++i) directory_.Release(slot);
  directory_.MarkFree(slot);
  // Nobody waits for a failed read ahead: the block that needs the expert reads it again.
  if (n_waiting > 0 && status.error().code == ErrorCode::kIo) {
    FailExpert(static_cast<std::int32_t>(key % n_experts_), status.error());
  } else if (n_waiting > 0 && failed_) {
    failed_ = std::move(status);
  }
  CountFailure();
}

void StreamedExperts::CountFailure() {
  const std::lock_guard lock(mutex_);
  last_failures_[counts_.failed_reads++ % 3] = Clock::now();
  if (counts_.failed_reads >= 3) {
    counts_.third_last_failure = last_failures_[counts_.failed_reads % 3];
  }
}

// Reads in flight end as if they had been read ahead.
void StreamedExperts::Cancel() {
  if (block_ < 0) return;
  ReleaseGroup();
  for (const Waiting& one : waiting_) directory_.Release(one.slot, IsScan());
  waiting_.clear();
  missing_.clear();
  failed_ = {};
  block_ = -1;
}

StreamingCounts StreamedExperts::counts() const {
  StreamingCounts counts;
  {
    const std::lock_guard lock(mutex_);
    counts = counts_;
  }
  const ReadCounts reads = pool_->queue->counts();
  counts.read_bytes = reads.bytes;
  counts.read_experts = reads.experts;
  counts.disk_busy_seconds = reads.busy_seconds;
  return counts;
}

}  // namespace fathom::experts
