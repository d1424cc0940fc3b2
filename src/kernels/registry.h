// Makes backends by name.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/backend.h"
#include "kernels/cpu/isa.h"
#include "kernels/gpu_module.h"

namespace fathom::kernels {

// The names of backends, for options: "auto" chooses one.
inline constexpr std::string_view kBackendNames[] = {"auto", "cpu", "cuda", "hip"};

// The options of all backends; each backend uses the options that concern it.
struct BackendOptions {
  int n_threads = 1;              // threads of the host, including the caller's; >= 1
  std::vector<int> processors{};  // where threads are bound (ThreadTeam); empty: not bound
  std::optional<Isa> cpu_isa{};   // missing: the widest set of this machine
  bool can_profile = false;       // the CPU: MakeProfiler works (GPUs: it always does)
  int device = 0;                 // for a GPU backend: its number in the driver's order
  GpuDriverOptions gpu_driver{};
};

// Makes the backend of this name. "auto" is the CPU, until the kernels of GPUs have been run on a
// device. Errors: an unknown name (the message lists the names), errors of the backend, and of
// OpenGpuModule and GpuModule::Open (gpu_module.h).
Result<std::unique_ptr<Backend>> MakeBackend(std::string_view name, const BackendOptions& options);

// Makes the backend "cpu" for this machine's processor, with the arguments of BackendOptions. `isa`
// forces an instruction set; kScalar is the reference backend, on one thread. Errors: the machine
// does not have `isa` (the message names its sets), or n_threads < 1.
Result<std::unique_ptr<Backend>> MakeCpuBackend(std::optional<Isa> isa, int n_threads,
                                                std::span<const int> processors = {});

}  // namespace fathom::kernels
