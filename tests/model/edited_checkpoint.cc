#include "tests/model/edited_checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/check.h"
#include "checkpoint/safetensors.h"

namespace fathom::testing {

EditedCheckpoint::EditedCheckpoint(const std::filesystem::path& source) : source_(source) {
  const Result<Checkpoint> checkpoint = Checkpoint::Open(source);
  EXPECT_TRUE(checkpoint) << (checkpoint ? "" : checkpoint.error().message);
  if (!checkpoint) {
    return;
  }
  for (const Checkpoint::Tensor& tensor : checkpoint->tensors()) {
    const auto* bytes = reinterpret_cast<const char*>(tensor.view.bytes.data());
    tensors_.push_back({{tensor.name, tensor.view.dtype, tensor.view.shape},
                        std::string(bytes, tensor.view.bytes.size())});
  }
}

EditedCheckpoint::Tensor& EditedCheckpoint::Find(std::string_view name) {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&](const Tensor& tensor) { return tensor.spec.name == name; });
  Check(found != tensors_.end(), "a tensor of the checkpoint");
  return *found;
}

void EditedCheckpoint::Remove(std::string_view prefix) {
  std::erase_if(tensors_,
                [&](const Tensor& tensor) { return tensor.spec.name.starts_with(prefix); });
}

const std::filesystem::path& EditedCheckpoint::Write() {
  std::vector<TensorSpec> specs;
  std::string data;
  for (const Tensor& tensor : tensors_) {
    specs.push_back(tensor.spec);
    data += tensor.bytes;
  }
  WriteFile(directory_.path() / "model.safetensors",
            SafetensorsBytes(SafetensorsHeaderText(specs), data));
  WriteFile(directory_.path() / "config.json", ReadFile(source_ / "config.json"));
  return directory_.path();
}

}  // namespace fathom::testing
