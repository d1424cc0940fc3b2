// Code objects: the kernels of kernels/gpu/device, compiled for the devices of one vendor and
// embedded in its module (cmake/gpu_objects.cmake).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace fathom::kernels {

struct CodeObject {
  std::string_view architecture;  // empty: all; the driver selects fitting code
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
};

struct CodeObjects {
  std::span<const std::string_view> architectures;  // architectures that the objects have code for
  std::span<const CodeObject> objects;
};

// Returns the code objects of the module that this function is linked into.
CodeObjects EmbeddedCodeObjects();

}  // namespace fathom::kernels
