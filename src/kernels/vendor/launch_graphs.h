// LaunchGraphs: launches that a device gets again and again, as one piece of work.
//
// Launches are collected until the caller flushes them. A list that comes a third time, with the
// same kernels, grids and arguments byte by byte, becomes a graph of the driver, which is enqueued
// by one call from then on. Steps of one size are such lists: what differs between them lies in
// memory of the device (docs/gpu_kernels.md).
//
// Marks of a timer among the launches are graphs at once, used a single time: the device then
// passes from launch to mark without waiting for the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
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
  // Lists that are remembered, the ones used last: at most so many, whose launches take at most so
  // many bytes. A step of one size is about eight lists; a batch has as many sizes as requests.
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
  // An error of the driver, 0 for none, and where it happened.
  struct Failure {
    enum class Place : std::uint8_t { kLaunch, kGraph, kMark };
    int error = 0;
    Place place = Place::kLaunch;
    Launch launch;  // of kLaunch
  };

  // `api` must outlive the object. makes_graphs: false: all launches are enqueued one by one.
  LaunchGraphs(const DriverApi& api, bool makes_graphs) : api_(api), makes_graphs_(makes_graphs) {}
  LaunchGraphs(const LaunchGraphs&) = delete;
  LaunchGraphs& operator=(const LaunchGraphs&) = delete;
  ~LaunchGraphs() { Clear(); }
  bool makes_graphs() const { return makes_graphs_; }
  // Forgets all lists. The device has done all its work.
  void Clear();

  // Adds a launch to those that the next Flush enqueues. `arguments` are read before it returns.
  void Add(const Launch& launch, std::span<const std::byte> arguments);
  // Adds a record of an event after the launches so far.
  void AddMark(void* event);
  // How many launches and marks may be added before a Flush.
  std::size_t room() const { return kMostLaunches - n_; }
  // Enqueues what was added, in its order. A driver that cannot make a graph gets the launches one
  // by one, and no graph is tried again.
  Failure Flush(void* stream);

  // The bytes of the launches that are remembered.
  std::size_t bytes() const { return bytes_; }

 private:
  // A list that has come before. Its launches are kept from its second use on: lists that come once
  // take nothing but their hash.
  struct List {
    std::uint64_t hash = 0;
    std::vector<std::byte> launches;
    void* graph = nullptr;  // ready to be launched; nullptr: none yet
  };

  bool HasMarks() const { return n_marks_ > 0; }
  // Counts a use of the list that was added. Returns its graph from the third use on, or nullptr.
  void* UseGraph(void* stream);
  // Forgets the lists used longest ago, until the rest is within the bounds.
  void Shrink(void* stream);
  void Forget(const List& list, void* stream);
  // Makes a graph that is launched once, for launches with marks.
  void* MakeGraphOfMarks(void* stream);
  // Returns nullptr where the driver makes none.
  void* MakeGraph(void* stream);
  void FreeGraphsOfMarks();
  Failure LaunchEach(void* stream, bool is_captured) const;

  const DriverApi& api_;
  bool makes_graphs_ = true;
  std::vector<std::byte> added_;
  std::size_t n_ = 0;        // launches and marks in added_
  std::size_t n_marks_ = 0;  // of them
  std::list<List> lists_;    // the one used last first
  std::unordered_map<std::uint64_t, std::list<List>::iterator> list_by_hash_;
  std::size_t bytes_ = 0;
  std::vector<void*> graphs_of_marks_;  // that the device may still run
};

}  // namespace fathom
