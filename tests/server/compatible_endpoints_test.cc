// Endpoints of llama.cpp, vLLM and SGLang, and what is said of paths at which there is nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/service_fixture.h"

namespace fathom::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using CompatibleEndpointsTest = ServiceTest;

TEST_F(CompatibleEndpointsTest, AppliedTemplatesAreThePromptsOfChats) {
  const Json rendered = ReadJson(Ask("POST", "/apply-template", kChat));
  EXPECT_EQ(rendered.size(), 1u);
  EXPECT_THAT(rendered["prompt"].get<std::string>(),
              StartsWith("<｜begin▁of▁sentence｜><｜User｜>Hi<｜Assistant｜>"));
  const Json of_chat = ReadJson(Ask("POST", "/tokenize", kChat));
  const Json of_text = ReadJson(Ask("POST", "/tokenize", rendered.dump()));
  EXPECT_EQ(of_text["tokens"], of_chat["tokens"]);
  const FakeExchange wrong = Ask("POST", "/apply-template", R"({"messages": 1})");
  EXPECT_EQ(wrong.head.status, 400);
  EXPECT_THAT(wrong.text, HasSubstr("messages"));
}

TEST_F(CompatibleEndpointsTest, PropertiesNameTheContext) {
  const Json props = ReadJson(Ask("GET", "/props"));
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], model_.limits.max_context);
  EXPECT_EQ(props["default_generation_settings"]["params"]["temperature"],
            model_.defaults.sampling.temperature);
  EXPECT_EQ(props["total_slots"], 4);
  EXPECT_EQ(props["model_path"], "fairy");
  EXPECT_EQ(props["chat_template"], "");
  EXPECT_EQ(props["modalities"]["vision"], false);
  const Json info = ReadJson(Ask("GET", "/get_model_info"));
  EXPECT_EQ(info["model_path"], "fairy");
  EXPECT_EQ(info["is_generation"], true);
}

TEST_F(CompatibleEndpointsTest, ProgramsOfOllamaFindTheModel) {
  EXPECT_EQ(ReadJson(Ask("GET", "/api/version")), Json({{"version", "1.2.3"}}));
  const Json models = ReadJson(Ask("GET", "/api/tags"))["models"];
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[1]["name"], "a/b");
  EXPECT_EQ(models[0]["modified_at"], "2023-11-14T22:13:20Z");
  for (const char* body :
       {R"({"model": "fairy"})", R"({"name": "fairy"})", R"({"model": "fairy:latest"})"}) {
    const Json shown = ReadJson(Ask("POST", "/api/show", body));
    EXPECT_EQ(shown["model_info"]["deepseek4.context_length"], model_.limits.max_context) << body;
    EXPECT_EQ(shown["capabilities"], Json({"completion", "tools", "thinking"}));
  }
  EXPECT_EQ(Ask("POST", "/api/show", R"({"model": "other"})").head.status, 404);
  EXPECT_EQ(Ask("POST", "/api/show", "{}").head.status, 400);
}

TEST_F(CompatibleEndpointsTest, AdministratorsClearThePrefixCache) {
  options_.access.admin_keys = {"root"};
  const HttpFields root = {{"Authorization", "Bearer root"}};
  EXPECT_EQ(ReadJson(Ask("POST", "/reset_prefix_cache", "", root)), Json({{"success", true}}));
  EXPECT_EQ(Ask("POST", "/flush_cache", "", root).head.status, 200);
  EXPECT_EQ(n_clears_, 2);
  EXPECT_EQ(Ask("GET", "/flush_cache", "", root).head.status, 405);
  EXPECT_EQ(Ask("POST", "/flush_cache").head.status, 401);
  EXPECT_EQ(n_clears_, 2);
}

