#include "kernels/vendor/driver_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <type_traits>

namespace fathom::kernels {
namespace {

// Calls load(function, name in CUDA, name in HIP) for each function; nullptr: the vendor has none.
template <class Load>
void ForEachFunction(DriverApi& api, const Load& load) {
  load(api.initialize, "cuInit", "hipInit");
  load(api.version, "cuDriverGetVersion", "hipRuntimeGetVersion");
  load(api.error_text, "cuGetErrorString", "hipDrvGetErrorString");
  load(api.device_count, "cuDeviceGetCount", "hipGetDeviceCount");
  load(api.device, "cuDeviceGet", "hipDeviceGet");
  load(api.device_name, "cuDeviceGetName", "hipDeviceGetName");
  load(api.device_memory, "cuDeviceTotalMem_v2", "hipDeviceTotalMem");
  load(api.device_attribute, "cuDeviceGetAttribute", "hipDeviceGetAttribute");
  load(api.device_properties, nullptr, "hipGetDevicePropertiesR0600");
  load(api.retain_context, "cuDevicePrimaryCtxRetain", nullptr);
  load(api.release_context, "cuDevicePrimaryCtxRelease_v2", nullptr);
  load(api.set_context, "cuCtxSetCurrent", nullptr);
  load(api.set_device, nullptr, "hipSetDevice");
  load(api.memory, "cuMemGetInfo_v2", "hipMemGetInfo");
  load(api.allocate, "cuMemAlloc_v2", "hipMalloc");
  load(api.free, "cuMemFree_v2", "hipFree");
  load(api.allocate_host, "cuMemHostAlloc", "hipHostMalloc");
  load(api.free_host, "cuMemFreeHost", "hipHostFree");
  load(api.address_of_host, "cuMemHostGetDevicePointer_v2", "hipHostGetDevicePointer");
  load(api.register_host, "cuMemHostRegister_v2", "hipHostRegister");
  load(api.unregister_host, "cuMemHostUnregister", "hipHostUnregister");
  load(api.fill, "cuMemsetD8Async", "hipMemsetD8Async");
  load(api.upload, "cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync");
  load(api.download, "cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync");
  load(api.make_stream, "cuStreamCreate", "hipStreamCreateWithFlags");
  load(api.wait_for_stream, "cuStreamSynchronize", "hipStreamSynchronize");
  load(api.free_stream, "cuStreamDestroy_v2", "hipStreamDestroy");
  load(api.make_event, "cuEventCreate", "hipEventCreateWithFlags");
  load(api.record_event, "cuEventRecord", "hipEventRecord");
  load(api.record_event_in_graph, "cuEventRecordWithFlags", nullptr);
  load(api.wait_for_event, "cuEventSynchronize", "hipEventSynchronize");
  load(api.elapsed_time, "cuEventElapsedTime", "hipEventElapsedTime");
  load(api.free_event, "cuEventDestroy_v2", "hipEventDestroy");
  load(api.load_module, "cuModuleLoadData", "hipModuleLoadData");
  load(api.unload_module, "cuModuleUnload", "hipModuleUnload");
  load(api.find_function, "cuModuleGetFunction", "hipModuleGetFunction");
  load(api.set_function_attribute, "cuFuncSetAttribute", nullptr);
  load(api.launch, "cuLaunchKernel", "hipModuleLaunchKernel");
  load(api.begin_capture, "cuStreamBeginCapture_v2", "hipStreamBeginCapture");
  load(api.end_capture, "cuStreamEndCapture", "hipStreamEndCapture");
  load(api.ready_graph, "cuGraphInstantiateWithFlags", "hipGraphInstantiateWithFlags");
  load(api.free_graph, "cuGraphDestroy", "hipGraphDestroy");
  load(api.launch_graph, "cuGraphLaunch", "hipGraphLaunch");
  load(api.free_ready_graph, "cuGraphExecDestroy", "hipGraphExecDestroy");
}

}  // namespace

DriverApi FindDriverApi(void* library, GpuVendorName vendor) {
  DriverApi api;
  ForEachFunction(api, [&](auto& function, const char* cuda, const char* hip) {
    const char* const name = vendor == GpuVendorName::kCuda ? cuda : hip;
    if (name == nullptr) return;
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr && api.missing == nullptr) api.missing = name;
  });
  return api;
}

std::string ErrorText(const DriverApi& api, int error) {
  const char* text = nullptr;
  api.error_text(error, &text);
  return fmt::format("{} (error {})", text == nullptr ? "unknown" : text, error);
}

}  // namespace fathom::kernels
