// SafetensorsWriter: writes one safetensors file as a stream, completely or not at all.
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

namespace fathom::checkpoint {

// Owns the unfinished file `<path>.partial-<process>`, beside `path`. Finish renames it; a writer
// that is destroyed before Finish removes it, so a reader never sees half a file. Movable; one
// thread at a time. Memory: one buffer of 1 MiB, for tensors of any size.
class SafetensorsWriter {
 public:
  struct Declaration {
    std::string name;
    DType dtype;
    std::vector<std::int64_t> shape;
  };

  // Writes the header. Tensors are stored in the order of `tensors`, back to back from a multiple
  // of 64 bytes: tensors declared by falling element size are aligned. Errors: the directory cannot
  // be written (named), a duplicate name, a shape without a size.
  static Result<SafetensorsWriter> Create(const std::filesystem::path& path,
                                          std::span<const Declaration> tensors);

  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) noexcept;
  ~SafetensorsWriter();

  // Appends the next bytes of the tensors, in the order of their declaration, divided anywhere.
  // After an error the file cannot be finished.
  Status Append(std::span<const std::byte> bytes);

  // Call after all declared bytes. On success, `path` is the complete file, on disk, and replaces
  // an earlier file with this name. On error, `path` is unchanged.
  Status Finish();

 private:
  class Impl;
  explicit SafetensorsWriter(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom::checkpoint
