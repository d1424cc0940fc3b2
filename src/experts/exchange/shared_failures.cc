#include "experts/exchange/shared_failures.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>

namespace fathom::experts {
namespace {

using Clock = std::chrono::steady_clock;

// Precedes the text of an error in a message.
struct NewsHeader {
  std::int64_t place;
  std::int64_t expert;
  std::int64_t code;
  std::int64_t n_text;
};

// A rank's message to the others after a step.
struct RankReport {
  std::int64_t n_packed = 0;                   // bytes of its packed news
  std::int64_t since_third_last_failure = -1;  // ns; negative: there were fewer failures
  StreamingCounts counts;
};

std::size_t Count(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

Matrix<std::int32_t> SharedFailures::Notes(const ForwardPass& pass, std::int64_t layer) const {
  const Matrix<std::int32_t> all = pass.workspace->activations().noted_ids;
  const std::int64_t n_rows = all.rows / (end_layer_ - first_layer_);
  return all.Rows((layer - first_layer_) * n_rows, n_rows);
}

void SharedFailures::Note(ForwardPass& pass, std::int64_t block,
                          Matrix<const std::int32_t> ids) const {
  if (block < first_layer_ || block >= end_layer_) return;
  std::copy_n(ids.data, ids.rows * ids.cols, Notes(pass, block).data);
}

Status SharedFailures::Share(ForwardPass& pass, const ExpertHomes& homes,
                             const StreamingCounts& counts) {
  std::vector<News> news;
  for (const ExpertFailure& failure : pass.expert_failures) {
    news.push_back({ranks_.rank(), failure.block, failure.expert, failure.error});
  }
  std::vector<std::byte> packed = Pack(news);
  std::vector<std::int64_t> sizes;
  if (Status shared = ShareCounts(counts, std::ssize(packed), sizes); !shared) return shared;
  const Result<std::vector<News>> experts = Gather(std::move(packed), sizes);
  if (!experts) return Unexpected(experts.error());
  if (experts->empty()) return {};
  std::vector<News> mine;
  for (const News& expert : *experts) FindUsers(pass, expert, homes, mine);
  // With data ranks, each has found the segments of its own tokens.
  packed = Pack(mine);
  const Result<std::vector<std::int64_t>> all = ranks_.GatherEach(std::int64_t{std::ssize(packed)});
  if (!all) return Unexpected(all.error());
  const Result<std::vector<News>> segments = Gather(std::move(packed), *all);
  if (!segments) return Unexpected(segments.error());
  for (const News& segment : *segments) {
    if (segment.place < 0 || segment.place >= std::ssize(pass.whole.segments)) continue;
    pass.failed.Fail(segment.place, segment.error);
  }
  return {};
}

Status SharedFailures::ShareCounts(const StreamingCounts& mine, std::int64_t n_packed,
                                   std::vector<std::int64_t>& sizes) {
  static_assert(std::is_trivially_copyable_v<RankReport>);
  const Clock::time_point now = Clock::now();
  RankReport report = {.n_packed = n_packed, .counts = mine};
  if (mine.third_last_failure) {
    report.since_third_last_failure =
        (now - *mine.third_last_failure) / std::chrono::nanoseconds(1);
  }
  const Result<std::vector<RankReport>> all = ranks_.GatherEach(report);
  if (!all) return Unexpected(all.error());
  counts_of_others_.clear();
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const RankReport& of_rank = (*all)[static_cast<std::size_t>(rank)];
    sizes.push_back(of_rank.n_packed);
    if (rank == ranks_.rank()) continue;
    StreamingCounts& counts = counts_of_others_.emplace_back(of_rank.counts);
    // The clocks of hosts differ.
    counts.third_last_failure.reset();
    if (of_rank.since_third_last_failure >= 0) {
      counts.third_last_failure = now - std::chrono::nanoseconds(of_rank.since_third_last_failure);
    }
  }
  return {};
}

void SharedFailures::FindUsers(const ForwardPass& pass, const News& news, const ExpertHomes& homes,
                               std::vector<News>& segments) const {
  if (news.place < first_layer_ || news.place >= end_layer_) return;
  const Matrix<const std::int32_t> ids = Notes(pass, news.place);
  for (std::int64_t row = 0; row < pass.whole.n_tokens(); ++row) {
    const std::int64_t local_row = pass.local.LocalRow(row);
    if (local_row < 0) continue;
    const std::span<const std::int32_t> chosen = ids.RowSpan(local_row);
    const std::int64_t segment = pass.whole.segment_of_row[Count(row)];
    if (std::ranges::find(chosen, news.expert) != chosen.end() &&
        homes(news.place, pass.whole.positions[Count(row)], news.expert) == news.from &&
        std::ranges::find(segments, segment, &News::place) == segments.end()) {
      segments.push_back({.from = ranks_.rank(), .place = segment, .error = news.error});
    }
  }
}

std::vector<std::byte> SharedFailures::Pack(std::span<const News> mine) {
  std::vector<std::byte> packed;
  const auto add = [&packed](const void* from, std::size_t n) {
    const auto* const bytes = static_cast<const std::byte*>(from);
    packed.insert(packed.end(), bytes, bytes + n);
  };
  for (const News& news : mine) {
    const NewsHeader header = {.place = news.place,
                               .expert = news.expert,
                               .code = static_cast<std::int64_t>(news.error.code),
                               .n_text = std::ssize(news.error.message)};
    add(&header, sizeof header);
    add(news.error.message.data(), news.error.message.size());
  }
  return packed;
}

Result<std::vector<SharedFailures::News>> SharedFailures::Gather(
    std::vector<std::byte> packed, std::span<const std::int64_t> sizes) {
  const std::size_t most = Count(std::ranges::max(sizes));
  std::vector<News> all;
  if (most == 0) return all;
  packed.resize(most);
  std::vector<std::byte> received(most * sizes.size());
  if (Status gathered = ranks_.AllGather(packed, received); !gathered) {
    return Unexpected(gathered.error());
  }
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    const auto of_rank = std::span(received).subspan(rank * most, Count(sizes[rank]));
    if (Status read = Unpack(static_cast<int>(rank), of_rank, all); !read) {
      return Unexpected(read.error());
    }
  }
  return all;
}

Status SharedFailures::Unpack(int from, std::span<const std::byte> bytes, std::vector<News>& all) {
  while (!bytes.empty()) {
    NewsHeader header = {};
    const bool has_header = bytes.size() >= sizeof header;
    if (has_header) std::memcpy(&header, bytes.data(), sizeof header);
    bytes = bytes.subspan(has_header ? sizeof header : 0);
    if (!has_header || header.n_text < 0 || header.n_text > std::ssize(bytes)) {
      return MakeError(ErrorCode::kInvalidData,
                       "rank {} of the stage: expected a list of experts that it cannot read, "
                       "found {} bytes of something else",
                       from, bytes.size());
    }
    const auto n_text = Count(header.n_text);
    all.push_back({.from = from,
                   .place = header.place,
                   .expert = static_cast<std::int32_t>(header.expert),
                   .error = {static_cast<ErrorCode>(header.code),
                             std::string(reinterpret_cast<const char*>(bytes.data()), n_text)}});
    bytes = bytes.subspan(n_text);
  }
  return {};
}

}  // namespace fathom::experts
