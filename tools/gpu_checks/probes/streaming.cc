#include "tools/gpu_checks/probes/streaming.h"

#include <algorithm>

#include "tools/gpu_checks/probes/probe.h"
#include "tools/gpu_checks/probes/weights.h"

namespace fathom::probe {
namespace {

constexpr std::int64_t kMebibyte = 1 << 20;

// A kernel that reads weights.
struct Reader {
  std::string_view name;
  const char* kernel;
  int threads;
  std::int64_t shared_bytes;
};
constexpr Reader kReaders[] = {
    {"16-byte loads to registers", "StreamRegisters", kStreamThreads, 0},
    {"bulk copies to shared memory", "StreamBulk", kBulkThreads, kBulkShared}};

// Prints how fast one kernel reads: a graph of launches, each with another part of the weights.
void MeasureReader(const ProbeRun& run, Weights& weights, const Reader& reader, std::int64_t bytes,
                   int blocks) {
  ProbeDevice& device = run.device();
  const auto n_launches = static_cast<int>(std::min(std::int64_t{20}, weights.bytes() / bytes));
  auto* const sums = device.AllocateArray<std::uint32_t>(blocks * reader.threads);
  auto* const times = device.AllocateArray<BlockTimes>(n_launches * blocks);
  const GpuGrid grid = {
      .x = blocks, .threads = reader.threads, .shared_bytes = reader.shared_bytes};
  const auto read = [&](int i) {
    device.Launch(reader.kernel, grid,
                  StreamArguments{.from = weights.Part(i, bytes),
                                  .n = bytes / 16,
                                  .sums = sums,
                                  .times = times + i * blocks});
  };
  read(0);
  void* const graph = device.MakeGraph([&] {
    for (int i = 0; i < n_launches; ++i) read(i);
  });
  device.LaunchGraph(graph);  // brings the graph to the device
  weights.ForgetInCache();
  const double seconds = device.Time([&] { device.LaunchGraph(graph); });
  const auto all_times = device.DownloadArray(times, n_launches * blocks);
  const auto all_sums = device.DownloadArray(sums, blocks * reader.threads);
  if (!device.status()) return;
  std::vector<double> alone;
  for (int i = 0; i < n_launches; ++i) {
    alone.push_back(SecondsOfBlocks(std::span(all_times).subspan(
        static_cast<std::size_t>(i * blocks), static_cast<std::size_t>(blocks))));
  }
  const auto bytes_read = static_cast<double>(bytes);
  Line line = {{"mib", bytes_read / kMebibyte},
               {"blocks", blocks},
               {"us", Mean(alone) * 1e6},
               {"tb_s", bytes_read / Mean(alone) * 1e-12},
               {"chain_tb_s", bytes_read * n_launches / seconds * 1e-12}};
  AddMismatchOfSums(line, Weights::SumOfWords(bytes), all_sums);
  run.Print(reader.name, line);
}

}  // namespace

Status MeasureStreaming(const ProbeRun& run) {
  ProbeDevice& device = run.device();
  Weights weights(run);
  for (const Reader& reader : kReaders) {
    if (run.Skips(reader.name, reader.kernel)) continue;
    for (const std::int64_t size : {2, 4, 32}) {
      for (const int blocks : {64, 132, 264}) {
        MeasureReader(run, weights, reader, size * run.Size(kMebibyte / 64, kMebibyte),
                      run.Size(blocks / 64, blocks));
        if (!device.status()) return device.status();
      }
    }
  }
  return {};
}

}  // namespace fathom::probe
