// Options of a model whose routed experts are read from disk while it runs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace fathom {

// With fewer slots a step of one token waits for memory instead of the disk; fewer are refused.
inline constexpr std::int64_t kFewestExpertSlots = 24;

enum class ReadMode {
  kMeasured,  // the faster of both, measured at start; direct if there is little between them
  kDirect,    // past the page cache; buffered where the file system refuses
  kBuffered,  // through the page cache, whose pages are dropped after each read
};

struct StreamingOptions {
  // Experts that are in memory at once; 0: all experts are used where they are mapped. Memory of a
  // slot: ExpertFiles::slot_bytes().
  std::int64_t slots = 0;
  ReadMode mode = ReadMode::kMeasured;
  int n_read_threads = 0;          // reads in flight; 0: measured at start
  double calibration_seconds = 1;  // most time that measuring at start takes
  bool prefetch = true;            // read experts of hash layers as soon as their tokens are known
  // Each is called from any thread; may be empty. `warn`: the disk is slow, direct reads are
  // refused.
  std::function<void(const std::string& message)> warn{};
};

}  // namespace fathom
