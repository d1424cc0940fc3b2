#include "kernels/vendor/vendor_module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "kernels/vendor/driver_api.h"
#include "kernels/vendor/vendor_driver.h"

namespace fathom::kernels {
namespace {

// Opens the driver library of this process, which stays open.
Result<void*> OpenLibrary(const GpuVendor& vendor) {
  std::string reason;
  for (const std::string& file : vendor.libraries) {
    if (void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL); library != nullptr) {
      return library;
    }
    if (reason.empty()) reason = ::dlerror();
  }
  return MakeError(ErrorCode::kUnavailable, "{}: expected a driver of {}, found none ({})",
                   vendor.title, vendor.least_driver, reason);
}

// The version of a driver can be read before the driver is initialised.
Status CheckVersion(const GpuVendor& vendor, const DriverApi& api) {
  int version = 0;
  if (api.version == nullptr || api.version(&version) != 0) return {};
  const auto [per_major, per_minor] = vendor.version_units;
  if (version / per_major >= vendor.least_major) return {};
  return MakeError(ErrorCode::kUnavailable, "{}: expected a driver of {}, found one of {}.{}",
                   vendor.title, vendor.least_driver, version / per_major,
                   version % per_major / per_minor);
}

class VendorModule : public GpuModule {
 public:
  VendorModule(GpuVendor vendor, const CodeObjects& code)
      : vendor_(std::move(vendor)), code_(code) {}

  // Called once, before the other functions.
  Status Start();

  std::span<const FoundGpu> devices() const override { return devices_; }
  Result<std::unique_ptr<GpuDriver>> Open(int number, const GpuDriverOptions& options) override;

 private:
  FoundGpu Describe(int number) const;
  std::string Title(int number) const;

  GpuVendor vendor_;
  CodeObjects code_;
  DriverApi api_;
  std::vector<FoundGpu> devices_;
};

Status VendorModule::Start() {
  const Result<void*> library = OpenLibrary(vendor_);
  if (!library) return Unexpected(library.error());
  api_ = FindDriverApi(*library, vendor_.name);
  if (Status checked = CheckVersion(vendor_, api_); !checked) return checked;
  if (api_.missing != nullptr) {
    return MakeError(ErrorCode::kUnavailable,
                     "{}: expected a driver of {}, found one without the function {}",
                     vendor_.title, vendor_.least_driver, api_.missing);
  }
  int n_devices = 0;
  int error = api_.initialize(0);
  if (error == 0) error = api_.device_count(&n_devices);
  if (error == DriverApi::kNoDevice || (error == 0 && n_devices == 0)) {
    return MakeError(ErrorCode::kUnavailable, "{}: expected a device, found none", vendor_.title);
  }
  if (error != 0) {
    return MakeError(ErrorCode::kUnavailable, "{}: expected a driver that starts, found: {}",
                     vendor_.title, ErrorText(api_, error));
  }
  for (int number = 0; number < n_devices; ++number) {
    devices_.push_back(Describe(number));
  }
  return {};
}

FoundGpu VendorModule::Describe(int number) const {
  FoundGpu found;
  int device = 0;
  std::array<char, 256> name = {};
  std::size_t memory_bytes = 0;
  int shared_bytes = 0;
  int is_integrated = 0;
  int error = api_.device(&device, number);
  if (error == 0) error = api_.device_name(name.data(), static_cast<int>(name.size()) - 1, device);
  if (error == 0) error = api_.device_memory(&memory_bytes, device);
  const auto read = [&](int& value, int attribute) {
    if (error == 0) error = api_.device_attribute(&value, attribute, device);
  };
  read(found.device.n_multiprocessors, vendor_.n_multiprocessors);
  read(found.device.wave_size, vendor_.wave_size);
  read(shared_bytes, vendor_.shared_bytes);
  read(is_integrated, vendor_.is_integrated);
  found.device.name = name.data();
  found.device.memory_bytes = static_cast<std::int64_t>(memory_bytes);
  found.device.shared_bytes = shared_bytes;
  found.device.is_integrated = is_integrated != 0;
  if (error != 0) {
    found.obstacle = ErrorText(api_, error);
    return found;
  }
  Result<std::string> architecture = vendor_.choose_architecture(api_, device, code_.architectures);
  if (architecture) {
    found.device.architecture = *std::move(architecture);
  } else {
    found.obstacle = architecture.error().message;
  }
  return found;
}

std::string VendorModule::Title(int number) const {
  const std::string& name = devices_[static_cast<std::size_t>(number)].device.name;
  return fmt::format("{} device {}{}", vendor_.title, number,
                     name.empty() ? "" : fmt::format(" ({})", name));
}

Result<std::unique_ptr<GpuDriver>> VendorModule::Open(int number, const GpuDriverOptions& options) {
  const auto n_devices = static_cast<int>(devices_.size());
  if (number < 0 || number >= n_devices) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: expected a device from 0 to {}, found {}",
                     vendor_.title, n_devices - 1, number);
  }
  const FoundGpu& found = devices_[static_cast<std::size_t>(number)];
  if (!found.obstacle.empty()) {
    return MakeError(ErrorCode::kUnsupported, "{}: {}", Title(number), found.obstacle);
  }
  return OpenVendorDriver(vendor_, api_, code_,
                          {.number = number, .device = found.device, .title = Title(number)},
                          options);
}

}  // namespace

Result<std::unique_ptr<GpuModule>> MakeVendorModule(const GpuVendor& vendor,
                                                    const CodeObjects& code) {
  auto module = std::make_unique<VendorModule>(vendor, code);
  if (Status started = module->Start(); !started) return Unexpected(started.error());
  return module;
}

}  // namespace fathom::kernels