TEST_F(CompatibleEndpointsTest, AdministratorsSeeHowTheServerRuns) {
  options_.access.admin_keys = {"root"};
  const HttpFields root = {{"Authorization", "Bearer root"}};
  metrics_.CountDraft(0, true);
  metrics_.CountDraft(1, false);
  metrics_.CountDraft(0, false);
  metrics_.CountDraft(0, false);
  metrics_.CountDraft(0, true);
  const Json info = ReadJson(Ask("GET", "/server_info", "", root));
  EXPECT_EQ(info["version"], "1.2.3");
  EXPECT_EQ(info["context_length"], model_.limits.max_context);
  EXPECT_EQ(info["max_running_requests"], 4);
  EXPECT_EQ(info["internal_states"][0]["avg_spec_accept_length"], 1.5)
      << "four drafts, two accepted tokens";
  EXPECT_EQ(ReadJson(Ask("GET", "/get_server_info", "", root)), info);
}

class MissingPathTest : public ServiceTest {
 protected:
  std::string Message(const std::string& path) {
    const FakeExchange exchange = Ask("POST", path, "{}");
    EXPECT_EQ(exchange.head.status, 404) << path;
    const Json error = ReadJson(exchange)["error"];
    if (path.starts_with("/api/")) return error;  // Ollama's errors are texts
    EXPECT_EQ(error["code"], "not_found") << path;
    return error["message"];
  }
};

TEST_F(MissingPathTest, OtherKindsOfModelsAreExplained) {
  for (const char* path : {"/v1/embeddings", "/embeddings", "/api/embed", "/api/embeddings"}) {
    EXPECT_THAT(Message(path), HasSubstr("no embeddings")) << path;
  }
  for (const char* path : {"/rerank", "/v1/rerank", "/v2/rerank", "/score", "/v1/score"}) {
    EXPECT_THAT(Message(path), HasSubstr("ranks and classifies nothing")) << path;
  }
  for (const char* path :
       {"/v1/files", "/v1/files/file-1", "/v1/batches", "/v1/batches/b/cancel"}) {
    EXPECT_THAT(Message(path), HasSubstr("fathom batch")) << path;
  }
  EXPECT_THAT(Message("/v1/audio/speech"), HasSubstr("text alone"));
  EXPECT_THAT(Message("/v1/assistants"), HasSubstr("/v1/responses"));
  EXPECT_THAT(Message("/infill"), HasSubstr("suffix"));
}

TEST_F(MissingPathTest, ABaseUrlWithTheVersionTwice) {
  EXPECT_EQ(Message("/v1/v1/chat/completions"),
            "the base URL has /v1 twice: leave one out, so that the path is /v1/chat/completions");
  EXPECT_THAT(Message("/v1/v1/v1/messages"), HasSubstr("so that the path is /v1/messages"));
  EXPECT_THAT(Message("/v1/v1/nothing"), Not(HasSubstr("twice")));
}

TEST_F(MissingPathTest, NearMisses) {
  const std::pair<const char*, const char*> misses[] = {
      {"/v1/chat/completion", "/v1/chat/completions"},
      {"/v1/chat/completionss", "/v1/chat/completions"},
      {"/v1/chat", "/v1/chat/completions"},
      {"/api/v1/chat/completions", "/v1/chat/completions"},
      {"/openai/v1/responses", "/v1/responses"},
      {"/v1/message", "/v1/messages"},
      {"/completion", "/completions"},
  };
  for (const auto& [typed, meant] : misses) {
    EXPECT_THAT(Message(typed), HasSubstr(std::string("did you mean ") + meant + "?")) << typed;
  }
  for (const char* far : {"/v1", "/favicon.ico", "/.env", "/wp-login.php", "/api/x"}) {
    EXPECT_THAT(Message(far), Not(HasSubstr("did you mean"))) << far;
  }
  EXPECT_THAT(Message("/abor"), Not(HasSubstr("abort"))) << "no one is told of administration";
  EXPECT_THAT(Message("/" + std::string(100'000, 'a')), Not(HasSubstr("did you mean")));
}

}  // namespace
}  // namespace fathom::testing
