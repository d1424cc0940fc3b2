// StreamState: shared by the engine and the reader of a TokenStream.
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

namespace fathom::engine {

// Wakes the engine's thread when it has something to do. Any thread.
class Waker {
 public:
  void Wake();
  // Returns immediately if Wake was called since the last wait.
  void WaitFor(std::chrono::milliseconds timeout);
  void Wait();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
};

// A bounded queue of events. The engine checks Room() before a step and adds events after it; the
// engine never waits for a reader.
class StreamState {
 public:
  // Streams share the waker, which must outlive all of them.
  StreamState(std::int64_t capacity, std::shared_ptr<Waker> waker);

  // --- The engine's thread ---
  // Returns the number of events that can be added now.
  std::int64_t Room() const;
  // Returns an event to fill; the reader sees it after Publish. Reused events keep the memory of
  // their strings.
  StreamEvent& Add();
  // Makes added events visible to the reader. Does not wake the reader: Notify does.
  void Publish();
  // Sets the statistics so far.
  void SetStats(const RequestStats& stats);
  // Ends the stream, with its final statistics.
  void Close(const RequestStats& stats);
  // Wakes the reader if it waits. Any thread.
  void Notify();
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  // --- The reader's thread ---
  // Waits for the next event. None: `timeout` has passed (no timeout: waits without limit). False:
  // the stream is closed and all events were read.
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
  std::int64_t first_ = 0;      // guarded: number of the next event to read
  std::int64_t published_ = 0;  // guarded: number after the last event visible to the reader
  bool closed_ = false;         // guarded
  bool reader_waits_ = false;   // guarded
  RequestStats stats_;          // guarded
  std::int64_t added_ = 0;      // the engine's thread only
};

// Wakes readers from its own thread: each wake-up costs a system call, too much for the engine's
// thread.
class StreamNotifier {
 public:
  StreamNotifier();
  ~StreamNotifier();
  // Wakes the readers of these streams soon. Engine thread only.
  void Notify(std::span<const std::shared_ptr<StreamState>> streams);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<StreamState>> waiting_;  // guarded
  bool ends_ = false;                                  // guarded
  std::jthread thread_;
};

}  // namespace fathom::engine
