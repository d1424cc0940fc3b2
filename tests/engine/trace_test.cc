#include "engine/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/engine_trace.h"

namespace fathom::engine {
namespace {

using nlohmann::json;
using std::chrono::microseconds;
using std::chrono::nanoseconds;
using ::testing::HasSubstr;

std::filesystem::path FilePath(const char* name) {
  return std::filesystem::path(::testing::TempDir()) / name;
}

std::string ReadTrace(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

json ParseTrace(const std::string& text) { return json::parse(text, nullptr, false); }

TEST(TraceWriter, WritesEveryKindOfEvent) {
  const auto path = FilePath("trace_events.json");
  const auto before = TraceWriter::Clock::now();
  auto writer = TraceWriter::Open(path);
  ASSERT_TRUE(writer) << writer.error().message;
  const auto after = TraceWriter::Clock::now();
  const auto begin = after + microseconds(1000);
  const TraceWriter::Argument arguments[] = {{"tokens", 8}, {"share", 0.25}, {"none", NAN}};
  (*writer)->NameTrack(3, "request 3");
  (*writer)->Span("step", 0, begin, begin + nanoseconds(1234567), arguments);
  (*writer)->Instant("preempted", 3, begin + nanoseconds(1));
  (*writer)->Counter("sequences", begin, std::vector<TraceWriter::Argument>{{"running", 4}});
  ASSERT_TRUE((*writer)->Close());

  const json events = ParseTrace(ReadTrace(path));
  ASSERT_TRUE(events.is_array());
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0]["name"], "process_name");
  EXPECT_EQ(events[1], ParseTrace(R"({"ph": "M", "pid": 1, "tid": 3, "name": "thread_name",
                                 "args": {"name": "request 3"}})"));
  const json& span = events[2];
  EXPECT_EQ(span["ph"], "X");
  EXPECT_EQ(span["tid"], 0);
  EXPECT_EQ(span["name"], "step");
  EXPECT_DOUBLE_EQ(span["dur"].get<double>(), 1234.567);
  EXPECT_EQ(span["args"], ParseTrace(R"({"tokens": 8, "share": 0.25, "none": null})"));
  // Relative to Open, which was between `before` and `after`.
  const double longest = std::chrono::duration<double, std::micro>(begin - before).count();
  EXPECT_GE(span["ts"].get<double>(), 1000 - 0.001);
  EXPECT_LE(span["ts"].get<double>(), longest + 0.001);
  const json& instant = events[3];
  EXPECT_EQ(instant["ph"], "i");
  EXPECT_EQ(instant["tid"], 3);
  EXPECT_EQ(instant["s"], "t");
  EXPECT_NEAR(instant["ts"].get<double>() - span["ts"].get<double>(), 0.001, 1e-6);
  const json& counter = events[4];
  EXPECT_EQ(counter["ph"], "C");
  EXPECT_EQ(counter["name"], "sequences");
  EXPECT_EQ(counter["args"]["running"], 4);
}

TEST(TraceWriter, CutAtAnyLineItLacksOnlyTheBracket) {
  const auto path = FilePath("trace_cut.json");
  auto writer = TraceWriter::Open(path);
  ASSERT_TRUE(writer);
  const auto now = TraceWriter::Clock::now();
  for (int i = 0; i < 50; ++i) {
    (*writer)->Span("step", i % 3, now, now + microseconds(i));
    (*writer)->Instant("token", i % 3, now);
  }
  ASSERT_TRUE((*writer)->Close());
  const std::string text = ReadTrace(path);
  std::size_t n_lines = 0;
  for (std::size_t end = text.find('\n'); n_lines < 101; end = text.find('\n', end + 1)) {
    ASSERT_NE(end, std::string::npos);
    const json events = ParseTrace(text.substr(0, end + 1) + "]");
    ASSERT_TRUE(events.is_array()) << "after line " << n_lines;
    ASSERT_EQ(events.size(), ++n_lines);
  }
}

// Simulates a killed program: reads the file while the writer is at work.
TEST(TraceWriter, TheFileHoldsWholeLinesAtAnyTime) {
  const auto path = FilePath("trace_killed.json");
  auto writer = TraceWriter::Open(path);
  ASSERT_TRUE(writer);
  const auto now = TraceWriter::Clock::now();
  std::size_t n_seen = 0;
  for (int i = 0; i < 5000; ++i) {
    (*writer)->Instant("token", i, now);
    if (i % 500 != 0) continue;
    const std::string text = ReadTrace(path);
    if (text.empty()) continue;
    const json events = ParseTrace(text + "]");
    ASSERT_TRUE(events.is_array());
    n_seen = events.size();
  }
  EXPECT_GT(n_seen, 1000u);
}

TEST(TraceWriter, DestroyingCloses) {
  const auto path = FilePath("trace_destroyed.json");
  ASSERT_TRUE(TraceWriter::Open(path));
  EXPECT_EQ(ParseTrace(ReadTrace(path)).size(), 1u);
}

TEST(TraceWriter, NothingIsWrittenAfterClose) {
  const auto path = FilePath("trace_closed.json");
  auto writer = TraceWriter::Open(path);
  ASSERT_TRUE(writer);
  ASSERT_TRUE((*writer)->Close());
  (*writer)->Instant("late", 0, TraceWriter::Clock::now());
  EXPECT_TRUE((*writer)->Close());
  EXPECT_EQ(ParseTrace(ReadTrace(path)).size(), 1u);
}

TEST(TraceWriter, UnwritablePathIsAnErrorThatNamesIt) {
  const auto path = FilePath("no such folder") / "trace.json";
  const auto writer = TraceWriter::Open(path);
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, ErrorCode::kIo);
  EXPECT_THAT(writer.error().message, HasSubstr(path.string()));
}

