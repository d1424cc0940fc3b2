#include "model/draft/stream_check.h"

#include "base/check.h"

namespace fathom::model {

Status CheckStreams(const ModelState& model, const BatchView& next,
                    std::span<const std::int32_t> stream_rows, StreamSource source) {
  const bool kept = source == StreamSource::kKept;
  Check(std::ssize(stream_rows) == (kept ? 0 : next.n_tokens()),
        "one stream row per token that is committed");
  for (std::int64_t i = 0; i < next.n_tokens(); ++i) {
    const TokenPosition found = RowPosition(next, i);
    TokenPosition expected = {
        found.sequence, static_cast<std::int32_t>(model.cache->next_position(found.sequence)) - 1};
    std::int32_t row = -1;
    if (!kept) {
      row = stream_rows[static_cast<std::size_t>(i)];
      Check(row >= 0 && row < std::ssize(model.main->positions),
            "a committed row that the last step did not have");
      expected = model.main->positions[static_cast<std::size_t>(row)];
    }
    if (expected != found || model.cache->next_position(found.sequence) == 0) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "draft row {}: expected sequence {} position {} (row {} of the last step), "
                       "found sequence {} position {}",
                       i, expected.sequence, expected.position, row, found.sequence,
                       found.position);
    }
  }
  return {};
}

}  // namespace fathom::model
