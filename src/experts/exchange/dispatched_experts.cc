#include "experts/exchange/dispatched_experts.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/integer_math.h"

namespace fathom::experts {
namespace {

constexpr std::int64_t kMessageAlignment = 64;  // alignment of messages in the buffer

// Copies the rows [n * k, d] whose ids [n, k] are not kRemoteExpert.
void KeepRows(Matrix<const std::int32_t> ids, Matrix<const Bf16> rows, Matrix<Bf16> kept) {
  for (std::int64_t pair = 0; pair < rows.rows; ++pair) {
    if (ids.data[pair] != kRemoteExpert) {
      std::copy_n(rows.Row(pair), rows.cols, kept.Row(pair));
    }
  }
}

}  // namespace

DispatchedExperts::Views DispatchedExperts::LayOut(BufferLayout& memory, const ExchangeShape& shape,
                                                   int n_ranks) {
  const std::int64_t t = shape.max_tokens;
  const std::int64_t k = shape.experts_per_token;
  const std::int64_t d = shape.hidden;
  const std::int64_t token_bytes = PackedTokenBytes(d);
  const std::int64_t pair_bytes = t * k * static_cast<std::int64_t>(sizeof(ExpertPair));
  const std::int64_t gaps = kMessageAlignment * n_ranks;
  const std::int64_t n_copies = std::min<std::int64_t>(k, n_ranks - 1);
  return {.homes = memory.Add<std::int32_t>(t, k),
          .ids = memory.Add<std::int32_t>(t, k),
          .packed = memory.Add<std::uint8_t>(t, token_bytes),
          .sent = memory.Add<std::byte>(1, t * n_copies * token_bytes + pair_bytes + gaps),
          .received = memory.Add<std::byte>(1, t * token_bytes + pair_bytes + gaps),
          .x = memory.Add<Bf16>(t, d),
          .here = memory.Add<std::int32_t>(t, k),
          .weights = memory.Add<float>(t, k),
          .rows = memory.Add<Bf16>(t * k, d),
          .sent_rows = memory.Add<Bf16>(t * k, d),
          .received_rows = memory.Add<Bf16>(t * k, d)};
}

DispatchedExperts::DispatchedExperts(Backend& backend, Communicator& ranks,
                                     const ExchangeShape& shape, LaidOutBuffer<Views> memory)
    : backend_(backend),
      ranks_(ranks),
      shape_(shape),
      memory_(std::move(memory)),
      views_(memory_.views),
      outbox_(ranks),
      sender_(outbox_, views_.sent_rows),
      receiver_(ranks, views_.received_rows),
      order_(shape.n_experts),
      peers_(static_cast<std::size_t>(ranks.size())) {}

Status DispatchedExperts::Run(const ExpertWork& work) {
  const std::int64_t n_all =
      std::accumulate(work.tokens_of_rank.begin(), work.tokens_of_rank.end(), std::int64_t{0});
  Check(std::ssize(work.tokens_of_rank) == ranks_.size() &&
            work.tokens_of_rank[static_cast<std::size_t>(ranks_.rank())] == work.x.rows,
        "the tokens of every rank");
  if (Status fits = CheckTokens(n_all, shape_.max_tokens); !fits) return fits;
  if (Status done = backend_.Synchronize(); !done) return done;
  order_.ById(CountChunks(shape_, n_all, ranks_.size()));
  sender_.Begin();
  Status status = SendTokens(work);
  const bool alone = status && IsWorthComputingAlone(work);
  if (status && alone) status = ComputeOwn(work);
  if (status) status = work.shared();
  if (status) status = AwaitCounts(work);
  if (status) status = alone ? ComputeArrived(work) : ComputeTogether(work);
  if (status) status = receiver_.Finish();
  if (status) status = outbox_.Finish();
  if (status) backend_.CombineExperts(work.rows, work.y, work.y);
  return status;
}

Status DispatchedExperts::SendTokens(const ExpertWork& work) {
  const std::int64_t t = work.x.rows;
  FindHomes(work.routing.ids, work.positions, work.home, views_.homes.Rows(0, t));
  for (std::int64_t row = 0; row < t; ++row) {
    std::uint8_t* const packed = views_.packed.Row(row);
    PackToken(work.x.RowSpan(row), packed, packed + shape_.hidden);
  }
  std::vector<Outgoing> counts;
  std::vector<Outgoing> tokens;
  std::vector<Incoming> incoming;
  std::byte* next = views_.sent.data;
  for (int step = 1; step < ranks_.size(); ++step) {
    const int other = AfterMe(step);
    Peer& peer = peers_[static_cast<std::size_t>(other)];
    peer = {};
    if (t > 0) {
      const std::span<const std::byte> message = PackMessage(work, other, next);
      next += RoundUp(std::ssize(message), kMessageAlignment);
      counts.push_back({other, std::as_bytes(std::span(&peer.out, 1))});
      if (!message.empty()) {
        tokens.push_back({other, message});
      }
    }
    if (work.tokens_of_rank[static_cast<std::size_t>(other)] > 0) {
      incoming.push_back({other, std::as_writable_bytes(std::span(&peer.in, 1))});
    }
  }
  Result<std::unique_ptr<Exchange>> started = ranks_.Start(counts, incoming);
  if (!started) return Unexpected(started.error());
  counts_ = std::move(*started);
  return outbox_.Send(tokens);
}

// Packs the message with the tokens that `to` computes for this rank.
std::span<const std::byte> DispatchedExperts::PackMessage(const ExpertWork& work, int to,
                                                          std::byte* memory) {
  const std::int64_t d = shape_.hidden;
  const std::int64_t k = shape_.experts_per_token;
  DispatchCounts& counts = peers_[static_cast<std::size_t>(to)].out;
  for (std::int64_t row = 0; row < work.x.rows; ++row) {
    const auto n = std::count(views_.homes.Row(row), views_.homes.Row(row) + k, to);
    counts.n_pairs += static_cast<std::int32_t>(n);
    counts.n_tokens += n > 0 ? 1 : 0;
  }
  const DispatchView view = ViewDispatch(memory, counts, d);
  std::size_t pair = 0;
  std::int32_t token = 0;
  for (std::int64_t row = 0; row < work.x.rows; ++row) {
    const std::size_t first_pair = pair;
    for (std::int64_t j = 0; j < k; ++j) {
      if (views_.homes.Row(row)[j] == to) {
        view.pairs[pair++] = {token, work.routing.ids.Row(row)[j],
                              work.routing.weights.Row(row)[j]};
      }
    }
    if (pair > first_pair) {
      const std::uint8_t* const packed = views_.packed.Row(row);
      std::memcpy(view.codes + token * d, packed, static_cast<std::size_t>(d));
      std::memcpy(view.scales + token * (d / kFp8Block), packed + d,
                  static_cast<std::size_t>(d / kFp8Block));
      ++token;
    }
  }
  return {memory, static_cast<std::size_t>(DispatchBytes(counts, d))};
}

// Few tokens of an expert are not worth computing alone: computed together with the tokens of other
// ranks, they take half the time.
bool DispatchedExperts::IsWorthComputingAlone(const ExpertWork& work) const {
  if (shape_.in_one_call) return false;
  const std::int32_t* const homes = views_.homes.data;
  const auto n_pairs =
      std::count(homes, homes + work.x.rows * shape_.experts_per_token, ranks_.rank());
  return n_pairs * ranks_.size() >= kTokensWorthReading * shape_.n_experts;
}

Status DispatchedExperts::ComputeOwn(const ExpertWork& work) {
  const std::int64_t t = work.x.rows;
  const Matrix<std::int32_t> ids = views_.ids.Rows(0, t);
  for (int chunk = 0; chunk < order_.n_chunks(); ++chunk) {
    ChooseHere(work.routing.ids, views_.homes, ranks_.rank(), ids);
    ChooseChunk(ids, order_, chunk, ids);
    Status status = work.local(work.x, {.ids = ids, .weights = work.routing.weights}, work.rows);
    if (status) status = backend_.Synchronize();  // before ids changes
    if (status) status = PollArrivals(work);
    if (!status) return status;
  }
  return {};
}

Status DispatchedExperts::AwaitCounts(const ExpertWork& work) {
  if (counts_ == nullptr) return {};
  const Status waited = counts_->Wait();
  return waited ? ReadCounts(work) : waited;
}

Status DispatchedExperts::PollArrivals(const ExpertWork& work) {
  if (counts_ == nullptr) {
    const Result<bool> moved = tokens_->Poll();
    return moved ? Status() : Unexpected(moved.error());
  }
  const Result<bool> have_come = counts_->Poll();
  if (!have_come) return Unexpected(have_come.error());
  return *have_come ? ReadCounts(work) : Status();
}

// The tokens of a rank arrive before the outputs that it sends back; the receives are posted in
// that order.
Status DispatchedExperts::ReadCounts(const ExpertWork& work) {
  counts_.reset();
  sources_.clear();
  std::vector<Incoming> incoming;
  std::byte* next = views_.received.data;
  std::int64_t n_tokens = 0;
  for (int step = 1; step < ranks_.size(); ++step) {
    const int from = AfterMe(step);
    Peer& peer = peers_[static_cast<std::size_t>(from)];
    const std::int64_t most = work.tokens_of_rank[static_cast<std::size_t>(from)];
    if (peer.in.n_tokens < 0 || peer.in.n_tokens > most || peer.in.n_pairs < peer.in.n_tokens ||
        peer.in.n_pairs > most * shape_.experts_per_token) {
      return MakeError(ErrorCode::kInvalidData,
                       "rank {} of the stage: expected at most {} tokens for the experts here, "
                       "found {} with {} experts",
                       from, most, peer.in.n_tokens, peer.in.n_pairs);
    }
    if (peer.in.n_tokens > 0) {
      peer.first_token = n_tokens;
      n_tokens += peer.in.n_tokens;
      peer.message = {next, static_cast<std::size_t>(DispatchBytes(peer.in, shape_.hidden))};
      next += RoundUp(std::ssize(peer.message), kMessageAlignment);
      sources_.push_back(from);
      incoming.push_back({from, peer.message});
    }
  }
  Result<std::unique_ptr<Exchange>> started = ranks_.Start({}, incoming);
  if (!started) return Unexpected(started.error());
  tokens_ = std::move(*started);
  const std::int64_t t = work.x.rows;
  peers_[static_cast<std::size_t>(ranks_.rank())] = {
      .in = {.n_tokens = static_cast<std::int32_t>(t)}, .first_token = n_tokens};
  return receiver_.Begin(work.routing.ids, views_.homes.Rows(0, t), order_, work.rows);
}

// Computes the tokens that have arrived together, then waits for more.
Status DispatchedExperts::ComputeArrived(const ExpertWork& work) {
  for (std::size_t n_computed = 0; n_computed < sources_.size(); n_computed += group_.size()) {
    group_.clear();
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      Peer& peer = peers_[static_cast<std::size_t>(sources_[i])];
      if (!peer.is_computed && tokens_->HasArrived(i)) {
        peer.is_computed = true;
        group_.push_back(sources_[i]);
      }
    }
    Status status;
    if (group_.empty()) {
      status = tokens_->WaitForAny();
    }
    for (std::size_t i = 0; status && i < group_.size(); ++i) {
      status = Unpack(group_[i]);
    }
    if (status && !group_.empty()) {
      status = ComputeGroup(work, group_);
    }
    if (!status) return status;
  }
  return {};
}

