#include "engine/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace fathom::engine {
namespace {

using ::testing::HasSubstr;

constexpr int kDepths = 4;  // of drafts

// "name{labels}" -> value, of every line that is not a comment.
std::map<std::string, double> Parse(const std::string& text) {
  std::map<std::string, double> values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t space = line.rfind(' ');
    values[line.substr(0, space)] = std::strtod(line.c_str() + space + 1, nullptr);
  }
  return values;
}

// The text must have the values of the snapshot.
void ExpectSame(const MetricsSnapshot& now, const std::map<std::string, double>& text) {
  const auto expect = [&](const std::string& name, std::int64_t value) {
    ASSERT_TRUE(text.contains(name)) << name;
    EXPECT_EQ(text.at(name), static_cast<double>(value)) << name;
  };
  expect("fathom_running", now.running);
  expect("fathom_waiting", now.waiting);
  expect("fathom_kv_bytes{state=\"used\"}", now.kv_bytes_used);
  expect("fathom_kv_bytes{state=\"cached\"}", now.kv_bytes_cached);
  expect("fathom_kv_bytes{state=\"free\"}",
         now.kv_bytes_total - now.kv_bytes_used - now.kv_bytes_cached);
  expect("fathom_requests_submitted_total", now.requests);
  expect("fathom_requests_total{outcome=\"finished\"}", now.finished);
  expect("fathom_requests_total{outcome=\"cancelled\"}", now.cancelled);
  expect("fathom_requests_total{outcome=\"failed\"}", now.failed);
  expect("fathom_requests_total{outcome=\"refused\"}", now.refused);
  expect("fathom_tokens_total{kind=\"prompt\"}", now.prompt_tokens);
  expect("fathom_tokens_total{kind=\"cached\"}", now.cached_tokens);
  expect("fathom_tokens_total{kind=\"generated\"}", now.generated_tokens);
  expect("fathom_evicted_blocks_total", now.evicted_blocks);
  expect("fathom_preemptions_total", now.preemptions);
  expect("fathom_expert_rebalances_total", now.rebalances);
  expect("fathom_expert_moved_total", now.moved_experts);
  expect("fathom_expert_moved_bytes_total", now.moved_expert_bytes);
  EXPECT_DOUBLE_EQ(text.at("fathom_expert_rebalance_seconds_total"), now.rebalance_seconds);
  const std::string imbalance = "fathom_expert_imbalance{when=";
  EXPECT_EQ(text.contains(imbalance + "\"before\"}"), now.rebalances > 0);
  if (now.rebalances > 0) {
    EXPECT_DOUBLE_EQ(text.at(imbalance + "\"before\"}"), now.imbalance_before);
    EXPECT_DOUBLE_EQ(text.at(imbalance + "\"after\"}"), now.imbalance_after);
  }
  expect("fathom_constraint_masks_total", now.masks);
  EXPECT_DOUBLE_EQ(text.at("fathom_constraint_mask_seconds_total"), now.mask_seconds);
  expect("fathom_constraint_slow_masks_total", now.slow_masks);
  expect("fathom_constraint_late_masks_total", now.late_masks);
  for (std::size_t i = 0; i < kDepths; ++i) {
    const std::string labels = "{depth=\"" + std::to_string(i + 1) + "\",result=";
    expect("fathom_draft_tokens_total" + labels + "\"accepted\"}", now.accepted[i]);
    expect("fathom_draft_tokens_total" + labels + "\"rejected\"}",
           now.drafted[i] - now.accepted[i]);
    expect("fathom_lookup_tokens_total" + labels + "\"accepted\"}", now.accepted_lookups[i]);
    expect("fathom_lookup_tokens_total" + labels + "\"rejected\"}",
           now.looked_up[i] - now.accepted_lookups[i]);
  }
  expect("fathom_step_seconds_count", now.steps);
  expect("fathom_engine_overhead_seconds_count", now.steps);
  // The library prints 16 digits, one less than tell every double apart.
  EXPECT_DOUBLE_EQ(text.at("fathom_step_seconds_sum"), now.step_seconds);
  EXPECT_DOUBLE_EQ(text.at("fathom_engine_overhead_seconds_sum"), now.engine_seconds);
}

