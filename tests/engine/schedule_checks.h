// Runs random schedules (schedules.h) and expects for each request the answer that it would get
// alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>

#include "kv_cache/sequence_cache.h"
#include "tests/engine/schedules.h"

namespace fathom::testing {

// Positions per sequence.
inline constexpr std::int64_t kContext = 700;

// FATHOM_SCHEDULES=FIRST,COUNT runs other seeds than the usual ones: a seed that failed, more
// seeds, or fewer under a slow sanitizer.
struct Seeds {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};
Seeds ChosenSeeds(std::uint64_t usual_count, std::uint64_t usual_first = 1);
std::string_view LetterOfFive(Token token);

// The memory for one sequence of the whole context. `large` has memory for all.
std::int64_t SmallMemory(const SequenceCache& large);

// Runs the seeds, and returns what happened; schedules in which nothing happens would prove
// nothing.
ScheduleCounts ExpectOneAnswerEach(const ScheduleLimits& limits, const MakeModel& make,
                                   const AnswerOf& answer_of, const Seeds& seeds);

// Lengths in tokens, requests of a rank, and the first of the usual seeds.
struct ScheduleSizes {
  std::int64_t max_prompt = 420;
  std::int64_t max_answer = 60;
  std::int64_t max_requests = 8;
  std::uint64_t first_seed = 1;
  // ScheduleLimits::make_constraint.
  std::function<std::shared_ptr<const Constraint>(std::uint64_t number)> make_constraint{};
};

// Runs schedules on a checkpoint, for a number of seeds.
using LoadModel = std::function<std::shared_ptr<LanguageModel>(
    const std::filesystem::path& directory, const ScheduleSetup& setup)>;
ScheduleCounts ExpectOneAnswerEach(const std::filesystem::path& directory, const LoadModel& load,
                                   std::uint64_t n_schedules, bool with_disk = true, int n_data = 1,
                                   const ScheduleSizes& sizes = {});

}  // namespace fathom::testing
