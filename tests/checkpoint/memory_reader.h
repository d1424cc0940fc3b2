// A shard in memory, for tests of what reads blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/block_reader.h"

namespace fathom::testing {

// A file of bytes that differ, in memory; `result` decides about each call.
class MemoryReader : public BlockReader {
 public:
  using Result = std::function<std::int64_t(int call, std::int64_t offset, std::int64_t bytes)>;

  explicit MemoryReader(std::size_t size, Result result = {}) : result_(std::move(result)) {
    for (std::size_t i = 0; i < size; ++i) bytes_.push_back(static_cast<std::byte>(i * 7 % 251));
  }
  std::int64_t Read(std::size_t /*file*/, std::int64_t offset, std::span<std::byte> to) override {
    const std::int64_t left = std::max<std::int64_t>(std::ssize(bytes_) - offset, 0);
    std::int64_t n = std::min(left, std::ssize(to));
    if (result_) n = std::min(n, result_(n_calls_, offset, n));
    ++n_calls_;
    longest_ = std::max(longest_, std::ssize(to));
    if (n > 0) std::memcpy(to.data(), bytes_.data() + offset, static_cast<std::size_t>(n));
    return n;
  }
  std::string FileName(std::size_t /*file*/) const override { return "shard"; }

  std::vector<std::byte> bytes_;
  int n_calls_ = 0;
  std::int64_t longest_ = 0;

 private:
  Result result_;
};

}  // namespace fathom::testing