TEST(EngineMetrics, StartsWithEverythingAtZero) {
  const EngineMetrics metrics(kDepths);
  const auto text = Parse(metrics.PrometheusText());
  const std::vector<std::int64_t> zeros(kDepths);
  ExpectSame({.drafted = zeros, .accepted = zeros, .looked_up = zeros, .accepted_lookups = zeros},
             text);
  EXPECT_EQ(text.at("fathom_time_to_first_token_seconds_count"), 0);
  EXPECT_EQ(text.at("fathom_inter_token_seconds_count"), 0);
}

TEST(EngineMetrics, SaysWhatWasReadFromDisk) {
  EngineMetrics metrics(kDepths);
  EXPECT_FALSE(metrics.PrometheusText().find("streamed") != std::string::npos);
  metrics.SetStreaming({.hash_uses = 10,
                        .hash_hits = 2,
                        .learned_uses = 30,
                        .learned_hits = 17,
                        .read_experts = 21,
                        .read_bytes = 4096,
                        .ahead_experts = 8,
                        .ahead_used = 5,
                        .guesses = {.experts = 9, .useful = 6, .reads = 4, .withdrawn = 1},
                        .failed_reads = 1,
                        .stall_seconds = 0.5,
                        .stall_busy_seconds = 0.25,
                        .stall_bytes = 2048,
                        .disk_busy_seconds = 0.75,
                        .policy_switches = 4,
                        .slots = 24,
                        .used_slots = 20,
                        .slot_bytes = 100});
  const auto text = Parse(metrics.PrometheusText());
  const std::map<std::string, double> expected = {{"uses_total{layers=\"hash\"}", 10},
                                                  {"uses_total{layers=\"learned\"}", 30},
                                                  {"hits_total{layers=\"hash\"}", 2},
                                                  {"hits_total{layers=\"learned\"}", 17},
                                                  {"reads_total", 21},
                                                  {"read_bytes_total", 4096},
                                                  {"ahead_total", 8},
                                                  {"ahead_used_total", 5},
                                                  {"guesses_total", 9},
                                                  {"guesses_useful_total", 6},
                                                  {"guess_reads_total", 4},
                                                  {"guess_reads_withdrawn_total", 1},
                                                  {"failed_reads_total", 1},
                                                  {"stall_seconds_total", 0.5},
                                                  {"stall_busy_seconds_total", 0.25},
                                                  {"stall_bytes_total", 2048},
                                                  {"disk_busy_seconds_total", 0.75},
                                                  {"policy_switches_total", 4},
                                                  {"slots{state=\"filled\"}", 20},
                                                  {"slots{state=\"empty\"}", 4},
                                                  {"pool_bytes", 2400}};
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(text.contains("fathom_streamed_expert_" + name)) << name;
    EXPECT_EQ(text.at("fathom_streamed_expert_" + name), value) << name;
  }
}

TEST(EngineMetrics, SayHowFarAStepOfPromptsIs) {
  EngineMetrics metrics(kDepths);
  metrics.SetPass({.layers_done = 12, .layers = 43}, 4096);
  for (int i = 0; i < 5; ++i) metrics.Add(&MetricsSnapshot::pauses);
  metrics.Add(&MetricsSnapshot::stopped_passes);
  EXPECT_FALSE(Parse(metrics.PrometheusText()).contains("fathom_pass_tokens"));
  metrics.SetStreaming({.slots = 24});
  auto text = Parse(metrics.PrometheusText());
  EXPECT_EQ(text.at("fathom_pass_layers{state=\"done\"}"), 12);
  EXPECT_EQ(text.at("fathom_pass_layers{state=\"left\"}"), 31);
  EXPECT_EQ(text.at("fathom_pass_tokens"), 4096);
  EXPECT_EQ(text.at("fathom_pass_pauses_total"), 5);
  EXPECT_EQ(text.at("fathom_pass_stops_total"), 1);
}