TEST(TraceWriter, FullDiskEndsTheTraceAndNothingElse) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  for (const int n_events : {1, 10000}) {  // found by Close; found on the way
    auto writer = TraceWriter::Open("/dev/full");
    ASSERT_TRUE(writer);
    for (int i = 0; i < n_events; ++i) {
      (*writer)->Instant("token", 0, TraceWriter::Clock::now());
    }
    for (int i = 0; i < 2; ++i) {  // the error stays
      const Status closed = (*writer)->Close();
      ASSERT_FALSE(closed);
      EXPECT_EQ(closed.error().code, ErrorCode::kIo);
      EXPECT_THAT(closed.error().message, HasSubstr("/dev/full"));
    }
  }
}

TEST(EngineTrace, StepsSayWhatTheirExpertsHaveCost) {
  const auto path = FilePath("engine_trace.json");
  auto trace = EngineTrace::Open(path);
  ASSERT_TRUE(trace) << trace.error().message;
  const auto now = Clock::now();
  EngineTrace::Step step = {.begin = now, .end = now, .n_decoding = 2, .n_generated = 1};
  (*trace)->AddStep(step);
  step.streaming = {.hash_uses = 10,
                    .hash_hits = 4,
                    .learned_uses = 30,
                    .learned_hits = 5,
                    .read_bytes = 4096,
                    .guesses = {.experts = 5, .useful = 2},
                    .stall_seconds = 0.5,
                    .stall_busy_seconds = 0.25,
                    .slots = 24};
  (*trace)->AddStep(step);
  step.streaming.learned_uses += 7;
  step.streaming.learned_hits += 3;
  step.streaming.read_bytes += 100;
  step.streaming.stall_seconds += 0.125;
  step.streaming.stall_busy_seconds += 0.0625;
  step.streaming.guesses = {.experts = 8, .useful = 4};
  (*trace)->AddStep(step);
  ASSERT_TRUE((*trace)->Close());

  std::vector<json> steps;
  for (const json& event : ParseTrace(ReadTrace(path))) {
    if (event["name"] == "step") steps.push_back(event["args"]);
  }
  ASSERT_EQ(steps.size(), 3u);
  json expected = ParseTrace(
      R"({"decoding": 2, "prompt_tokens": 0, "generated": 1, "engine_microseconds": 0})");
  EXPECT_EQ(steps[0], expected);
  expected.update(ParseTrace(
      R"({"expert_hits": 9, "expert_misses": 31, "expert_read_bytes": 4096,
          "disk_wait_microseconds": 500000, "disk_wait_busy_microseconds": 250000,
          "expert_guesses": 5, "expert_guesses_useful": 2})"));
  EXPECT_EQ(steps[1], expected);
  expected.update(ParseTrace(
      R"({"expert_hits": 3, "expert_misses": 4, "expert_read_bytes": 100,
          "disk_wait_microseconds": 125000, "disk_wait_busy_microseconds": 62500,
          "expert_guesses": 3, "expert_guesses_useful": 2})"));
  EXPECT_EQ(steps[2], expected);
}

TEST(EngineTrace, StepsOfOneTrackDoNotOverlap) {
  const auto path = FilePath("engine_trace_overlap.json");
  auto trace = EngineTrace::Open(path);
  ASSERT_TRUE(trace);
  const auto at = [now = Clock::now()](int millisecond) {
    return now + std::chrono::milliseconds(millisecond);
  };
  (*trace)->AddStep({.begin = at(1), .end = at(4)});
  (*trace)->AddStep({.begin = at(2), .end = at(9)});
  (*trace)->AddStep({.begin = at(10), .end = at(11)});
  ASSERT_TRUE((*trace)->Close());
  std::vector<double> durations;
  for (const json& event : ParseTrace(ReadTrace(path))) {
    if (event["name"] == "step") durations.push_back(event["dur"]);
  }
  ASSERT_EQ(durations.size(), 3u);
  EXPECT_DOUBLE_EQ(durations[0], 3000);
  EXPECT_DOUBLE_EQ(durations[1], 5000);
  EXPECT_DOUBLE_EQ(durations[2], 1000);
}

}  // namespace
}  // namespace fathom::engine
