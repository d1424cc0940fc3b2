// A HostPlan as text and as JSON.
#pragma once

#include <string>

#include "json/json_value.h"
#include "runtime/host_plan.h"

namespace fathom {

// Returns one line: "16.000 GB of memory: 0.140 GB caches, 0.245 GB activations, 7.793 GB dense
// weights; 480 of 11008 experts (4.4 %), expected hit rate 0.41, 2.038 GB read per token, 1.14
// tokens/s (disk 3 GB/s, memory 40 GB/s, assumed)".
std::string Describe(const HostPlan& plan, const HostSpeeds& speeds);
// Returns the line without the speed.
std::string Describe(const HostPlan& plan);

// Returns everything, in bytes and seconds.
JsonValue ToJson(const HostPlan& plan, const HostSpeeds& speeds);

}  // namespace fathom
