// The MTP head (docs/spec/mtp.md 1): one block of ratio 0 behind the layers, and what feeds it.
#pragma once

#include <span>

#include "model/block.h"
#include "model/draft/drafter.h"
#include "model/draft/drafters.h"

namespace fathom {

extern const DrafterKind kMtpDrafter;

class MtpDrafter : public Drafter {
 public:
  explicit MtpDrafter(ModelState& model) : model_(model) {}

  int max_depth() const override { return kMtpDrafter.max_depth; }
  Status Prepare(const Batch& next, std::span<const std::int32_t> stream_rows,
                 StreamSource source) override;
  Status Forward(const Batch& next, std::span<const std::int32_t> stream_rows,
                 StreamSource source) override;
  Result<Matrix<const float>> Logits(std::span<const std::int32_t> rows) override;

 private:
  Status CheckStreams(const BatchView& next, std::span<const std::int32_t> stream_rows,
                      StreamSource source) const;
  const void* StreamsOf(const BatchView& next, std::int64_t row,
                        std::span<const std::int32_t> stream_rows, StreamSource source) const;
  void CopyStreams(const BatchView& next, std::span<const std::int32_t> stream_rows,
                   StreamSource source);
  Status RunHead(const Step& step);

  ModelState& model_;
};

}  // namespace fathom
