#include "tests/engine/schedules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "tests/engine/fake_constraint.h"

namespace fathom::testing {
namespace {

constexpr int kMostSteps = 20'000;  // of a schedule: more is standing still

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  // 0 ... n - 1.
  std::int64_t Below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }
  bool OneIn(std::int64_t n) { return Below(n) == 0; }
  template <class T>
  T Of(std::initializer_list<T> values) {
    return values.begin()[Below(std::ssize(values))];
  }

 private:
  std::mt19937_64 random_;
};

// A request with its reader, who takes events at random times.
struct Client {
  Request request;
  std::optional<TokenStream> stream;
  std::vector<ReferenceAnswer> answers;  // of each choice
  bool cancelled = false;
  bool ended = false;
  bool slow = false;

  // Takes the available events, at most `most`; returns what is wrong with them.
  std::string Read(std::int64_t most);
};

std::string Client::Read(std::int64_t most) {
  StreamEvent event;
  for (; most > 0 && !ended; --most) {
    const std::optional<bool> got = stream->NextFor(std::chrono::milliseconds(0), event);
    if (!got) {
      return "";
    }
    if (const auto& scores = stream->stats().prompt_logprobs; scores != nullptr) {
      answers[0].prompt_logprobs = *scores;
    }
    if (!*got) {
      ended = true;
      return "";
    }
    ReferenceAnswer& answer = answers.at(event.choice);
    if (event.token != StreamEvent::kNoToken) {
      if (event.index != std::ssize(answer.tokens)) {
        return fmt::format("event {} follows {} tokens", event.index, answer.tokens.size());
      }
      answer.tokens.push_back(event.token);
      if (event.logprobs) {
        answer.logprobs.push_back(*event.logprobs);
      }
    }
    answer.text += event.text;
    if (event.finish) {
      answer.finish = *event.finish;
    }
  }
  return "";
}

class Schedule {
 public:
  Schedule(std::uint64_t seed, const ScheduleLimits& limits, const MakeModel& make,
           const AnswerOf& answer_of, const std::filesystem::path& directory)
      : dice_(seed), constraint_dice_(~seed), limits_(limits), make_(make), answer_of_(answer_of) {
    Choose(directory);
    setup_.most_in_flight = static_cast<int>(1 + seed % 4);
    setup_.engine.model_fills_processors = seed % 8 < 4;
    constexpr std::array<std::int64_t, 3> kLookupDepths = {0, 1, 4};
    const std::size_t lookups = seed % (kLookupDepths.size() + 2);
    setup_.engine.draft.lookups = lookups < kLookupDepths.size();
    if (setup_.engine.draft.lookups) setup_.engine.draft.lookup_depth = kLookupDepths[lookups];
  }

  std::string Run(ScheduleCounts& counts);
  std::string Describe() const;

 private:
  void Choose(const std::filesystem::path& directory);
  std::string Start();
  Request MakeRequest();
  std::vector<Token> MakePrompt();
  std::shared_ptr<const Constraint> MakeConstraint();
  SamplingParameters MakeSampling(std::int64_t n_prompt);
  std::string Submit();
  std::string ReadAll(bool everything);
  std::string CheckAnswers() const;
  std::string RunUntil(std::size_t n_requests, bool finish);
  std::string Restart(ScheduleCounts& counts);

  Dice dice_;
  Dice constraint_dice_;  // of its own: without constraints a seed gives the same requests
  const ScheduleLimits& limits_;
  const MakeModel& make_;
  const AnswerOf& answer_of_;
  ScheduleSetup setup_;
  std::vector<std::vector<Token>> texts_;  // that prompts are cut from
  std::shared_ptr<LanguageModel> model_;
  std::unique_ptr<EngineMetrics> metrics_;
  std::unique_ptr<EngineCore> core_;
  std::shared_ptr<Waker> waker_ = std::make_shared<Waker>();
  std::vector<std::unique_ptr<Client>> clients_;
};