// Every value is another one, so that none can stand in another's place.
TEST(EngineMetrics, SnapshotAndTextSayTheSame) {
  EngineMetrics metrics(kDepths);
  const auto repeat = [](int n, const auto& count) {
    for (int i = 0; i < n; ++i) count();
  };
  repeat(31, [&] { metrics.Add(&MetricsSnapshot::requests); });
  repeat(11, [&] { metrics.Add(&MetricsSnapshot::finished); });
  repeat(7, [&] { metrics.Add(&MetricsSnapshot::cancelled); });
  repeat(5, [&] { metrics.Add(&MetricsSnapshot::failed); });
  repeat(3, [&] { metrics.Add(&MetricsSnapshot::refused); });
  repeat(13, [&] { metrics.Add(&MetricsSnapshot::preemptions); });
  metrics.Add(&MetricsSnapshot::evicted_blocks, 17);
  metrics.Add(&MetricsSnapshot::cached_tokens, 1000000007);
  for (int depth = 0; depth < kDepths; ++depth) {
    repeat(20 - 3 * depth, [&] { metrics.CountDraft(depth, true); });
    repeat(1 + depth, [&] { metrics.CountDraft(depth, false); });
  }
  metrics.CountStep({.prompt_tokens = 100, .seconds = 0.3, .model_seconds = 0.2});
  metrics.CountStep({.generated_tokens = 8, .seconds = 0.02, .model_seconds = 0.0199});
  metrics.CountStep({.generated_tokens = 9, .seconds = 0.02, .model_seconds = 0.0201});
  metrics.CountRebalance({.imbalance_before = 2.5,
                          .imbalance_after = 1.0625,
                          .moved_experts = 23,
                          .moved_bytes = 29,
                          .seconds = 0.75});
  metrics.CountRebalance({.imbalance_before = 1.5,
                          .imbalance_after = 1.125,
                          .moved_experts = 1,
                          .moved_bytes = std::int64_t{1} << 33,
                          .seconds = 0.5});
  repeat(37, [&] { metrics.CountMask(0.125); });
  repeat(6, [&] { metrics.Add(&MetricsSnapshot::slow_masks); });
  repeat(14, [&] { metrics.Add(&MetricsSnapshot::late_masks); });
  repeat(5, [&] { metrics.CountLookup(0, true); });
  repeat(4, [&] { metrics.CountLookup(0, false); });
  repeat(4, [&] { metrics.CountLookup(1, false); });
  metrics.SetGauges(6, 2);
  metrics.SetMemory(std::int64_t{1} << 40, 4096, 512);

  const MetricsSnapshot now = metrics.Snapshot();
  EXPECT_EQ(now.requests, 31);
  EXPECT_EQ(now.finished, 11);
  EXPECT_EQ(now.cancelled, 7);
  EXPECT_EQ(now.failed, 5);
  EXPECT_EQ(now.refused, 3);
  EXPECT_EQ(now.preemptions, 13);
  EXPECT_EQ(now.evicted_blocks, 17);
  EXPECT_EQ(now.cached_tokens, 1000000007);
  EXPECT_EQ(now.prompt_tokens, 100);
  EXPECT_EQ(now.generated_tokens, 17);
  EXPECT_EQ(now.drafted, (std::vector<std::int64_t>{21, 19, 17, 15}));
  EXPECT_EQ(now.accepted, (std::vector<std::int64_t>{20, 17, 14, 11}));
  EXPECT_EQ(now.looked_up, (std::vector<std::int64_t>{9, 4, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(now.accepted_lookups, (std::vector<std::int64_t>{5, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(now.steps, 3);
  EXPECT_NEAR(now.step_seconds, 0.34, 1e-12);
  EXPECT_NEAR(now.engine_seconds, 0.1001, 1e-12);  // a negative difference counts as none
  EXPECT_EQ(now.rebalances, 2);
  EXPECT_EQ(now.moved_experts, 24);
  EXPECT_EQ(now.moved_expert_bytes, 29 + (std::int64_t{1} << 33));
  EXPECT_EQ(now.rebalance_seconds, 1.25);
  EXPECT_EQ(now.imbalance_before, 1.5);
  EXPECT_EQ(now.imbalance_after, 1.125);
  EXPECT_EQ(now.masks, 37);
  EXPECT_EQ(now.mask_seconds, 37 * 0.125);
  EXPECT_EQ(now.slow_masks, 6);
  EXPECT_EQ(now.late_masks, 14);
  EXPECT_EQ(now.running, 6);
  EXPECT_EQ(now.waiting, 2);
  EXPECT_EQ(now.kv_bytes_total, std::int64_t{1} << 40);
  ExpectSame(now, Parse(metrics.PrometheusText()));
}

TEST(EngineMetrics, HistogramsAreCumulative) {
  EngineMetrics metrics(kDepths);
  for (const double seconds : {0.004, 0.04, 0.04, 4.0, 400.0}) {
    metrics.ObserveInterToken(seconds);
  }
  metrics.ObserveFirstToken(0.3);
  const auto text = Parse(metrics.PrometheusText());
  const auto below = [&](const char* bound) {
    return text.at("fathom_inter_token_seconds_bucket{le=\"" + std::string(bound) + "\"}");
  };
  EXPECT_EQ(below("0.5"), 3);
  EXPECT_EQ(below("5"), 4);
  EXPECT_EQ(below("30"), 4);
  EXPECT_EQ(below("+Inf"), 5);
  EXPECT_EQ(text.at("fathom_inter_token_seconds_count"), 5);
  EXPECT_EQ(text.at("fathom_time_to_first_token_seconds_sum"), 0.3);
}

TEST(EngineMetrics, EveryFamilyHasHelpAndType) {
  const std::string text = EngineMetrics().PrometheusText();
  std::istringstream lines(text);
  std::size_t n_families = 0;
  std::string name;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) {
      name = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_GT(line.size(), 7 + name.size() + 5) << line;
      ++n_families;
    } else if (line.starts_with("# TYPE ")) {
      EXPECT_THAT(line, HasSubstr(name));
    } else {
      EXPECT_TRUE(line.starts_with(name)) << line;
    }
  }
  EXPECT_EQ(n_families, 23u);
}

// Whatever is read while the engine counts is of one moment.
TEST(EngineMetrics, ReadersSeeOneMoment) {
  constexpr int kStepsCounted = 3000;
  EngineMetrics metrics(kDepths);
  std::jthread engine([&] {
    for (int i = 0; i < kStepsCounted; ++i) {
      metrics.CountStep({.generated_tokens = 2, .seconds = 0.5, .model_seconds = 0.25});
      metrics.CountDraft(i % kDepths, i % 2 == 0);
      metrics.SetGauges(i, i);
      metrics.SetMemory(3 * i, i, i);
    }
  });
  std::jthread submitter([&] {
    for (int i = 0; i < kStepsCounted; ++i) metrics.Add(&MetricsSnapshot::requests);
  });
  for (MetricsSnapshot now; now.steps < kStepsCounted || now.requests < kStepsCounted;) {
    now = metrics.Snapshot();
    ASSERT_EQ(now.generated_tokens, 2 * now.steps);
    ASSERT_EQ(now.step_seconds, 0.5 * static_cast<double>(now.steps));
    ASSERT_EQ(now.running, now.waiting);
    ASSERT_EQ(now.kv_bytes_used, now.kv_bytes_cached);
    const auto text = Parse(metrics.PrometheusText());
    const double steps = text.at("fathom_step_seconds_count");
    ASSERT_GE(steps, static_cast<double>(now.steps));
    ASSERT_EQ(text.at("fathom_tokens_total{kind=\"generated\"}"), 2 * steps);
    ASSERT_EQ(text.at("fathom_step_seconds_sum"), 0.5 * steps);
    ASSERT_EQ(text.at("fathom_engine_overhead_seconds_sum"), 0.25 * steps);
  }
  engine.join();
  submitter.join();
  ExpectSame(metrics.Snapshot(), Parse(metrics.PrometheusText()));
}

}  // namespace
}  // namespace fathom::engine
