// Chooses whether device or host computes the routed experts that do not fit into a device's
// memory.
#pragma once

#include <cstdint>
#include <string_view>

namespace fathom::model {

enum class HostExpertChoice : std::uint8_t {
  kAuto,  // kGpu up to kMostSharedExperts (model/memory_plan.h) of all, else kCpu
  kGpu,   // the device, which reads them in memory of the host
  kCpu,   // the host
};
// Names of the choices for options.
inline constexpr std::string_view kHostExpertNames[] = {"auto", "gpu", "cpu"};

}  // namespace fathom::model
