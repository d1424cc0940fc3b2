#include "model/logit_gather.h"

#include <cstring>
#include <span>
#include <utility>

#include "base/check.h"

namespace fathom {

LogitGather::LogitGather(const ModelRanks& ranks, const Activations& a)
    : ranks_(ranks), a_(a), places_(static_cast<std::size_t>(MostLogitPlaces(ranks.share))) {
  incoming_.reserve(static_cast<std::size_t>(ranks.share.n_stage_ranks()));
}

// One rank has the whole head, and is who wants the logits.
bool LogitGather::IsWhole() const {
  return ranks_.share.n_stage_ranks() * ranks_.share.n_stages == 1;
}

// What a rank of the last stage gives of the n rows in a place.
Matrix<float> LogitGather::ShareOf(int stage_rank, std::int64_t n, int place) const {
  const std::int64_t width = a_.logits.cols / ranks_.share.n_stage_ranks();
  const std::int64_t first = place * a_.logits.rows * a_.logits.cols;
  return {a_.logit_shares.data + first + stage_rank * n * width, n, width};
}

Matrix<float> LogitGather::Share(std::int64_t n) const {
  return IsWhole() ? a_.logits.Rows(0, n) : ShareOf(ranks_.share.stage_rank(), n, 0);
}

Status LogitGather::Start(std::int64_t n, int place) {
  Check(place >= 0 && place < std::ssize(places_), "a place for logits");
  Place& taken = places_[static_cast<std::size_t>(place)];
  Check(!taken.taken, "logits of a place that have not been taken yet");
  taken = {.taken = true, .n = n, .exchange = nullptr};
  if (IsWhole() || n == 0) {
    return {};
  }
  if (ranks_.all->rank() == 0) {
    return Receive(n, place);
  }
  return ranks_.share.is_last_stage() ? ranks_.all->Send(0, BytesOf(Share(n))) : Status();
}

Status LogitGather::Receive(std::int64_t n, int place) {
  const ModelShard& share = ranks_.share;
  const int first = share.n_stage_ranks() * (share.n_stages - 1);  // rank of the last stage
  incoming_.clear();
  for (int r = 0; r < share.n_stage_ranks(); ++r) {
    if (first + r != 0) {
      incoming_.push_back({first + r, BytesOf(ShareOf(r, n, place))});
    }
  }
  Result<std::unique_ptr<Exchange>> started = ranks_.all->Start({}, incoming_);
  if (!started) {
    return Unexpected(started.error());
  }
  places_[static_cast<std::size_t>(place)].exchange = *std::move(started);
  return {};
}

Status LogitGather::Poll() {
  for (const Place& place : places_) {
    if (place.exchange != nullptr) {
      if (const Result<bool> polled = place.exchange->Poll(); !polled) {
        return Unexpected(polled.error());
      }
    }
  }
  return {};
}

Result<Matrix<const float>> LogitGather::Finish(int place) {
  Place& taken = places_[static_cast<std::size_t>(place)];
  Check(taken.taken, "logits that were asked for");
  taken.taken = false;
  const Matrix<float> all = a_.logits.Rows(0, taken.n);
  if (IsWhole() || taken.n == 0) {
    return all;
  }
  if (ranks_.all->rank() != 0) {
    return all.Rows(0, 0);
  }
  if (Status received = std::exchange(taken.exchange, nullptr)->Wait(); !received) {
    return Unexpected(received.error());
  }
  for (int r = 0; r < ranks_.share.n_stage_ranks(); ++r) {
    const Matrix<float> part = ShareOf(r, taken.n, place);
    for (std::int64_t row = 0; row < taken.n; ++row) {
      std::memcpy(all.Row(row) + r * part.cols, part.Row(row),
                  static_cast<std::size_t>(part.cols) * sizeof(float));
    }
  }
  return all;
}

}  // namespace fathom