// Computes the tokens of all ranks together.
Status DispatchedExperts::ComputeTogether(const ExpertWork& work) {
  Status status = tokens_->Wait();
  for (std::size_t i = 0; status && i < sources_.size(); ++i) {
    status = Unpack(sources_[i]);
  }
  if (!status) return status;
  const std::int64_t t = work.x.rows;
  const std::int64_t k = shape_.experts_per_token;
  const std::int64_t first = peers_[static_cast<std::size_t>(ranks_.rank())].first_token;
  std::copy_n(work.x.data, t * work.x.cols, views_.x.Row(first));
  std::copy_n(work.routing.weights.data, t * k, views_.weights.Row(first));
  ChooseHere(work.routing.ids, views_.homes, ranks_.rank(), views_.here.Rows(first, t));
  group_ = sources_;
  group_.push_back(ranks_.rank());
  return ComputeGroup(work, group_);
}

// Unpacks the message of one rank into the matrices that the experts read.
Status DispatchedExperts::Unpack(int from) {
  const Peer& peer = peers_[static_cast<std::size_t>(from)];
  const std::int64_t d = shape_.hidden;
  const DispatchView view = ViewDispatch(peer.message.data(), peer.in, d);
  const Matrix<Bf16> x = views_.x.Rows(peer.first_token, peer.in.n_tokens);
  const Matrix<std::int32_t> here = views_.here.Rows(peer.first_token, peer.in.n_tokens);
  const Matrix<float> weights = views_.weights.Rows(peer.first_token, peer.in.n_tokens);
  for (std::int64_t token = 0; token < x.rows; ++token) {
    UnpackToken(view.codes + token * d, view.scales + token * (d / kFp8Block), x.RowSpan(token));
  }
  std::fill_n(here.data, here.rows * here.cols, kRemoteExpert);
  std::int64_t slot = 0;
  for (std::size_t i = 0; i < view.pairs.size(); ++i) {
    const ExpertPair& pair = view.pairs[i];
    slot = i > 0 && view.pairs[i - 1].token == pair.token ? slot + 1 : 0;
    if (pair.token < 0 || pair.token >= here.rows || slot >= here.cols || pair.expert < 0 ||
        pair.expert >= shape_.n_experts) {
      return MakeError(ErrorCode::kInvalidData,
                       "rank {} of the stage sent token {} for expert {}: expected at most {} "
                       "tokens and {} experts",
                       from, pair.token, pair.expert, here.rows, shape_.n_experts);
    }
    here.Row(pair.token)[slot] = pair.expert;
    weights.Row(pair.token)[slot] = pair.weight;
  }
  return {};
}

