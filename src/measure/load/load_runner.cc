#include "measure/load/load_runner.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"
#include "http/http_client.h"
#include "http/sse_reader.h"
#include "json/json_value.h"
#include "measure/load/completion_stream.h"

namespace fathom::measure::load {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kWatchTime = std::chrono::milliseconds(50);

double SecondsBetween(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Sends one request and passes its events to `stream`. Times are relative to `begin`; the start of
// the level is not known here.
RequestRecord Ask(HttpClient& client, const HttpCall& call, Clock::time_point begin,
                  CompletionStream& stream) {
  RequestRecord record;
  SseReader events;
  Status readable;
  const Result<HttpReply> reply = client.Send(call, [&](std::string_view piece) {
    const double time_s = SecondsBetween(begin, Clock::now());
    readable = events.Read(piece, [&](const SseEvent& event) { stream.Take(event.data, time_s); });
    return readable.has_value();
  });
  stream.Finish(&record);
  if (!readable) {
    record.message = readable.error().message;
  } else if (!reply) {
    record.failure = "no complete answer";
    record.message = reply.error().message;
  } else if (reply->status < 200 || reply->status >= 300) {
    record.failure = fmt::format("HTTP {}", reply->status);
    record.message = FindErrorMessage(reply->body);
  }
  return record;
}

// Makes the requests of one conversation, each with all earlier turns.
class Dialogue {
 public:
  explicit Dialogue(const LoadTarget& target) : target_(target) {}

  HttpCall Next(const Turn& turn) {
    if (target_.endpoint == LoadEndpoint::kCompletions) {
      tokens_.insert(tokens_.end(), turn.tokens.begin(), turn.tokens.end());
      return MakeCompletionCall(target_, tokens_, turn.n_output);
    }
    messages_.push_back({{"role", "user"}, {"content", FormatWords(turn.tokens)}});
    return MakeChatCall(target_, messages_, turn.n_output);
  }
  // Keeps the answer's words; the token ids of a completion are unknown, so its next prompt omits
  // them.
  void TakeAnswer(const std::string& content) {
    messages_.push_back({{"role", "assistant"}, {"content", content}});
  }

 private:
  const LoadTarget& target_;
  std::vector<Token> tokens_;
  JsonValue messages_ = JsonValue::Array();
};

class Run {
 public:
  explicit Run(const LoadJob& job)
      : job_(job),
        n_conversations_(job.n_conversations.value_or(std::numeric_limits<std::int64_t>::max())),
        arrivals_(job.level, job.workload.seed) {}

  LoadResult Execute(const LoadWatch& watch) {
    {
      const std::lock_guard lock(mutex_);
      start_ = Clock::now();
      // The worker of an open loop waits for the next arrival, and starts another worker before it
      // sends.
      const std::int64_t n_workers = job_.level.rate ? 1 : job_.level.concurrency;
      for (std::int64_t i = 0; i < std::min(n_workers, n_conversations_); ++i) {
        StartWorker();
      }
    }
    WaitForEnd(watch);
    workers_.clear();  // joins the workers
    for (const RequestRecord& record : result_.records) {
      result_.duration_s = std::max(result_.duration_s, record.end_s);
    }
    return std::move(result_);
  }

 private:
  struct Due {
    std::int64_t index;
    Clock::time_point time;
  };

  // mutex_ must be held.
  void StartWorker() {
    HttpClient& client =
        *clients_.emplace_back(std::make_unique<HttpClient>(job_.target.url, job_.target.limits));
    ++n_running_;
    workers_.emplace_back([this, &client] { Work(client); });
  }

  void Work(HttpClient& client) {
    std::unique_lock lock(mutex_);
    while (const std::optional<Due> due = NextConversation(lock)) {
      lock.unlock();
      Converse(client, *due);
      lock.lock();
    }
    --n_running_;
    changed_.notify_all();
  }

  // Waits until the next conversation is due; none: there are no more.
  std::optional<Due> NextConversation(std::unique_lock<std::mutex>& lock) {
    if (stopped_ || result_.n_begun == n_conversations_) return std::nullopt;
    const Clock::time_point time =
        job_.level.rate ? start_ + std::chrono::duration_cast<Clock::duration>(
                                       std::chrono::duration<double>(arrivals_.Next()))
                        : Clock::now();
    if (job_.seconds && SecondsBetween(start_, time) >= *job_.seconds) {
      n_conversations_ = result_.n_begun;
      return std::nullopt;
    }
    const std::int64_t index = job_.first_conversation + result_.n_begun++;
    if (job_.level.rate) {
      ++n_idle_;
      changed_.wait_until(lock, time, [this] { return stopped_; });
      --n_idle_;
      if (stopped_) return std::nullopt;
      if (n_idle_ == 0 && n_running_ < kMostAtOnce && result_.n_begun < n_conversations_) {
        StartWorker();
      }
    }
    return Due{index, time};
  }

  void Converse(HttpClient& client, const Due& due) {
    Clock::time_point begin = due.time;
    Dialogue dialogue(job_.target);
    for (const Turn& turn : MakeConversation(job_.workload, due.index)) {
      CompletionStream stream(job_.target.endpoint);
      const HttpCall call = dialogue.Next(turn);
      if (!job_.level.rate) begin = Clock::now();  // making the prompt is not the server's time
      RequestRecord record = Ask(client, call, begin, stream);
      record.start_s = SecondsBetween(start_, begin);
      record.end_s = SecondsBetween(start_, Clock::now());
      dialogue.TakeAnswer(stream.content());
      begin = Clock::now();
      if (!Keep(std::move(record))) return;
    }
  }

  // Returns whether the conversation goes on.
  bool Keep(RequestRecord record) {
    const std::lock_guard lock(mutex_);
    record.cancelled = stopped_ && !record.failure.empty();
    const bool goes_on = record.successful() && !stopped_;
    result_.records.push_back(std::move(record));
    return goes_on;
  }

  void WaitForEnd(const LoadWatch& watch) {
    std::unique_lock lock(mutex_);
    while (n_running_ > 0) {
      changed_.wait_for(lock, kWatchTime, [this] { return n_running_ == 0; });
      const LoadProgress progress = {.time_s = SecondsBetween(start_, Clock::now()),
                                     .n_done = static_cast<std::int64_t>(result_.records.size())};
      lock.unlock();
      const bool goes_on = watch(progress);
      lock.lock();
      if (!goes_on && !stopped_ && n_running_ > 0) Stop();
    }
  }

  // mutex_ must be held.
  void Stop() {
    stopped_ = true;
    result_.interrupted = true;
    for (const auto& client : clients_) {
      client->Cancel();
    }
    changed_.notify_all();
  }

  const LoadJob& job_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_; start_ is constant once workers run.
  Clock::time_point start_;
  std::int64_t n_conversations_;
  ArrivalTimes arrivals_;
  LoadResult result_;
  int n_running_ = 0;  // workers that have not ended
  int n_idle_ = 0;     // running workers that wait for an arrival
  bool stopped_ = false;
  std::vector<std::unique_ptr<HttpClient>> clients_;
  std::vector<std::jthread> workers_;
};

}  // namespace

LoadResult RunLoad(const LoadJob& job, const LoadWatch& watch) {
  Check(job.n_conversations || job.seconds, "a load without an end");
  return Run(job).Execute(watch);
}

}  // namespace fathom::measure::load
