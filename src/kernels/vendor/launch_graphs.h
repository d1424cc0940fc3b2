// LaunchGraphs: turns lists of launches that repeat into graphs, which are enqueued by one call.
//
// Launches are collected until the caller flushes them. A list that occurs a third time, with the
// same kernels, grids and arguments byte by byte, becomes a graph of the driver, which is enqueued
// by one call from then on. Steps of one size are such lists: the data that differ between them are
// in memory of the device (docs/gpu_kernels.md).
//
// Lists with marks of a timer become graphs immediately, and are used a single time: the device
// then passes from launch to mark without waiting for the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernels/gpu/kernel_list.h"
#include "kernels/vendor/driver_api.h"

namespace fathom::kernels {

// One thread at a time, with the device set.
class LaunchGraphs {
 public:
  // Shorter lists are launched one by one. Longer lists are divided, so that the device begins
  // before the host has collected all launches.
  static constexpr std::size_t kLeastLaunches = 8;
  static constexpr std::size_t kMostLaunches = 256;
  // Limits of the remembered lists, which are the most recently used ones: their number, and the
  // bytes of their launches. A step of one size is about eight lists; a batch has as many sizes as
  // requests.
  static constexpr std::size_t kMostLists = 4096;
  static constexpr std::size_t kMostBytes = std::size_t{128} << 20;

  struct Launch {
    void* function = nullptr;
    unsigned grid_x = 1;
    unsigned grid_y = 1;
    unsigned threads = 1;
    unsigned shared_bytes = 0;
    GpuKernel kernel{};  // for errors
  };
  // An error of the driver, 0 for none, and the launch that caused it.
  struct Failure {
    enum class Place : std::uint8_t { kLaunch, kGraph, kMark };
    int error = 0;
    Place place = Place::kLaunch;
    Launch launch;  // for kLaunch
  };

  // `api` must outlive this object. makes_graphs: false: all launches are enqueued one by one.
  LaunchGraphs(const DriverApi& api, bool makes_graphs) : api_(api), makes_graphs_(makes_graphs) {}
  LaunchGraphs(const LaunchGraphs&) = delete;
  LaunchGraphs& operator=(const LaunchGraphs&) = delete;
  ~LaunchGraphs() { Clear(); }
  bool makes_graphs() const { return makes_graphs_; }
  // Removes all lists. The device must have finished all its work.
  void Clear();

  // Adds a launch to the list of the next Flush. `arguments` are read before the call returns.
  void Add(const Launch& launch, std::span<const std::byte> arguments);
  // Adds a record of an event after the launches added so far.
  void AddMark(void* event);
  // Returns how many launches and marks may be added before a Flush.
  std::size_t room() const { return kMostLaunches - n_; }
  // Enqueues the added launches, in their order. If a driver cannot make a graph, the launches are
  // enqueued one by one, and graphs are not tried again.
  Failure Flush(void* stream);

  // Returns the bytes of the remembered launches.
  std::size_t bytes() const { return bytes_; }

 private:
  // A list that has occurred before. Its launches are stored from its second use on: a list that
  // occurs once takes only its hash.
  struct List {
    std::uint64_t hash = 0;
    std::vector<std::byte> launches;
    void* graph = nullptr;  // ready to be launched; nullptr: none yet
  };

  bool HasMarks() const { return n_marks_ > 0; }
  // Counts a use of the added list. Returns its graph from the third use on, or nullptr.
  void* UseGraph(void* stream);
  // Removes the least recently used lists until the rest is within the limits.
  void Shrink(void* stream);
  void Forget(const List& list, void* stream);
  // Makes a graph that is launched once, for launches with marks.
  void* MakeGraphOfMarks(void* stream);
  // Returns nullptr if the driver makes no graph.
  void* MakeGraph(void* stream);
  void FreeGraphsOfMarks();
  Failure LaunchEach(void* stream, bool is_captured) const;

  const DriverApi& api_;
  bool makes_graphs_ = true;
  std::vector<std::byte> added_;
  std::size_t n_ = 0;        // launches and marks in added_
  std::size_t n_marks_ = 0;  // marks among them
  std::list<List> lists_;    // the most recently used first
  std::unordered_map<std::uint64_t, std::list<List>::iterator> list_by_hash_;
  std::size_t bytes_ = 0;
  std::vector<void*> graphs_of_marks_;  // graphs that the device may still run
};

}  // namespace fathom::kernels
