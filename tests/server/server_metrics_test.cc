// The text of /metrics.
#include "server/server_metrics.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "engine/metrics.h"

namespace fathom {
namespace {

// Samples of the Prometheus text by their names with labels.
std::map<std::string, std::string> SamplesOf(const std::string& text) {
  std::map<std::string, std::string> samples;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    const std::size_t blank = line.rfind(' ');
    EXPECT_TRUE(samples.emplace(line.substr(0, blank), line.substr(blank + 1)).second) << line;
  }
  return samples;
}

TEST(ServerMetricsTest, CommonNamesHaveTheValuesOfOurs) {
  EngineMetrics engine;
  engine.CountStep({.prompt_tokens = 5, .generated_tokens = 3, .seconds = .1});
  engine.CountCachedTokens(2);
  engine.ObserveFirstToken(.2);
  engine.ObserveInterToken(.01);
  engine.CountPreemption();
  engine.SetGauges(4, 6);
  engine.SetMemory(8, 2, 1);
  engine.CountDraft(0, true);
  engine.CountDraft(0, false);
  engine.CountDraft(1, true);
  ServerMetrics server;
  server.Count({.endpoint = "/v1/completions",
                .status = 200,
                .seconds = 2,
                .generates = true,
                .usage = {.prompt_tokens = 7, .completion_tokens = 3},
                .queue_seconds = 1,
                .finish = "stop"});
  const std::map<std::string, std::string> samples =
      SamplesOf(server.PrometheusText({}, &engine, "fairy"));
  const std::pair<std::string, std::string> names[] = {
      {"fathom_running", "vllm:num_requests_running"},
      {"fathom_waiting", "vllm:num_requests_waiting"},
      {"fathom_preemptions_total", "vllm:num_preemptions_total"},
      {"fathom_tokens_total{kind=\"prompt\"}", "vllm:prompt_tokens_total"},
      {"fathom_tokens_total{kind=\"cached\"}", "vllm:prefix_cache_hits_total"},
      {"fathom_tokens_total{kind=\"generated\"}", "vllm:generation_tokens_total"}};
  for (const auto& [ours, common] : names) {
    EXPECT_EQ(samples.at(ours), samples.at(common + "{model_name=\"fairy\"}")) << common;
  }
  const std::pair<std::string, std::string> histograms[] = {
      {"fathom_time_to_first_token_seconds", "vllm:time_to_first_token_seconds"},
      {"fathom_inter_token_seconds", "vllm:inter_token_latency_seconds"},
      {"fathom_request_latency_seconds", "vllm:e2e_request_latency_seconds"},
      {"fathom_request_queue_seconds", "vllm:request_queue_time_seconds"},
      {"fathom_request_prompt_tokens", "vllm:request_prompt_tokens"},
      {"fathom_request_generated_tokens", "vllm:request_generation_tokens"}};
  for (const auto& [ours, common] : histograms) {
    EXPECT_EQ(samples.at(ours + "_sum"), samples.at(common + "_sum{model_name=\"fairy\"}"));
    EXPECT_EQ(samples.at(ours + "_count"), samples.at(common + "_count{model_name=\"fairy\"}"));
    EXPECT_EQ(samples.at(ours + "_bucket{le=\"+Inf\"}"),
              samples.at(common + "_bucket{model_name=\"fairy\",le=\"+Inf\"}"));
  }
  const std::string model = "{model_name=\"fairy\"";
  EXPECT_EQ(samples.at("vllm:request_success_total" + model + ",finished_reason=\"stop\"}"), "1");
  EXPECT_EQ(samples.at("vllm:kv_cache_usage_perc" + model + "}"), "0.25");
  EXPECT_EQ(samples.at("vllm:prefix_cache_queries_total" + model + "}"), "7");
  EXPECT_EQ(samples.at("vllm:spec_decode_num_drafts_total" + model + "}"), "2");
  EXPECT_EQ(samples.at("vllm:spec_decode_num_draft_tokens_total" + model + "}"), "3");
  EXPECT_EQ(samples.at("vllm:spec_decode_num_accepted_tokens_total" + model + "}"), "2");
  for (const auto& [position, n_accepted] : {std::pair("0", "1"), {"1", "1"}, {"2", "0"}}) {
    EXPECT_EQ(samples.at("vllm:spec_decode_num_accepted_tokens_per_pos_total" + model +
                         ",position=\"" + position + "\"}"),
              n_accepted);
  }
}

TEST(ServerMetricsTest, WithoutAnEngineThereAreTheServersMetricsAlone) {
  const std::string text = ServerMetrics().PrometheusText({.connections = 3}, nullptr, "");
  EXPECT_EQ(SamplesOf(text).at("fathom_http_connections"), "3");
  EXPECT_EQ(text.find("vllm:"), std::string::npos);
}

}  // namespace
}  // namespace fathom
