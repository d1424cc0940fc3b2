// DriverApi: the functions of a vendor's driver library, under common names for both vendors.
//
// CUDA's driver API and HIP have the same functions with the same arguments under different names.
// They are declared here, so that a build needs no header of a vendor. Handles are pointers,
// devices are numbers; every function returns 0 or the number of an error.
#pragma once

#include <cstddef>
#include <string>

namespace fathom::kernels {

enum class GpuVendorName { kCuda, kHip };

struct DriverApi {
  const char* missing = nullptr;  // the first function that the library lacks; nullptr: none

  int (*initialize)(unsigned flags) = nullptr;
  int (*version)(int* version) = nullptr;
  int (*error_text)(int error, const char** text) = nullptr;

  int (*device_count)(int* count) = nullptr;
  int (*device)(int* device, int number) = nullptr;
  int (*device_name)(char* name, int length, int device) = nullptr;
  int (*device_memory)(std::size_t* bytes, int device) = nullptr;
  int (*device_attribute)(int* value, int attribute, int device) = nullptr;
  int (*device_properties)(void* properties, int device) = nullptr;  // HIP only

  // Select the device for later calls of this thread: a context in CUDA, a number in HIP.
  int (*retain_context)(void** context, int device) = nullptr;  // CUDA only
  int (*release_context)(int device) = nullptr;                 // CUDA only
  int (*set_context)(void* context) = nullptr;                  // CUDA only
  int (*set_device)(int device) = nullptr;                      // HIP only

  int (*memory)(std::size_t* free, std::size_t* total) = nullptr;
  int (*allocate)(void** address, std::size_t bytes) = nullptr;
  int (*free)(void* address) = nullptr;
  int (*allocate_host)(void** address, std::size_t bytes, unsigned flags) = nullptr;
  int (*free_host)(void* address) = nullptr;
  int (*address_of_host)(void** address, void* host, unsigned flags) = nullptr;
  int (*register_host)(void* host, std::size_t bytes, unsigned flags) = nullptr;
  int (*unregister_host)(void* host) = nullptr;
  int (*fill)(void* to, unsigned char value, std::size_t bytes, void* stream) = nullptr;
  int (*upload)(void* to, const void* from, std::size_t bytes, void* stream) = nullptr;
  int (*download)(void* to, const void* from, std::size_t bytes, void* stream) = nullptr;

  int (*make_stream)(void** stream, unsigned flags) = nullptr;
  int (*wait_for_stream)(void* stream) = nullptr;
  int (*free_stream)(void* stream) = nullptr;
  int (*make_event)(void** event, unsigned flags) = nullptr;
  int (*record_event)(void* event, void* stream) = nullptr;
  // Like record_event; with kRecordedByGraph during a capture, the graph records the event each
  // time it runs. CUDA only.
  int (*record_event_in_graph)(void* event, void* stream, unsigned flags) = nullptr;
  int (*wait_for_event)(void* event) = nullptr;
  int (*elapsed_time)(float* milliseconds, void* first, void* last) = nullptr;
  int (*free_event)(void* event) = nullptr;

  int (*load_module)(void** module, const void* image) = nullptr;
  int (*unload_module)(void* module) = nullptr;
  int (*find_function)(void** function, void* module, const char* name) = nullptr;
  int (*set_function_attribute)(void* function, int attribute, int value) = nullptr;  // CUDA only
  int (*launch)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream,
                void** arguments, void** extra) = nullptr;

  // Between the first two calls, enqueued work becomes a graph instead. launch_graph enqueues all
  // work of an instantiated graph.
  int (*begin_capture)(void* stream, int mode) = nullptr;
  int (*end_capture)(void* stream, void** graph) = nullptr;
  int (*ready_graph)(void** ready, void* graph, unsigned long long flags) = nullptr;
  int (*free_graph)(void* graph) = nullptr;
  int (*launch_graph)(void* ready, void* stream) = nullptr;
  int (*free_ready_graph)(void* ready) = nullptr;

  // Numbers of errors, equal for both vendors.
  static constexpr int kOutOfMemory = 2;
  static constexpr int kNoDevice = 100;
  // Flags, equal for both vendors: a stream that does not wait for the default stream, an event
  // without time.
  static constexpr unsigned kNonBlocking = 1;
  static constexpr unsigned kWithoutTime = 2;
  static constexpr unsigned kWithTime = 0;
  // A flag of record_event_in_graph.
  static constexpr unsigned kRecordedByGraph = 1;
  // A mode of begin_capture: does not affect calls of other threads.
  static constexpr int kOfThisThread = 1;
};

// Finds the functions in a library that dlopen has returned.
DriverApi FindDriverApi(void* library, GpuVendorName vendor);

// Returns "unspecified launch failure (error 719)".
std::string ErrorText(const DriverApi& api, int error);

}  // namespace fathom::kernels
