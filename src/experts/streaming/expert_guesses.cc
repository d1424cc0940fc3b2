#include "experts/streaming/expert_guesses.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace fathom::experts {

ExpertGuesses::ExpertGuesses(GuessMode mode, const ModelConfig& config, SlotDirectory& directory,
                             ChangeGuesses change)
    : policy_(mode),
      hidden_size_(config.hidden_size),
      n_experts_(config.n_routed_experts),
      experts_per_token_(config.num_experts_per_tok),
      directory_(directory),
      change_(std::move(change)) {}

GuessBuffers ExpertGuesses::LayOut(BufferLayout& memory) const {
  GuessBuffers buffers;
  buffers.u = memory.Add<Bf16>(kMostTokens, hidden_size_);
  buffers.mix = {.post = memory.Add<float>(kMostTokens, kStreams),
                 .comb = memory.Add<float>(kMostTokens, kStreams * kStreams)};
  buffers.logits = memory.Add<float>(kMostTokens, n_experts_);
  buffers.routing = {.ids = memory.Add<std::int32_t>(kMostTokens, experts_per_token_),
                     .weights = memory.Add<float>(kMostTokens, experts_per_token_)};
  return buffers;
}

Status ExpertGuesses::Bind(Backend& backend, ReadQueue& queue) {
  queue_ = &queue;
  if (policy_.state() == GuessState::kOff) return {};
  Result<LaidOutBuffer<GuessBuffers>> buffers =
      AllocateLayout(backend, [&](BufferLayout& memory) { return LayOut(memory); });
  if (!buffers) return Unexpected(buffers.error());
  buffers_ = *std::move(buffers);
  candidates_.reserve(static_cast<std::size_t>(kMostTokens * experts_per_token_));
  guesses_.reserve(kMostSlots + 2 * kMostPerBlock);
  used_.reserve(kMostSlots);
  return {};
}

// --- The pass ---

void ExpertGuesses::BeginPass(std::int64_t n_tokens) {
  EndStep();
  Expire(-1);
  if (!is_allowed_ || !policy_.NeedsTimes() || n_tokens == 0 || n_tokens > kMostTokens) return;
  const Clock::time_point now = Clock::now();
  const double busy = queue_->counts().busy_seconds;
  step_ = {.n_tokens = n_tokens, .begin = now, .end = now, .busy_begin = busy, .busy_end = busy};
}

void ExpertGuesses::EndStep() {
  const TimedStep step = std::exchange(step_, {});
  if (step.n_tokens == 0) return;
  policy_.EndStep(step.n_tokens, std::chrono::duration<double>(step.end - step.begin).count(),
                  step.busy_end - step.busy_begin);
}

void ExpertGuesses::KeepReserve() {
  directory_.SetReserve(Reads() ? std::min(kMostSlots, directory_.n_slots() / 4) : 0);
}

void ExpertGuesses::EndBlock(std::int64_t block) {
  Expire(block);
  if (step_.n_tokens == 0) return;
  step_.end = Clock::now();
  step_.busy_end = queue_->counts().busy_seconds;
}

// --- Guesses ---

std::optional<GuessBuffers> ExpertGuesses::Begin(std::int64_t block, std::int64_t t) {
  if (!is_allowed_ || !policy_.Computes() || t > kMostTokens) return {};
  block_ = block;
  n_rows_ = t;
  const GuessBuffers& all = buffers_.views;
  return GuessBuffers{
      .u = all.u.Rows(0, t),
      .mix = {.post = all.mix.post.Rows(0, t), .comb = all.mix.comb.Rows(0, t)},
      .logits = all.logits.Rows(0, t),
      .routing = {.ids = all.routing.ids.Rows(0, t), .weights = all.routing.weights.Rows(0, t)}};
}

