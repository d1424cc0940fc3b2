// BlockRunner: runs the blocks of an emulated kernel, thread after thread.
//
// The order in which threads and blocks take turns is an option: a kernel that depends on the order
// gives other results, or an error. The blocks of a cluster run together; further clusters begin
// once these blocks have ended or wait for other blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/gpu/driver.h"
#include "tests/emulator/block.h"

namespace fathom::kernels::emulator {

// The order in which threads, and blocks, take turns.
enum class Visiting : std::uint8_t { kAscending, kDescending, kRandom };

class BlockRunner {
 public:
  BlockRunner(int wave_size, std::int64_t shared_bytes, Visiting visiting, std::uint32_t seed,
              Asynchrony asynchrony = Asynchrony::kEarliest);
  ~BlockRunner();

  // Runs all blocks of the grid. Error: the kernel relies on something that no device guarantees;
  // the message has the kernel's name. starts_early: it was launched to begin before earlier
  // kernels have ended; its memory is not watched, only its calls are checked.
  Status Run(std::string_view name, const Kernel& kernel, const GpuGrid& grid,
             const void* arguments, bool starts_early = false);

  // --- Run in pieces, for kernels of several devices that wait for each other ---
  // Begins a kernel. `name` and `arguments` must stay valid until it has ended.
  void Begin(std::string_view name, const Kernel& kernel, const GpuGrid& grid,
             const void* arguments, bool starts_early = false);
  // Runs every block of a kernel that starts early, after Begin, as far as it can run before
  // earlier kernels have ended, and discards the run: nothing that a block may do there lasts, and
  // Step restarts all blocks. The caller watches memory, and reports to the running block each use
  // of memory that it may not use yet (NoteEarlyUse).
  void RunEarly();
  // Returns true if every block has called StartDependentKernels in RunEarly: the next kernel may
  // then begin while the kernels still run for which this one waits.
  bool StartsNextEarly() const { return starts_next_early_; }
  enum class Progress : std::uint8_t { kMoved, kStuck, kEnded };
  // Lets each thread that can continue run once. kStuck: none can. After kEnded, status() is final.
  Progress Step();
  // Lets asynchronous work happen, or further blocks begin. Returns false if neither is possible:
  // the kernel waits for another kernel, or forever.
  bool Unblock();
  // Ends the run, because nothing that it waits for will happen.
  void SetDeadlock();
  Status status() const;

 private:
  // Gives the cluster its blocks for this kernel. Their stacks are kept from kernel to kernel.
  void Prepare(Cluster& cluster);
  // Lets the next cluster take part in the turns.
  void BeginCluster();
  bool StepCluster(Cluster& cluster);
  bool HasEnded(Cluster& cluster);
  // Removes a cluster from the turns.
  void Leave(std::size_t resident);
  void Mix(std::vector<std::int64_t>& order);

  Visiting visiting_;
  std::mt19937 random_;
  RunningKernel running_;
  bool starts_next_early_ = false;
  std::vector<std::int64_t> thread_order_;
  std::vector<std::int64_t> waiting_;  // numbers of clusters, the next one last
  std::vector<std::unique_ptr<Cluster>> resident_;
  std::vector<std::unique_ptr<Cluster>> unused_;
};

}  // namespace fathom::kernels::emulator
