#include "tools/gpu_checks/probes/hopper_api.h"

#include <dlfcn.h>

#include <type_traits>

namespace fathom::probe {

HopperApi FindHopperApi(void* library) {
  HopperApi api;
  const auto load = [&](auto& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr && api.missing == nullptr) api.missing = name;
  };
  load(api.launch, "cuLaunchKernelEx");
  load(api.most_active_clusters, "cuOccupancyMaxActiveClusters");
  load(api.make_tensor_map, "cuTensorMapEncodeTiled");
  return api;
}

}  // namespace fathom::probe
