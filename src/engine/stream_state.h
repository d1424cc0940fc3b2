// StreamState: what the reader of a TokenStream and the engine share.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "engine/token_stream.h"

namespace fathom {

// Wakes the engine's thread when there is something new for it. Any thread.
class Waker {
 public:
  void Wake();
  // Returns at once if it was woken since the last call.
  void WaitFor(std::chrono::milliseconds timeout);
  void Wait();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
};

// A bounded queue of events. The engine checks Room() before a step and pushes after it; it never
// waits for a reader.
class StreamState {
 public:
  // The waker outlives every stream by being shared with them.
  StreamState(std::int64_t capacity, std::shared_ptr<Waker> waker);

  // --- The engine's thread ---
  // Events that can be pushed now.
  std::int64_t Room() const;
  // An event to fill; nothing is seen of it before Publish. Its strings keep their memory.
  StreamEvent& Add();
  // Lets the reader see what was added. Does not wake it: Notify does.
  void Publish();
  // What is known so far.
  void SetStats(const RequestStats& stats);
  // No more events: `stats` are final.
  void Close(const RequestStats& stats);
  // Wakes the reader if it waits. Any thread.
  void Notify();
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  // --- The reader's thread ---
  // None: it took longer than `timeout` (none: no limit). False: closed and all read.
  std::optional<bool> Next(std::optional<std::chrono::milliseconds> timeout, StreamEvent& event);
  void Cancel();
  RequestStats stats() const;

 private:
  const std::int64_t capacity_;
  const std::shared_ptr<Waker> waker_;
  std::atomic<bool> cancelled_ = false;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<StreamEvent> ring_;
  std::int64_t first_ = 0;      // guarded: the next to read; counts up
  std::int64_t published_ = 0;  // guarded: behind the last that the reader may see
  bool closed_ = false;         // guarded
  bool reader_waits_ = false;   // guarded
  RequestStats stats_;          // guarded
  std::int64_t added_ = 0;      // the engine's thread only
};

// Wakes readers from a thread of its own: each costs a call of the system, which the engine's
// thread has no time for.
class StreamNotifier {
 public:
  StreamNotifier();
  ~StreamNotifier();
  // Wakes the readers of these streams soon. The engine's thread.
  void Notify(std::span<const std::shared_ptr<StreamState>> streams);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<StreamState>> waiting_;  // guarded
  bool ends_ = false;                                  // guarded
  std::jthread thread_;
};

}  // namespace fathom
