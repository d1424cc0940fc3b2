#include "model/block_read_ahead.h"

#include <optional>
#include <utility>

#include "base/pages.h"
#include "model/model_tensors.h"

namespace fathom::model {
BlockReadAhead::BlockReadAhead(const Checkpoint& checkpoint, std::int64_t n_layers)
    : layers_(static_cast<std::size_t>(n_layers)) {
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    const std::optional<std::int64_t> layer = ParseLayer(tensor.name);
    if (!layer || *layer >= n_layers) continue;
    // A step reads single experts or rows of these tensors, and all others as a whole.
    if (IsRoutedExpert(tensor.name) || IsExpertTable(tensor.name)) continue;
    auto& ranges = layers_[static_cast<std::size_t>(*layer)];
    const std::span<const std::byte> bytes = tensor.view.bytes;
    if (!ranges.empty() && ranges.back().data() + ranges.back().size() == bytes.data()) {
      ranges.back() = {ranges.back().data(), ranges.back().size() + bytes.size()};
    } else {
      ranges.push_back(bytes);
    }
  }
}

void BlockReadAhead::Request(std::int64_t layer) {
  if (layer < std::ssize(layers_)) {
    for (const std::span<const std::byte> bytes :
         std::exchange(layers_[static_cast<std::size_t>(layer)], {})) {
      AdviseReadAhead(bytes);
    }
  }
}

}  // namespace fathom::model
