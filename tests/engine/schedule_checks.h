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
Seeds ChosenSeeds(std::uint64_t usual_count);
std::string_view LetterOfFive(Token token);

// The memory for one sequence of the whole context. `large` has memory for all.
std::int64_t SmallMemory(const SequenceCache& large);

// Runs the seeds; schedules in which nothing happens would prove nothing.
void ExpectOneAnswerEach(const ScheduleLimits& limits, const MakeModel& make,
                         const AnswerOf& answer_of, const Seeds& seeds);

// Lengths in tokens, and requests of a rank.
struct ScheduleSizes {
  std::int64_t max_prompt = 420;
  std::int64_t max_answer = 60;
  std::int64_t max_requests = 8;
};

// Runs schedules on a checkpoint, for a number of seeds.
using LoadModel = std::function<std::unique_ptr<LanguageModel>(
    const std::filesystem::path& directory, const ScheduleSetup& setup)>;
void ExpectOneAnswerEachOf(const std::filesystem::path& directory, const LoadModel& load,
                           std::uint64_t n_schedules, bool with_disk = true, int n_data = 1,
                           const ScheduleSizes& sizes = {});

}  // namespace fathom::testing