// Computes the tokens of these ranks chunk by chunk; this rank may be one of them.
Status DispatchedExperts::ComputeGroup(const ExpertWork& work, std::span<const int> group) {
  std::int64_t first = views_.x.rows;
  std::int64_t end = 0;
  for (const int from : group) {
    const Peer& peer = peers_[static_cast<std::size_t>(from)];
    first = std::min(first, peer.first_token);
    end = std::max(end, peer.first_token + peer.in.n_tokens);
  }
  const std::int64_t k = shape_.experts_per_token;
  const Matrix<std::int32_t> ids = views_.ids.Rows(first, end - first);
  for (int chunk = 0; chunk < order_.n_chunks(); ++chunk) {
    std::fill_n(ids.data, ids.rows * ids.cols, kRemoteExpert);  // also between tokens
    for (const int from : group) {
      const Peer& peer = peers_[static_cast<std::size_t>(from)];
      ChooseChunk(views_.here.Rows(peer.first_token, peer.in.n_tokens), order_, chunk,
                  views_.ids.Rows(peer.first_token, peer.in.n_tokens));
    }
    const Routing routing = {.ids = ids, .weights = views_.weights.Rows(first, ids.rows)};
    Status status = work.local(views_.x.Rows(first, ids.rows), routing,
                               views_.rows.Rows(first * k, ids.rows * k));
    if (status) status = backend_.Synchronize();
    for (std::size_t i = 0; status && i < group.size(); ++i) {
      const Peer& peer = peers_[static_cast<std::size_t>(group[i])];
      const Matrix<const std::int32_t> chosen = views_.ids.Rows(peer.first_token, peer.in.n_tokens);
      const Matrix<const Bf16> rows = views_.rows.Rows(peer.first_token * k, peer.in.n_tokens * k);
      if (group[i] == ranks_.rank()) {
        KeepRows(chosen, rows, work.rows);
      } else {
        status = sender_.Send(group[i], chosen, rows);
      }
    }
    if (status) status = receiver_.Poll();
    if (status) status = outbox_.Poll();
    if (!status) return status;
  }
  return {};
}

}  // namespace fathom::experts
