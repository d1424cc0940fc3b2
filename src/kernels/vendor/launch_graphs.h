// LaunchGraphs: launches that a device gets again and again, as one piece of work.
//
// Launches are collected until the caller flushes them. A list that comes a second time, with the
// same kernels, grids and arguments byte by byte, becomes a graph of the driver, which is enqueued
// by one call from then on. Steps of one size are such lists: what differs between them lies in
// memory of the device (docs/gpu_kernels.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/gpu/kernel_list.h"
#include "kernels/vendor/driver_api.h"

namespace fathom {

// Threads: one at a time, with the device set.
class LaunchGraphs {
 public:
  // Shorter lists are launched one by one. Longer ones are divided, so that the device begins
  // before the host has collected all.
  static constexpr std::size_t kLeastLaunches = 8;
  static constexpr std::size_t kMostLaunches = 256;
  // Lists that are remembered, those used last.
  static constexpr std::size_t kMostLists = 64;

  struct Launch {
    void* function = nullptr;
    unsigned grid_x = 1;
    unsigned grid_y = 1;
    unsigned threads = 1;
    unsigned shared_bytes = 0;
    GpuKernel kernel{};  // for errors
  };
  // An error of the driver, 0 for none, and whose it is.
  struct Failure {
    int error = 0;
    bool is_of_graph = false;
    GpuKernel kernel{};  // if it is not of a graph
  };

  // `api` must outlive the object.
  explicit LaunchGraphs(const DriverApi& api) : api_(api) {}
  LaunchGraphs(const LaunchGraphs&) = delete;
  LaunchGraphs& operator=(const LaunchGraphs&) = delete;
  ~LaunchGraphs() { Clear(); }
  // Forgets all lists. The device has done all its work.
  void Clear();

  // Adds a launch to those that the next Flush enqueues. `arguments` are read before it returns.
  void Add(const Launch& launch, std::span<const std::byte> arguments);
  bool IsFull() const { return n_ == kMostLaunches; }
  // Enqueues what was added, in its order. A driver that cannot make a graph gets the launches one
  // by one, and no graph is tried again.
  Failure Flush(void* stream);

 private:
  struct List {
    std::vector<std::byte> bytes;  // of the launches
    void* graph = nullptr;         // ready to be launched; nullptr: none yet
    std::uint64_t last_use = 0;
  };

  List* Find();
  // Takes the place of the list that was used longest ago.
  void Remember(void* stream);
  // Returns nullptr where the driver makes none.
  void* MakeGraph(void* stream);
  Failure LaunchEach(void* stream) const;

  const DriverApi& api_;
  std::vector<std::byte> added_;
  std::size_t n_ = 0;  // launches in added_
  std::vector<List> lists_;
  std::uint64_t n_uses_ = 0;
  bool are_possible_ = true;
};

}  // namespace fathom