void Schedule::Choose(const std::filesystem::path& directory) {
  setup_.max_sequences = (1 + dice_.Below(6)) * limits_.n_data;
  setup_.max_batch_tokens = setup_.max_sequences + dice_.Of<std::int64_t>({0, 3, 40, 150, 400});
  setup_.max_logit_rows = 5 + dice_.Below(12);
  setup_.small_memory = dice_.Below(3) > 0;
  EngineOptions& engine = setup_.engine;
  engine.eos_tokens = limits_.eos_tokens;
  engine.token_bytes = limits_.token_bytes;
  engine.prefix_cache = !dice_.OneIn(4);
  engine.draft.enabled = dice_.OneIn(2);
  engine.draft.depth = dice_.Below(static_cast<int>(limits_.max_draft_depth) + 1);
  engine.stream_events = dice_.Of<std::int64_t>({0, 3, 64});
  engine.target_step_seconds = 0;  // nothing may depend on the time
  engine.pauses_each_layer = true;
  engine.max_step_tokens =
      dice_.OneIn(2) ? 0 : setup_.max_sequences + dice_.Below(setup_.max_batch_tokens);
  engine.fingerprint = "schedule";
  if (engine.prefix_cache && dice_.OneIn(3) && limits_.disk) {
    engine.disk = {.directory = directory,
                   .max_bytes = dice_.OneIn(3) ? 200'000 : std::int64_t{1} << 30};
  }
  for (int i = 0; i < 3; ++i) {
    std::vector<Token>& text = texts_.emplace_back();
    for (std::int64_t n = limits_.max_prompt; n > 0; --n) {
      text.push_back(static_cast<Token>(dice_.Below(limits_.vocab_size)));
    }
  }
}

std::string Schedule::Describe() const {
  const EngineOptions& engine = setup_.engine;
  return fmt::format(
      "{} sequences, {} tokens and {} logits a step, at most {}, {} in flight, {}, prefix cache "
      "{}, drafts {} {}, lookups {} {}, {} events, disk {}, {}",
      setup_.max_sequences, setup_.max_batch_tokens, setup_.max_logit_rows, engine.max_step_tokens,
      setup_.most_in_flight, setup_.small_memory ? "small memory" : "enough memory",
      engine.prefix_cache ? "on" : "off", engine.draft.enabled ? "on" : "off", engine.draft.depth,
      engine.draft.lookups ? "on" : "off", engine.draft.lookup_depth, engine.stream_events,
      engine.disk.directory.empty() ? "off" : "on",
      engine.model_fills_processors ? "quick masks at once" : "masks beside steps");
}

std::string Schedule::Start() {
  model_ = make_(setup_);
  if (model_ == nullptr) {
    return "the model cannot be made";
  }
  metrics_ = std::make_unique<EngineMetrics>();
  Result<std::unique_ptr<EngineCore>> core = EngineCore::Create(*model_, setup_.engine, *metrics_);
  if (!core) {
    return core.error().message;
  }
  core_ = *std::move(core);
  return "";
}

// A prefix of one of the texts, or of what an earlier request was told and answered.
std::vector<Token> Schedule::MakePrompt() {
  std::vector<Token> prompt = texts_[static_cast<std::size_t>(dice_.Below(3))];
  if (!clients_.empty() && dice_.OneIn(3)) {
    const Client& earlier = *clients_[static_cast<std::size_t>(dice_.Below(std::ssize(clients_)))];
    prompt = earlier.request.prompt;
    const std::vector<Token>& answer = earlier.answers[0].tokens;
    prompt.insert(prompt.end(), answer.begin(), answer.end());
  }
  const std::int64_t longest = std::min<std::int64_t>(std::ssize(prompt), limits_.max_prompt);
  std::int64_t length = 1 + dice_.Below(longest);
  if (dice_.OneIn(3)) {  // at and around the borders of blocks
    length = std::clamp<std::int64_t>(length / 128 * 128 + dice_.Below(5) - 2, 1, longest);
  }
  prompt.resize(static_cast<std::size_t>(length));
  const std::int64_t n_more =
      std::min(dice_.OneIn(2) ? 0 : dice_.Below(40), limits_.max_prompt - length);
  for (std::int64_t i = 0; i < n_more; ++i) {
    prompt.push_back(static_cast<Token>(dice_.Below(limits_.vocab_size)));
  }
  return prompt;
}

// A fake constraint in eight has masks that come 4 ms late in a state in sixteen.
std::shared_ptr<const Constraint> Schedule::MakeConstraint() {
  if (limits_.make_constraint && constraint_dice_.OneIn(2)) {
    return limits_.make_constraint(static_cast<std::uint64_t>(constraint_dice_.Below(1'000'000)));
  }
  FakeConstraintOptions options = {
      .seed = static_cast<std::uint64_t>(constraint_dice_.Below(1'000'000)),
      .vocab_size = limits_.vocab_size,
      .eos = limits_.eos_tokens.at(0)};
  options.longest = 1 + constraint_dice_.Below(2 * limits_.max_answer);
  if (constraint_dice_.OneIn(8)) {
    options.fails_at = constraint_dice_.Below(limits_.max_answer);
  }
  if (constraint_dice_.OneIn(8)) {
    options.on_mask = [](std::int64_t /*n_tokens*/, std::uint64_t hash) {
      if ((hash >> 32) % 16 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(4));
    };
  }
  return std::make_shared<FakeConstraint>(options);
}

SamplingParameters Schedule::MakeSampling(std::int64_t n_prompt) {
  SamplingParameters p;
  p.seed = static_cast<std::uint64_t>(dice_.Below(1'000'000));
  p.temperature = dice_.Of({0.0, 0.3, 1.0, 1.0, 1.7});
  p.top_p = dice_.Of({1.0, 1.0, 0.9, 0.3});
  p.top_k = dice_.Of<std::int64_t>({0, 0, 5});
  p.min_p = dice_.Of({0.0, 0.0, 0.1});
  p.repetition_penalty = dice_.Of({1.0, 1.0, 1.3});
  p.presence_penalty = dice_.Of({0.0, 0.0, 0.7});
  p.frequency_penalty = dice_.Of({0.0, 0.0, -0.4});
  if (dice_.OneIn(4)) {
    p.logit_bias[static_cast<Token>(dice_.Below(limits_.vocab_size))] = 3;
  }
  if (dice_.OneIn(2)) {
    p.top_logprobs = static_cast<int>(dice_.Below(4));
  }
  p.max_tokens = std::min(dice_.Below(limits_.max_answer + 1), limits_.max_context - n_prompt);
  p.min_tokens = dice_.OneIn(4) ? std::min<std::int64_t>(*p.max_tokens, 5) : 0;
  p.ignore_eos = dice_.OneIn(3);
  if (limits_.budgets && dice_.OneIn(3)) {
    p.reasoning_budget = {.n_tokens = dice_.Below(limits_.max_answer),
                          .end = static_cast<Token>(dice_.Below(limits_.vocab_size))};
  }
  if (dice_.OneIn(4)) {
    p.stop_tokens = {static_cast<Token>(dice_.Below(limits_.vocab_size))};
  }
  if (limits_.constraints && constraint_dice_.OneIn(4)) {
    p.constraint = MakeConstraint();
  }
  if (limits_.token_bytes && dice_.OneIn(3)) {
    std::string stop(limits_.token_bytes(static_cast<Token>(dice_.Below(limits_.vocab_size))));
    stop += limits_.token_bytes(static_cast<Token>(dice_.Below(limits_.vocab_size)));
    if (!stop.empty()) {
      p.stop_strings = {stop};
    }
    if (dice_.OneIn(3)) {
      p.stop_strings_from = static_cast<Token>(dice_.Below(limits_.vocab_size));
    }
    if (dice_.OneIn(3)) {
      p.stop_strings_until = static_cast<Token>(dice_.Below(limits_.vocab_size));
    }
  }
  return p;
}

Request Schedule::MakeRequest() {
  Request request;
  request.prompt = MakePrompt();
  request.sampling = MakeSampling(std::ssize(request.prompt));
  request.n_choices = dice_.OneIn(5) ? 1 + static_cast<int>(dice_.Below(4)) : 1;
  if (limits_.prompt_logprobs && dice_.OneIn(4)) {
    request.prompt_logprobs = static_cast<int>(dice_.Below(4));
  }
  request.priority = dice_.OneIn(3) ? static_cast<int>(dice_.Below(5)) - 2 : 0;
  return request;
}

std::string Schedule::Submit() {
  auto client = std::make_unique<Client>();
  client->request = MakeRequest();
  client->slow = dice_.OneIn(4);
  client->answers.resize(static_cast<std::size_t>(client->request.n_choices));
  Result<std::unique_ptr<RequestState>> state = core_->Prepare(client->request, waker_);
  if (!state) {
    return state.error().message;
  }
  client->stream.emplace((*state)->stream);
  core_->Add(*std::move(state));
  clients_.push_back(std::move(client));
  return "";
}

std::string Schedule::ReadAll(bool everything) {
  for (const std::unique_ptr<Client>& client : clients_) {
    if (everything || !client->slow || dice_.OneIn(20)) {
      if (std::string wrong = client->Read(everything ? 1'000'000 : 1 + dice_.Below(8));
          !wrong.empty()) {
        return wrong;
      }
    }
    if (!client->ended && dice_.OneIn(400)) {
      client->cancelled = true;
      client->stream->Cancel();
    }
  }
  return "";
}

// Until so many requests have been sent, and, if `finish`, answered.
std::string Schedule::RunUntil(std::size_t n_requests, bool finish) {
  for (int step = 0; step < kMostSteps; ++step) {
    while (clients_.size() < n_requests && dice_.OneIn(4)) {
      if (std::string wrong = Submit(); !wrong.empty()) {
        return wrong;
      }
    }
    const StepOutcome outcome = core_->Step();
    if (!core_->caches().IsConsistent()) {
      return fmt::format("after step {} the uses of blocks do not add up", step);
    }
    core_->SettleDisk();  // a schedule must not depend on how fast the disk is
    if (std::string wrong = ReadAll(outcome == StepOutcome::kStalled); !wrong.empty()) {
      return wrong;
    }
    if (clients_.size() == n_requests && (!finish || outcome == StepOutcome::kIdle)) {
      return "";
    }
  }
  return "the engine stands still";
}

std::string Schedule::CheckAnswers() const {
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    const Client& client = *clients_[i];
    if (!client.ended) {
      return fmt::format("request {} did not end", i);
    }
    for (std::size_t j = 0; j < client.answers.size(); ++j) {
      const ReferenceAnswer& found = client.answers[j];
      if (found.finish == FinishReason::kCancelled && !client.cancelled) {
        return fmt::format("request {} was cancelled by nobody", i);
      }
      const auto& constraint = client.request.sampling.constraint;
      if (const auto* fake = dynamic_cast<const FakeConstraint*>(constraint.get());
          fake != nullptr && (fake->n_illegal() > 0 || !fake->Accepts(found.tokens))) {
        return fmt::format("request {}: {} tokens reached the constraint that it excludes", i,
                           fake->n_illegal());
      }
      const ReferenceAnswer expected = answer_of_(client.request, static_cast<std::uint32_t>(j));
      if (std::string wrong = Compare(expected, found); !wrong.empty()) {
        return fmt::format("request {} ({} prompt tokens) choice {}: {}", i,
                           client.request.prompt.size(), j, wrong);
      }
    }
  }
  return "";
}

