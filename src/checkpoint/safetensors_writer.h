// SafetensorsWriter: writes one safetensors file as a stream, all of it or none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace fathom {

// Owns the unfinished file `<path>.partial-<process>`, beside `path`. Finish gives it its name; a
// writer that is destroyed before that removes it, so a reader never sees half a file. Movable; one
// thread at a time. Memory: one buffer of 1 MiB, whatever the size of the tensors.
class SafetensorsWriter {
 public:
  struct Declaration {
    std::string name;
    DType dtype;
    std::vector<std::int64_t> shape;
  };

  // Writes the header. Tensors lie in the file in the order of `tensors`, back to back from a
  // multiple of 64 bytes: declared by falling element size, all of them are aligned. Errors: the
  // directory cannot be written (named), a name twice, a shape that has no size.
  static Result<SafetensorsWriter> Create(const std::filesystem::path& path,
                                          std::span<const Declaration> tensors);

  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) noexcept;
  ~SafetensorsWriter();

  // The next bytes of the tensors, in the order of their declaration, cut anywhere. After an error
  // the file cannot be finished any more.
  Status Append(std::span<const std::byte> bytes);

  // All declared bytes must have been appended. On success `path` is the complete file, on disk;
  // a file that was there before is replaced. On error `path` is as it was.
  Status Finish();

 private:
  class Impl;
  explicit SafetensorsWriter(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
