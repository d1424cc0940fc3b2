// CurrentDevice: selects the device for a thread's calls to the driver.
#pragma once

#include "kernels/vendor/driver_api.h"

namespace fathom::kernels {

// Owns the driver's state for the device. Any thread may use it, and sets the device before its
// calls.
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
  // Makes this device the current device of the calling thread.
  int Set() const {
    return api_.set_context != nullptr ? api_.set_context(context_) : api_.set_device(device_);
  }

 private:
  const DriverApi& api_;
  int device_ = 0;
  void* context_ = nullptr;
};

}  // namespace fathom::kernels