// Ends the engine, and begins again with another that finds what this one left on disk.
std::string Schedule::Restart(ScheduleCounts& counts) {
  core_->CancelAll();
  for (const std::unique_ptr<Client>& client : clients_) {
    client->cancelled = client->cancelled || !client->ended;
  }
  if (std::string wrong = ReadAll(true); !wrong.empty()) {
    return wrong;
  }
  core_->Close();
  counts.Add(metrics_->Snapshot());
  core_.reset();
  return Start();
}

std::string Schedule::Run(ScheduleCounts& counts) {
  if (std::string wrong = Start(); !wrong.empty()) {
    return wrong;
  }
  const auto n_requests = static_cast<std::size_t>(2 + dice_.Below(limits_.max_requests - 1));
  if (!setup_.engine.disk.directory.empty() && dice_.OneIn(2)) {
    if (std::string wrong = RunUntil(n_requests / 2, dice_.OneIn(2)); !wrong.empty()) {
      return wrong;
    }
    if (std::string wrong = Restart(counts); !wrong.empty()) {
      return wrong;
    }
  }
  if (std::string wrong = RunUntil(n_requests, true); !wrong.empty()) {
    return wrong;
  }
  if (std::string wrong = ReadAll(true); !wrong.empty()) {
    return wrong;
  }
  counts.Add(metrics_->Snapshot());
  counts.schedules += 1;
  for (const std::unique_ptr<Client>& client : clients_) {
    counts.cancelled += client->cancelled ? 1 : 0;
    counts.answers += std::ssize(client->answers);
    for (const ReferenceAnswer& answer : client->answers) {
      counts.tokens += std::ssize(answer.tokens);
    }
  }
  return CheckAnswers();
}

}  // namespace

