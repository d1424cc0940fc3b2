#include "kernels/vendor/launch_graphs.h"

#include <cstring>
#include <functional>
#include <string_view>
#include <type_traits>

#include "base/integer_math.h"

namespace fathom::kernels {
namespace {

// Graphs of marks that are kept until the device has run them.
constexpr std::size_t kMostGraphsOfMarks = 64;

// Precedes the arguments of a launch. All bytes count when lists are compared.
struct LaunchHeader {
  void* function;  // for a mark: the event
  unsigned grid_x, grid_y, threads, shared_bytes;
  std::uint32_t kernel;  // the kernel, or kMark
  std::uint32_t argument_bytes;
};
static_assert(std::has_unique_object_representations_v<LaunchHeader>);

constexpr std::uint32_t kMark = ~std::uint32_t{0};
constexpr std::size_t kAlignment = alignof(std::max_align_t);

std::size_t Padded(std::size_t bytes) { return RoundUp(bytes, kAlignment); }

void Append(std::vector<std::byte>& list, const LaunchHeader& header,
            std::span<const std::byte> arguments) {
  const std::size_t at = list.size();
  list.resize(at + Padded(sizeof(header)) + Padded(arguments.size()));
  std::memcpy(list.data() + at, &header, sizeof(header));
  if (!arguments.empty()) {
    std::memcpy(list.data() + at + Padded(sizeof(header)), arguments.data(), arguments.size());
  }
}

std::uint64_t HashOf(const std::vector<std::byte>& list) {
  static_assert(sizeof(std::size_t) == sizeof(std::uint64_t));
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(list.data()), list.size()});
}

bool AreEqual(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

void LaunchGraphs::Clear() {
  for (const List& list : lists_) {
    if (list.graph != nullptr) api_.free_ready_graph(list.graph);
  }
  lists_.clear();
  list_by_hash_.clear();
  bytes_ = 0;
  FreeGraphsOfMarks();
}

void LaunchGraphs::FreeGraphsOfMarks() {
  for (void* const graph : graphs_of_marks_) api_.free_ready_graph(graph);
  graphs_of_marks_.clear();
}

void LaunchGraphs::Add(const Launch& launch, std::span<const std::byte> arguments) {
  Append(added_,
         {launch.function, launch.grid_x, launch.grid_y, launch.threads, launch.shared_bytes,
          static_cast<std::uint32_t>(launch.kernel), static_cast<std::uint32_t>(arguments.size())},
         arguments);
  ++n_;
}

void LaunchGraphs::AddMark(void* event) {
  Append(added_, {event, 0, 0, 0, 0, kMark, 0}, {});
  ++n_;
  ++n_marks_;
}

LaunchGraphs::Failure LaunchGraphs::Flush(void* stream) {
  if (n_ == 0) return {};
  void* graph = nullptr;
  if (makes_graphs_ && HasMarks()) {
    graph = MakeGraphOfMarks(stream);
  } else if (makes_graphs_ && n_ >= kLeastLaunches) {
    graph = UseGraph(stream);
  }
  Failure failure = {.place = Failure::Place::kGraph};
  if (graph != nullptr) {
    failure.error = api_.launch_graph(graph, stream);
  } else {
    failure = LaunchEach(stream, /*is_captured=*/false);
  }
  added_.clear();
  n_ = 0;
  n_marks_ = 0;
  return failure;
}

// Two lists with one hash share a place: the later list replaces the earlier.
void* LaunchGraphs::UseGraph(void* stream) {
  const std::uint64_t hash = HashOf(added_);
  const auto found = list_by_hash_.find(hash);
  if (found == list_by_hash_.end()) {
    lists_.push_front({.hash = hash});
    list_by_hash_[hash] = lists_.begin();
    Shrink(stream);
    return nullptr;
  }
  List& list = *found->second;
  lists_.splice(lists_.begin(), lists_, found->second);
  if (AreEqual(list.launches, added_)) {
    if (list.graph == nullptr) list.graph = MakeGraph(stream);
    return list.graph;
  }
  Forget(list, stream);
  list = {.hash = hash, .launches = added_};
  bytes_ += list.launches.size();
  Shrink(stream);
  return nullptr;
}

// Keeps the list that was used now.
void LaunchGraphs::Shrink(void* stream) {
  while (lists_.size() > 1 && (lists_.size() > kMostLists || bytes_ > kMostBytes)) {
    Forget(lists_.back(), stream);
    list_by_hash_.erase(lists_.back().hash);
    lists_.pop_back();
  }
}

void LaunchGraphs::Forget(const List& list, void* stream) {
  bytes_ -= list.launches.size();
  if (list.graph == nullptr) return;
  api_.wait_for_stream(stream);  // every later call reports its error, too
  api_.free_ready_graph(list.graph);
}

void* LaunchGraphs::MakeGraphOfMarks(void* stream) {
  if (graphs_of_marks_.size() == kMostGraphsOfMarks) {
    api_.wait_for_stream(stream);
    FreeGraphsOfMarks();
  }
  void* const graph = MakeGraph(stream);
  if (graph != nullptr) graphs_of_marks_.push_back(graph);
  return graph;
}

// Captures the launches; nothing runs while the stream is captured.
void* LaunchGraphs::MakeGraph(void* stream) {
  void* graph = nullptr;
  void* ready = nullptr;
  int error = api_.begin_capture(stream, DriverApi::kOfThisThread);
  if (error == 0) {
    const Failure launched = LaunchEach(stream, /*is_captured=*/true);
    error = api_.end_capture(stream, &graph);
    if (error == 0) error = launched.error;
  }
  if (error == 0) error = api_.ready_graph(&ready, graph, 0);
  if (graph != nullptr) api_.free_graph(graph);
  makes_graphs_ = error == 0;
  return error == 0 ? ready : nullptr;
}

LaunchGraphs::Failure LaunchGraphs::LaunchEach(void* stream, bool is_captured) const {
  const std::byte* at = added_.data();
  for (std::size_t i = 0; i < n_; ++i) {
    LaunchHeader header;
    std::memcpy(&header, at, sizeof(header));
    at += Padded(sizeof(header));
    if (header.kernel == kMark) {
      const int error = is_captured ? api_.record_event_in_graph(header.function, stream,
                                                                 DriverApi::kRecordedByGraph)
                                    : api_.record_event(header.function, stream);
      if (error != 0) return {.error = error, .place = Failure::Place::kMark};
      continue;
    }
    // The driver takes addresses of arguments, and copies as many bytes as the kernel declares.
    void* arguments = const_cast<std::byte*>(at);
    at += Padded(header.argument_bytes);
    const int error = api_.launch(header.function, header.grid_x, header.grid_y, 1, header.threads,
                                  1, 1, header.shared_bytes, stream, &arguments, nullptr);
    if (error != 0) {
      return {.error = error,
              .launch = {.function = header.function,
                         .grid_x = header.grid_x,
                         .grid_y = header.grid_y,
                         .threads = header.threads,
                         .shared_bytes = header.shared_bytes,
                         .kernel = static_cast<GpuKernel>(header.kernel)}};
    }
  }
  return {};
}

}  // namespace fathom::kernels
