// The text of /metrics.
#include "server/server_metrics.h"

#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "engine/metrics.h"
#include "tests/testing/shared_data.h"

namespace fathom::server {
namespace {

// Samples of the Prometheus text by their names with labels.
std::map<std::string, std::string> ReadSamples(const std::string& text) {
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
  engine.Add(&MetricsSnapshot::cached_tokens, 2);
  engine.ObserveFirstToken(.2);
  engine.ObserveInterToken(.01);
  engine.Add(&MetricsSnapshot::preemptions);
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
                .times = {.queue_seconds = 1, .prefill_seconds = .5, .decode_seconds = .25},
                .longest_choice = 2,
                .finish = "stop"});
  for (const char* finish : {"tool_calls", "cancelled", "length", "error", ""}) {
    server.Count({.generates = true, .finish = finish});
  }
  const std::map<std::string, std::string> samples = ReadSamples(
      server.PrometheusText({}, &engine, "fairy", ConstraintMemoryUse{.used = 7, .limit = 100}));
  EXPECT_EQ(samples.at("fathom_constraint_memory_bytes"), "7");
  EXPECT_EQ(samples.at("fathom_constraint_memory_limit_bytes"), "100");
  const std::pair<std::string, std::string> names[] = {
      {"fathom_running", "vllm:num_requests_running"},
      {"fathom_waiting", "vllm:num_requests_waiting"},
      {"fathom_preemptions_total", "vllm:num_preemptions_total"},
      {"fathom_tokens_total{kind=\"cached\"}", "vllm:prefix_cache_hits_total"},
      {"fathom_tokens_total{kind=\"generated\"}", "vllm:generation_tokens_total"}};
  for (const auto& [ours, common] : names) {
    EXPECT_EQ(samples.at(ours), samples.at(common + "{model_name=\"fairy\"}")) << common;
  }
  const std::pair<std::string, std::string> histograms[] = {
      {"fathom_time_to_first_token_seconds", "vllm:time_to_first_token_seconds"},
      {"fathom_inter_token_seconds", "vllm:inter_token_latency_seconds"},
      {"fathom_request_latency_seconds", "vllm:e2e_request_latency_seconds"},
      {"fathom_inter_token_seconds", "vllm:time_per_output_token_seconds"},
      {"fathom_request_queue_seconds", "vllm:request_queue_time_seconds"},
      {"fathom_request_prefill_seconds", "vllm:request_prefill_time_seconds"},
      {"fathom_request_decode_seconds", "vllm:request_decode_time_seconds"},
      {"fathom_request_inference_seconds", "vllm:request_inference_time_seconds"},
      {"fathom_request_seconds_per_token", "vllm:request_time_per_output_token_seconds"},
      {"fathom_request_longest_choice_tokens", "vllm:request_max_num_generation_tokens"},
      {"fathom_request_prompt_tokens", "vllm:request_prompt_tokens"},
      {"fathom_request_generated_tokens", "vllm:request_generation_tokens"}};
  for (const auto& [ours, common] : histograms) {
    EXPECT_EQ(samples.at(ours + "_sum"), samples.at(common + "_sum{model_name=\"fairy\"}"));
    EXPECT_EQ(samples.at(ours + "_count"), samples.at(common + "_count{model_name=\"fairy\"}"));
    EXPECT_EQ(samples.at(ours + "_bucket{le=\"+Inf\"}"),
              samples.at(common + "_bucket{model_name=\"fairy\",le=\"+Inf\"}"));
  }
  const std::string model = "{model_name=\"fairy\"";
  for (const auto& [reason, n] :
       {std::pair("stop", "2"), {"abort", "1"}, {"length", "1"}, {"error", "2"}}) {
    EXPECT_EQ(
        samples.at("vllm:request_success_total" + model + ",finished_reason=\"" + reason + "\"}"),
        n);
  }
  EXPECT_EQ(samples.at("fathom_request_success_total{finished_reason=\"cancelled\"}"), "1");
  EXPECT_EQ(samples.at("fathom_request_inference_seconds_sum"), "0.75");
  EXPECT_EQ(samples.at("fathom_request_seconds_per_token_sum"), "0.25");
  EXPECT_EQ(samples.at("fathom_request_seconds_per_token_count"), "1");
  EXPECT_EQ(samples.at("vllm:prompt_tokens_total" + model + "}"), "7") << "cached ones, too";
  EXPECT_EQ(samples.at("vllm:gpu_cache_usage_perc" + model + "}"), "0.25");
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

TEST(ServerMetricsTest, EveryFamilyHasHelpAndOneType) {
  const EngineMetrics engine;
  ServerMetrics server;
  server.Count({.endpoint = "/", .generates = true, .finish = "stop"});
  std::istringstream lines(server.PrometheusText({}, &engine, "fairy"));
  std::set<std::string> helped;
  std::set<std::string> typed;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string mark, kind, name, text;
    words >> mark >> kind >> name >> text;
    if (mark != "#") continue;
    EXPECT_FALSE(text.empty()) << line;
    EXPECT_TRUE((kind == "HELP" ? helped : typed).insert(name).second) << "twice: " << line;
    const bool is_total = name.ends_with("_total");
    if (kind == "TYPE") {
      EXPECT_EQ(text == "counter", is_total) << line;
    }
  }
  EXPECT_EQ(helped, typed);
  EXPECT_GT(helped.size(), 60u);
}

TEST(ServerMetricsTest, DashboardAsksForWhatThereIs) {
  const EngineMetrics engine;
  ServerMetrics server;
  server.Count({.endpoint = "/", .generates = true, .finish = "stop"});
  const std::string text = server.PrometheusText({}, &engine, "fairy");
  std::ifstream file(testing::ProjectPath("deploy/grafana.json"));
  const std::string dashboard(std::istreambuf_iterator<char>(file), {});
  const std::regex name("(fathom|process)_[a-z_]+");
  std::set<std::string> names;
  for (std::sregex_iterator i(dashboard.begin(), dashboard.end(), name), end; i != end; ++i) {
    names.insert(i->str());
  }
  EXPECT_GT(names.size(), 20u);
  for (const std::string& asked : names) {
    EXPECT_TRUE(text.find("\n" + asked + " ") != text.npos ||
                text.find("\n" + asked + "{") != text.npos)
        << asked;
  }
}

TEST(ServerMetricsTest, ProcessIsMeasured) {
  const std::map<std::string, std::string> samples =
      ReadSamples(ServerMetrics().PrometheusText({}, nullptr, ""));
  EXPECT_GT(std::stod(samples.at("process_resident_memory_bytes")), 1e6);
  EXPECT_GE(std::stod(samples.at("process_virtual_memory_bytes")),
            std::stod(samples.at("process_resident_memory_bytes")));
  EXPECT_GE(std::stod(samples.at("process_open_fds")), 3);
  EXPECT_GT(std::stod(samples.at("process_max_fds")), 3);
  EXPECT_GE(std::stod(samples.at("process_cpu_seconds_total")), 0);
  EXPECT_NEAR(std::stod(samples.at("process_start_time_seconds")),
              static_cast<double>(std::time(nullptr)), 3600);
}

TEST(ServerMetricsTest, WithoutAnEngineThereAreTheServersMetricsAlone) {
  const std::string text = ServerMetrics().PrometheusText({.connections = 3}, nullptr, "");
  EXPECT_EQ(ReadSamples(text).at("fathom_http_connections"), "3");
  EXPECT_EQ(text.find("vllm:"), std::string::npos);
}

}  // namespace
}  // namespace fathom::server