ScheduleSetup WithPauses(ScheduleSetup setup) {
  setup.most_in_flight = 1;
  setup.pause_tokens =
      std::min(setup.max_batch_tokens, setup.max_sequences + setup.max_logit_rows % 7);
  return setup;
}

void ScheduleCounts::Add(const MetricsSnapshot& s) {
  metrics.prompt_tokens += s.prompt_tokens;
  metrics.cached_tokens += s.cached_tokens;
  metrics.generated_tokens += s.generated_tokens;
  metrics.evicted_blocks += s.evicted_blocks;
  metrics.preemptions += s.preemptions;
  metrics.steps += s.steps;
  metrics.masks += s.masks;
  metrics.late_masks += s.late_masks;
  metrics.pauses += s.pauses;
  metrics.stopped_passes += s.stopped_passes;
  metrics.drafted.resize(s.drafted.size());
  metrics.accepted.resize(s.accepted.size());
  for (std::size_t i = 0; i < s.drafted.size(); ++i) {
    metrics.drafted[i] += s.drafted[i];
    metrics.accepted[i] += s.accepted[i];
  }
  metrics.looked_up.resize(s.looked_up.size());
  metrics.accepted_lookups.resize(s.accepted_lookups.size());
  for (std::size_t i = 0; i < s.looked_up.size(); ++i) {
    metrics.looked_up[i] += s.looked_up[i];
    metrics.accepted_lookups[i] += s.accepted_lookups[i];
  }
}

std::string RunSchedule(std::uint64_t seed, const ScheduleLimits& limits, const MakeModel& make,
                        const AnswerOf& answer_of, const std::filesystem::path& directory,
                        ScheduleCounts& counts) {
  Schedule schedule(seed, limits, make, answer_of, directory);
  const std::string wrong = schedule.Run(counts);
  return wrong.empty() ? "" : fmt::format("{} [{}]", wrong, schedule.Describe());
}

}  // namespace fathom::testing
