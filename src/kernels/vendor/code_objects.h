// Code objects: the kernels of kernels/gpu/device, compiled for the devices of one vendor and
// embedded in its module (cmake/gpu_objects.cmake).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace fathom {

struct CodeObject {
  std::string_view architecture;  // empty: of all; the driver takes what fits the device
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
};

struct CodeObjects {
  std::span<const std::string_view> architectures;  // that the objects have code for
  std::span<const CodeObject> objects;
};

// The code objects of the module that this is linked into.
CodeObjects EmbeddedCodeObjects();

}  // namespace fathom
