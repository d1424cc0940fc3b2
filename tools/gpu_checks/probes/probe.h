// The probes of gpu_probe: what each is given, and where it prints.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/gpu_checks/probes/device.h"
#include "tools/gpu_checks/probes/language.h"

namespace fathom::probe {

using Line = nlohmann::ordered_json;

class ProbeRun {
 public:
  // `device` must outlive the object. `is_quick`: tiny sizes, for emulated devices.
  ProbeRun(std::string_view probe, ProbeDevice& device, bool is_quick)
      : probe_(probe), device_(device), is_quick_(is_quick) {}

  ProbeDevice& device() const { return device_; }
  bool is_quick() const { return is_quick_; }
  template <class T>
  T Size(T quick, T full) const {
    return is_quick_ ? quick : full;
  }
  // Prints {"probe": ..., "name": name, figures...} as a line of its own, at once.
  void Print(std::string_view name, const Line& figures) const;
  // Prints a line that says why a kernel cannot run here. Returns whether there was a reason.
  bool Skips(std::string_view name, std::string_view kernel) const;

 private:
  const std::string probe_;
  ProbeDevice& device_;
  const bool is_quick_;
};

// Each measures, prints its lines, and returns what ended it early.
Status CompareWrappers(const ProbeRun& run);
Status MeasureRates(const ProbeRun& run);
Status MeasureLaunches(const ProbeRun& run);
Status MeasureStreaming(const ProbeRun& run);
Status MeasureClusters(const ProbeRun& run);
Status MeasurePrefetch(const ProbeRun& run);
Status MeasureHost(const ProbeRun& run);

// Returns the sum, modulo 2^32, of the words of `bytes` bytes that are all `value`.
std::uint32_t SumOfFilled(unsigned char value, std::int64_t bytes);
// Adds "mismatch" to the line if the sums of the threads do not add up to what is expected.
void AddMismatchOfSums(Line& line, std::uint32_t expected, std::span<const std::uint32_t> sums);
// The mean of numbers, of which there is at least one: of times by the device's clock, which may be
// coarse, and the middle one of which would then say little.
double Mean(const std::vector<double>& numbers);
// Seconds from when the first block began to when the last one ended.
double SecondsOfBlocks(std::span<const BlockTimes> times);

}  // namespace fathom::probe
