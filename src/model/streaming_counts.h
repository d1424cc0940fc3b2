// StreamingCounts: counts and times of streaming experts from disk since the start.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace fathom::model {

// Experts that were guessed for the next layer while they were not in memory.
struct GuessCounts {
  std::int64_t experts = 0;    // guesses: read, or only counted
  std::int64_t useful = 0;     // guesses that the layer needed
  std::int64_t reads = 0;      // guesses whose reads were queued
  std::int64_t withdrawn = 0;  // guesses whose reads were cancelled before they began
};

struct StreamingCounts {
  // Uses of experts: an expert counts once per layer and step, however many tokens use it.
  std::int64_t hash_uses = 0;  // in layers that choose experts by the token
  std::int64_t hash_hits = 0;  // the expert was in memory and had not been read for this use
  std::int64_t learned_uses = 0;
  std::int64_t learned_hits = 0;
  std::int64_t read_experts = 0;
  std::int64_t read_bytes = 0;
  std::int64_t ahead_experts = 0;  // reads that began before the experts' layer
  std::int64_t ahead_used = 0;     // early reads that the layer used
  GuessCounts guesses;
  std::int64_t failed_reads = 0;  // without reads of guesses
  // Time of the last failed read but two; nullopt: there were fewer.
  std::optional<std::chrono::steady_clock::time_point> third_last_failure;
  std::int64_t tokens = 0;        // tokens of all steps
  double stall_seconds = 0;       // time that steps waited for the disk
  double stall_busy_seconds = 0;  // the part of stall_seconds with at least one read in flight
  std::int64_t stall_bytes = 0;   // bytes of reads that ended during stalls
  double disk_busy_seconds = 0;   // time with at least one read in flight
  std::int64_t policy_switches = 0;
  // The state now:
  bool evicts_least_frequent = false;  // else: the least recently used
  std::int64_t slots = 0;
  std::int64_t used_slots = 0;
  std::int64_t slot_bytes = 0;
  std::int64_t read_threads = 0;
  bool reads_directly = false;
  double measured_bytes_per_second = 0;  // measured at start; 0: not measured

  // True if three reads have failed within a minute.
  bool DiskFails(std::chrono::steady_clock::time_point now) const {
    return third_last_failure && now - *third_last_failure < std::chrono::minutes(1);
  }
  std::int64_t uses() const { return hash_uses + learned_uses; }
  std::int64_t hits() const { return hash_hits + learned_hits; }
};

}  // namespace fathom::model
