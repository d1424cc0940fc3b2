#include "kernels/vendor/launch_graphs.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/integer_math.h"

namespace fathom {
namespace {

// The bytes before the arguments of a launch. All bytes count when lists are compared.
struct LaunchHeader {
  void* function;
  unsigned grid_x, grid_y, threads, shared_bytes;
  std::uint32_t kernel;
  std::uint32_t argument_bytes;
};
static_assert(std::has_unique_object_representations_v<LaunchHeader>);

constexpr std::size_t kAlignment = alignof(std::max_align_t);

std::size_t Padded(std::size_t bytes) { return RoundUp(bytes, kAlignment); }

}  // namespace

void LaunchGraphs::Clear() {
  for (const List& list : lists_) {
    if (list.graph != nullptr) api_.free_ready_graph(list.graph);
  }
  lists_.clear();
}

void LaunchGraphs::Add(const Launch& launch, std::span<const std::byte> arguments) {
  const LaunchHeader header = {launch.function,
                               launch.grid_x,
                               launch.grid_y,
                               launch.threads,
                               launch.shared_bytes,
                               static_cast<std::uint32_t>(launch.kernel),
                               static_cast<std::uint32_t>(arguments.size())};
  const std::size_t at = added_.size();
  added_.resize(at + Padded(sizeof(header)) + Padded(arguments.size()));
  std::memcpy(added_.data() + at, &header, sizeof(header));
  if (!arguments.empty()) {
    std::memcpy(added_.data() + at + Padded(sizeof(header)), arguments.data(), arguments.size());
  }
  ++n_;
}

LaunchGraphs::Failure LaunchGraphs::Flush(void* stream) {
  if (n_ == 0) return {};
  Failure failure;
  List* const known = n_ >= kLeastLaunches && are_possible_ ? Find() : nullptr;
  if (known != nullptr) {
    known->last_use = ++n_uses_;
    if (known->graph == nullptr) known->graph = MakeGraph(stream);
  }
  if (known != nullptr && known->graph != nullptr) {
    failure = {.error = api_.launch_graph(known->graph, stream), .is_of_graph = true};
  } else {
    failure = LaunchEach(stream);
    if (known == nullptr && n_ >= kLeastLaunches && are_possible_) Remember(stream);
  }
  added_.clear();
  n_ = 0;
  return failure;
}

// Most lists differ in their length or in one of the first launches.
LaunchGraphs::List* LaunchGraphs::Find() {
  const auto found = std::ranges::find(lists_, added_, &List::bytes);
  return found == lists_.end() ? nullptr : &*found;
}

void LaunchGraphs::Remember(void* stream) {
  if (lists_.size() < kMostLists) {
    lists_.push_back({.bytes = {}, .last_use = ++n_uses_});
    std::swap(lists_.back().bytes, added_);
    return;
  }
  List& oldest = *std::ranges::min_element(lists_, {}, &List::last_use);
  if (oldest.graph != nullptr) {
    api_.wait_for_stream(stream);  // an error of it is told by every later call
    api_.free_ready_graph(std::exchange(oldest.graph, nullptr));
  }
  std::swap(oldest.bytes, added_);
  oldest.last_use = ++n_uses_;
}

// Nothing runs while the stream is captured.
void* LaunchGraphs::MakeGraph(void* stream) {
  void* graph = nullptr;
  void* ready = nullptr;
  int error = api_.begin_capture(stream, DriverApi::kOfThisThread);
  if (error == 0) {
    const Failure launched = LaunchEach(stream);
    error = api_.end_capture(stream, &graph);
    if (error == 0) error = launched.error;
  }
  if (error == 0) error = api_.ready_graph(&ready, graph, 0);
  if (graph != nullptr) api_.free_graph(graph);
  are_possible_ = error == 0;
  return error == 0 ? ready : nullptr;
}

LaunchGraphs::Failure LaunchGraphs::LaunchEach(void* stream) const {
  const std::byte* at = added_.data();
  for (std::size_t i = 0; i < n_; ++i) {
    LaunchHeader header;
    std::memcpy(&header, at, sizeof(header));
    at += Padded(sizeof(header));
    // The driver takes addresses of arguments, and copies as many bytes as the kernel declares.
    void* arguments = const_cast<std::byte*>(at);
    at += Padded(header.argument_bytes);
    const int error = api_.launch(header.function, header.grid_x, header.grid_y, 1, header.threads,
                                  1, 1, header.shared_bytes, stream, &arguments, nullptr);
    if (error != 0) return {.error = error, .kernel = static_cast<GpuKernel>(header.kernel)};
  }
  return {};
}

}  // namespace fathom
