// CurrentDevice: the device that calls of a thread to the driver are for.
#pragma once

#include "kernels/vendor/driver_api.h"

namespace fathom {

// Keeps what the driver holds for the device. Threads: any; each sets the device before its calls.
class CurrentDevice {
 public:
  // `api` must outlive the object.
  explicit CurrentDevice(const DriverApi& api) : api_(api) {}
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice() {
    if (context_ != nullptr) api_.release_context(device_);
  }

  // Finds the device, and makes its context where the vendor has contexts. Called once. Returns 0
  // or an error of the driver, as Set does.
  int Open(int number) {
    const int error = api_.device(&device_, number);
    if (error != 0 || api_.retain_context == nullptr) return error;
    return api_.retain_context(&context_, device_);
  }
  // Makes it the device of the calling thread.
  int Set() const {
    return api_.set_context != nullptr ? api_.set_context(context_) : api_.set_device(device_);
  }

 private:
  const DriverApi& api_;
  int device_ = 0;
  void* context_ = nullptr;
};

}  // namespace fathom
