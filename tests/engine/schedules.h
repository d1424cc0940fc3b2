// Random schedules: requests that arrive, are cancelled, read slowly, share prefixes, run short of
// memory, are drafted, kept on disk and restored; each must be answered as if it were alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/engine_core.h"
#include "tests/engine/reference_answer.h"

namespace fathom::testing {

// The limits of a schedule. Lengths in tokens.
struct ScheduleLimits {
  std::int64_t vocab_size = 0;
  std::int64_t max_context = 0;
  std::int64_t max_prompt = 0;
  std::int64_t max_answer = 0;
  std::int64_t max_requests = 0;
  std::vector<Token> eos_tokens;
  std::function<std::string_view(Token)> token_bytes;
  bool disk = true;              // some schedules keep blocks there
  bool budgets = false;          // some requests end their reasoning at a budget
  bool prompt_logprobs = false;  // some requests ask for the log-probabilities of their prompts
  bool constraints = false;      // some requests have one, with masks that are late now and then
  // Where it is set, half of these constraints come from here, by a random number.
  std::function<std::shared_ptr<const Constraint>(std::uint64_t number)> make_constraint;
  std::int64_t max_draft_depth = 4;  // of the drafter
  int n_data = 1;                    // ranks of the model, each with slots as one alone would have
};

// The options of the engine and its model for one schedule.
struct ScheduleSetup {
  std::int64_t max_sequences = 1;
  std::int64_t max_batch_tokens = 1;
  std::int64_t max_logit_rows = 1;
  int most_in_flight = 1;     // steps at once, of a model that is free to choose
  bool small_memory = false;  // hardly more than a sequence needs
  std::int64_t pause_tokens = 0;
  EngineOptions engine;
};

// Returns the schedule for a model that pauses between layers.
ScheduleSetup WithPauses(ScheduleSetup setup);

// Numbers of what happened, to see that schedules are worth something.
struct ScheduleCounts {
  std::int64_t schedules = 0;
  std::int64_t answers = 0;
  std::int64_t tokens = 0;
  std::int64_t cancelled = 0;
  MetricsSnapshot metrics;  // summed over what is counted
  void Add(const MetricsSnapshot& snapshot);
};

// The model of a schedule; kept for the expected answers. Made anew for a restart.
using MakeModel = std::function<std::shared_ptr<LanguageModel>(const ScheduleSetup&)>;
// The answer to a request alone.
using AnswerOf = std::function<ReferenceAnswer(const Request&, std::uint32_t choice)>;

// Runs the schedule of this seed; what went wrong, or nothing. `directory` is empty and its own,
// for a tier on disk.
std::string RunSchedule(std::uint64_t seed, const ScheduleLimits& limits, const MakeModel& make,
                        const AnswerOf& answer_of, const std::filesystem::path& directory,
                        ScheduleCounts& counts);

}  // namespace fathom::testing
