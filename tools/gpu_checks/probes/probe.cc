#include "tools/gpu_checks/probes/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace fathom::probe {

void ProbeRun::Print(std::string_view name, const Line& figures) const {
  Line line = {{"probe", probe_}, {"name", name}};
  line.update(figures);
  fmt::print("{}\n", line.dump(-1, ' ', false, Line::error_handler_t::replace));
  std::fflush(stdout);
}

bool ProbeRun::Skips(std::string_view name, std::string_view kernel) const {
  const std::string why = device_.WhyMissing(kernel);
  if (why.empty()) return false;
  Print(name, {{"skipped", why}});
  return true;
}

double Mean(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

std::uint32_t SumOfFilled(unsigned char value, std::int64_t bytes) {
  return static_cast<std::uint32_t>(bytes / 4) * (value * 0x01010101u);
}

void AddMismatchOfSums(Line& line, std::uint32_t expected, std::span<const std::uint32_t> sums) {
  const std::uint32_t found = std::accumulate(sums.begin(), sums.end(), std::uint32_t{0});
  if (found == expected) return;
  line["mismatch"] =
      fmt::format("the sum of all words: expected {:08x}, found {:08x}", expected, found);
}

double SecondsOfBlocks(std::span<const BlockTimes> times) {
  BlockTimes all = times.front();
  for (const BlockTimes& block : times) {
    all = {std::min(all.began, block.began), std::max(all.ended, block.ended)};
  }
  return static_cast<double>(all.ended - all.began) * 1e-9;
}

}  // namespace fathom::probe
