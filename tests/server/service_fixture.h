// ServiceTest: a service with scripted answers, asked without sockets.
#pragma once

#include <gtest/gtest.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/metrics.h"
#include "server/service.h"
#include "tests/api/api_model.h"
#include "tests/http/fake_exchange.h"
#include "tests/server/scripted_runner.h"

namespace fathom::testing {

class ServiceTest : public ApiModelTest {
 protected:
  using Json = nlohmann::ordered_json;

  static constexpr const char* kChat = R"({"messages": [{"role": "user", "content": "Hi"}]})";
  static constexpr const char* kStream =
      R"({"stream": true, "messages": [{"role": "user", "content": "Hi"}]})";

  explicit ServiceTest() : runner_(tokenizer_, [this](const std::string&) { return answer_; }) {
    options_.version = "1.2.3";
    options_.generation = {.watch = std::chrono::milliseconds(5), .random_bits = CountingBits()};
    options_.record = [this](const ServedRequest& record) {
      const std::lock_guard lock(records_mutex_);
      records_.push_back(record);
    };
  }

  Service& service() {
    if (!service_) {
      service_.emplace(options_);
      if (has_model_) {
        service_->SetModel({.api = &model_,
                            .api_of_key = api_of_key_,
                            .runner = &runner_,
                            .metrics = &metrics_,
                            .clear_prefix_cache = [this] { ++n_clears_; },
                            .root = "fairy",
                            .names = {"fairy", "a/b"},
                            .created = 1700000000,
                            .max_sequences = 4});
      }
    }
    return *service_;
  }

  FakeExchange Ask(const std::string& method, const std::string& path, const std::string& body = "",
                   HttpFields fields = {}) {
    FakeExchange exchange;
    Ask(method, path, body, std::move(fields), exchange);
    return exchange;
  }
  void Ask(const std::string& method, const std::string& path, const std::string& body,
           HttpFields fields, FakeExchange& exchange) {
    service().Handle({.method = method, .path = path, .fields = std::move(fields), .body = body},
                     exchange);
    EXPECT_EQ(exchange.n_answers, 1u) << path;
  }
  FakeExchange AskWithQuery(const std::string& path, const std::string& query) {
    FakeExchange exchange;
    service().Handle({.method = "GET", .path = path, .query = query}, exchange);
    return exchange;
  }
  static Json ReadJson(const FakeExchange& exchange) {
    return Json::parse(exchange.text, nullptr, false);
  }

  ServiceOptions options_;
  bool has_model_ = true;
  std::vector<const ApiModel*> api_of_key_;
  Result<ScriptedAnswer> answer_ = ScriptedAnswer{.text = "So.</think>Hello."};
  ScriptedRunner runner_;
  EngineMetrics metrics_;
  std::mutex records_mutex_;
  std::vector<ServedRequest> records_;
  int n_clears_ = 0;  // of the prefix cache
  std::optional<Service> service_;
};

}  // namespace fathom::testing
