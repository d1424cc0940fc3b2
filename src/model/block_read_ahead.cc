#include "model/block_read_ahead.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "base/pages.h"

namespace fathom {
namespace {

// The block that reads a tensor as a whole for every token; nullopt if there is none.
std::optional<std::int64_t> BlockOf(std::string_view name, std::int64_t n_layers) {
  constexpr std::string_view kLayers = "layers.";
  if (!name.starts_with(kLayers)) {
    const bool is_last =
        name.starts_with("head.") || name.starts_with("hc_head") || name.starts_with("norm.");
    return is_last ? std::optional(n_layers) : std::nullopt;
  }
  name.remove_prefix(kLayers.size());
  std::int64_t layer = 0;
  const auto parsed = std::from_chars(name.data(), name.data() + name.size(), layer);
  const bool by_row = name.find(".ffn.experts.") != std::string_view::npos ||
                      name.find("tid2eid") != std::string_view::npos;
  return parsed.ec == std::errc() && layer < n_layers && !by_row ? std::optional(layer)
                                                                 : std::nullopt;
}

}  // namespace

BlockReadAhead::BlockReadAhead(const Checkpoint& checkpoint, std::int64_t n_layers)
    : blocks_(static_cast<std::size_t>(n_layers + 1)) {
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    const std::optional<std::int64_t> block = BlockOf(tensor.name, n_layers);
    if (!block) {
      continue;
    }
    auto& ranges = blocks_[static_cast<std::size_t>(*block)];
    const std::span<const std::byte> bytes = tensor.view.bytes;
    if (!ranges.empty() && ranges.back().data() + ranges.back().size() == bytes.data()) {
      ranges.back() = {ranges.back().data(), ranges.back().size() + bytes.size()};
    } else {
      ranges.push_back(bytes);
    }
  }
}

void BlockReadAhead::Ask(std::int64_t i) {
  if (i >= std::ssize(blocks_)) {
    return;
  }
  auto& ranges = blocks_[static_cast<std::size_t>(i)];
  for (const std::span<const std::byte> bytes : ranges) {
    AdviseReadAhead(bytes);
  }
  ranges.clear();
}

}  // namespace fathom
