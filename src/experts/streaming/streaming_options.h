// Options of a model whose routed experts are read from disk while it runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/block_reader.h"
#include "checkpoint/safetensors.h"
#include "experts/streaming/expert_guesses.h"
#include "experts/streaming/guess_policy.h"

namespace fathom::experts {

// Returns the smallest pool: for a token's experts that are computed, for experts that are read
// meanwhile, and for some that stay: 24 experts of Flash or Pro.
constexpr std::int64_t FewestExpertSlots(std::int64_t experts_per_token) {
  return 4 * experts_per_token;
}

enum class ReadMode {
  kMeasured,  // the faster of both, measured at start; direct if the difference is small
  kDirect,    // bypasses the page cache; uses it where the file system refuses
  kBuffered,  // through the page cache, whose pages are dropped after each read
};

struct StreamingOptions {
  // Experts that are in memory at the same time; 0: all experts are used where they are mapped.
  // Memory of a slot: ExpertFiles::slot_bytes().
  std::int64_t slots = 0;
  ReadMode mode = ReadMode::kMeasured;
  int n_read_threads = 0;          // reads in flight; 0: measured at start
  double calibration_seconds = 1;  // limit of the time for measuring at start
  // A directory with copies of the shards on another drive, which is read as well; empty: none.
  std::filesystem::path mirror{};
  bool prefetch = true;  // read experts of hash layers as soon as their tokens are known
  GuessMode guesses = GuessMode::kAuto;  // read guessed experts of the next layer
  ChangeGuesses change_guesses{};        // empty: guesses are not changed
  // Uses of each expert in earlier runs, by key (ExpertFiles); empty: unknown. The most used
  // experts are read at start, after the experts that steps need.
  std::vector<std::uint32_t> heat{};
  // Called with the uses of each expert at the end, and after steps, at most once in
  // save_interval; on the thread that runs the model. May be empty.
  std::function<void(std::span<const std::uint32_t> heat)> save_heat{};
  std::chrono::nanoseconds save_interval = std::chrono::minutes(10);
  // A read that takes longer than slow_read is reported; a read that takes longer than longest_read
  // fails the step that waits for it.
  std::chrono::nanoseconds slow_read = std::chrono::seconds(10);
  std::chrono::nanoseconds longest_read = std::chrono::seconds(60);
  // Called from any thread when the disk is slow or direct reads are refused. May be empty.
  std::function<void(const std::string& message)> warn{};
  // Makes the reader of the shards, without a measurement; empty: FileBlockReader.
  std::function<Result<std::unique_ptr<BlockReader>>(const Checkpoint& checkpoint)> open{};
};

}  // namespace fathom::experts