// Lists the experts that are not in memory, each once, the experts with the largest weights first.
void ExpertGuesses::ListCandidates(const std::function<bool(std::uint32_t key)>& has_expert) {
  const Matrix<const std::int32_t> ids = buffers_.views.routing.ids.Rows(0, n_rows_);
  const float* const weights = buffers_.views.routing.weights.data;
  candidates_.clear();
  for (std::int64_t i = 0; i < ids.rows * ids.cols; ++i) {
    const auto key = static_cast<std::uint32_t>(block_ * n_experts_ + ids.data[i]);
    const std::uint32_t slot = directory_.FindSlot(key);
    const bool is_missing = slot == SlotDirectory::kNone || directory_.IsGuess(slot);
    if (!is_missing || !has_expert(key)) continue;
    const auto known = std::ranges::find(candidates_, key, &Candidate::key);
    if (known == candidates_.end()) {
      candidates_.push_back({key, weights[i]});
    } else {
      known->weight += weights[i];
    }
  }
  std::ranges::sort(candidates_, [](const Candidate& a, const Candidate& b) {
    return std::pair(-a.weight, a.key) < std::pair(-b.weight, b.key);
  });
}

void ExpertGuesses::End(const std::function<bool(std::uint32_t key)>& has_expert) {
  Check(block_ >= 0, "a guess that has begun");
  if (change_) change_(buffers_.views.routing.ids.Rows(0, n_rows_));
  ListCandidates(has_expert);
  const std::size_t n = std::min(candidates_.size(), kMostPerBlock);
  for (std::size_t i = 0; i < n; ++i) Add(candidates_[i].key);
  block_ = -1;
}

void ExpertGuesses::Add(std::uint32_t key) {
  const auto known = Find(key);
  if (known != guesses_.end()) {
    known->has_expired = false;  // reuses the read for an earlier guess
  } else {
    guesses_.push_back({.block = block_, .key = key});
  }
  ++counts_.experts;
  policy_.Count(1, 0);
}

std::vector<ExpertGuesses::Guess>::iterator ExpertGuesses::Find(std::uint32_t key) {
  return std::ranges::find(guesses_, key, &Guess::key);
}

bool ExpertGuesses::Use(std::uint32_t key) {
  const auto guess = Find(key);
  if (guess == guesses_.end()) return false;
  if (!guess->has_expired) {
    ++counts_.useful;
    policy_.Count(0, 1);
  }
  const bool has_slot = guess->slot != SlotDirectory::kNone;
  if (has_slot) used_.push_back(guess->slot);
  guesses_.erase(guess);
  return has_slot;
}

void ExpertGuesses::AdoptUsed() {
  for (const std::uint32_t slot : used_) directory_.Adopt(slot);
  used_.clear();
}

void ExpertGuesses::StartReads(const StartRead& start) {
  if (!Reads()) return;
  for (Guess& guess : guesses_) {
    if (directory_.FindSlot(guess.key) != SlotDirectory::kNone) continue;
    guess.slot = directory_.AssignReserved(guess.key);
    if (guess.slot == SlotDirectory::kNone) return;
    start(guess.key, guess.slot);
    ++counts_.reads;
  }
}

void ExpertGuesses::EndRead(std::uint32_t slot, bool is_read) {
  const auto guess = std::ranges::find(guesses_, slot, &Guess::slot);
  if (is_read && !guess->has_expired) return;
  directory_.DropGuess(slot);
  guesses_.erase(guess);
}

void ExpertGuesses::Expire(std::int64_t block) {
  std::erase_if(guesses_, [&](Guess& guess) {
    if (block >= 0 && guess.block != block) return false;
    if (guess.slot == SlotDirectory::kNone) return true;
    const bool is_withdrawn = !directory_.IsReady(guess.slot) && queue_->Withdraw(guess.slot);
    counts_.withdrawn += is_withdrawn ? 1 : 0;
    guess.has_expired = true;
    if (!is_withdrawn && !directory_.IsReady(guess.slot)) return false;  // EndRead drops it
    directory_.DropGuess(guess.slot);
    return true;
  });
}

}  // namespace fathom::experts
