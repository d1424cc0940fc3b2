#include "engine/stream_state.h"

#include <utility>

#include "base/check.h"

namespace fathom::engine {
namespace {

constexpr std::size_t kUsualStreams = 256;  // streams in one call of Notify

}  // namespace

void Waker::Wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_one();
}

void Waker::WaitFor(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [this] { return woken_; });
  woken_ = false;
}

void Waker::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return woken_; });
  woken_ = false;
}

StreamState::StreamState(std::int64_t capacity, std::shared_ptr<Waker> waker)
    : capacity_(capacity), waker_(std::move(waker)), ring_(static_cast<std::size_t>(capacity)) {}

std::int64_t StreamState::Room() const {
  const std::lock_guard lock(mutex_);
  return capacity_ - (added_ - first_);
}

// The reader never touches unpublished events, and added_ - first_ is at most the capacity.
StreamEvent& StreamState::Add() {
  StreamEvent& event = ring_[static_cast<std::size_t>(added_ % capacity_)];
  ++added_;
  event.token = StreamEvent::kNoToken;
  event.text.clear();
  event.logprobs.reset();
  event.finish.reset();
  event.stop_string.reset();
  event.error.reset();
  return event;
}

void StreamState::Publish() {
  const std::lock_guard lock(mutex_);
  Check(added_ - first_ <= capacity_, "more events than a stream has room for");
  published_ = added_;
}

void StreamState::Notify() {
  {
    const std::lock_guard lock(mutex_);
    if (!reader_waits_) return;
  }
  changed_.notify_one();
}

void StreamState::SetStats(const RequestStats& stats) {
  const std::lock_guard lock(mutex_);
  stats_ = stats;
}

void StreamState::Close(const RequestStats& stats) {
  const std::lock_guard lock(mutex_);
  stats_ = stats;
  closed_ = true;
}

std::optional<bool> StreamState::Next(std::optional<std::chrono::milliseconds> timeout,
                                      StreamEvent& event) {
  bool wake_engine = false;
  {
    std::unique_lock lock(mutex_);
    const auto ready = [this] { return first_ < published_ || closed_; };
    reader_waits_ = true;
    const bool came =
        !timeout ? (changed_.wait(lock, ready), true) : changed_.wait_for(lock, *timeout, ready);
    reader_waits_ = false;
    if (!came) return std::nullopt;
    if (first_ == published_) return false;
    std::swap(event, ring_[static_cast<std::size_t>(first_ % capacity_)]);
    ++first_;
    wake_engine = published_ - first_ == capacity_ / 2 || first_ == published_;
  }
  if (wake_engine) {
    waker_->Wake();
  }
  return true;
}

void StreamState::Cancel() {
  cancelled_.store(true, std::memory_order_relaxed);
  waker_->Wake();
}

RequestStats StreamState::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

// --- StreamNotifier ---

// Both lists reserve memory for a few steps with many streams.
StreamNotifier::StreamNotifier() : thread_([this] { Run(); }) {
  const std::lock_guard lock(mutex_);
  waiting_.reserve(kUsualStreams);
}

StreamNotifier::~StreamNotifier() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
}

void StreamNotifier::Notify(std::span<const std::shared_ptr<StreamState>> streams) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.insert(waiting_.end(), streams.begin(), streams.end());
  }
  changed_.notify_one();
}

void StreamNotifier::Run() {
  std::vector<std::shared_ptr<StreamState>> streams;
  streams.reserve(kUsualStreams);
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !waiting_.empty() || ends_; });
      if (waiting_.empty()) return;
      streams.swap(waiting_);
    }
    for (const std::shared_ptr<StreamState>& stream : streams) {
      stream->Notify();
    }
    streams.clear();
  }
}

// --- TokenStream ---

TokenStream::TokenStream(std::shared_ptr<StreamState> state) : state_(std::move(state)) {}
TokenStream::TokenStream(TokenStream&&) noexcept = default;

TokenStream& TokenStream::operator=(TokenStream&& other) noexcept {
  if (state_ != nullptr && state_ != other.state_) {
    state_->Cancel();
  }
  state_ = std::move(other.state_);
  return *this;
}

TokenStream::~TokenStream() {
  if (state_ != nullptr) {
    state_->Cancel();
  }
}

bool TokenStream::Next(StreamEvent& event) { return *state_->Next(std::nullopt, event); }

std::optional<bool> TokenStream::NextFor(std::chrono::milliseconds timeout, StreamEvent& event) {
  return state_->Next(timeout, event);
}

void TokenStream::Cancel() { state_->Cancel(); }
RequestStats TokenStream::stats() const { return state_->stats(); }

}  // namespace fathom::engine
