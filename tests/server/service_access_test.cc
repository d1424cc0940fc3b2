// Checks which request each key may make, without sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>

#include "server/client_models.h"
#include "tests/server/service_fixture.h"

namespace fathom::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(ServiceTest, KeysAreAskedFor) {
  options_.access.api_keys = {"key one", "two"};
  for (const HttpFields& fields :
       {HttpFields{{"authorization", "Bearer key one"}}, HttpFields{{"X-API-Key", "two"}},
        HttpFields{
            {"authorization", "bearer   two"}}}) {  // RFC 9110 11.4: as many blanks as one likes
    EXPECT_EQ(Ask("GET", "/v1/models", "", fields).head.status, 200);
  }
  for (const HttpFields& fields :
       {HttpFields{}, HttpFields{{"authorization", "key one"}}, HttpFields{{"x-api-key", "tw"}},
        HttpFields{{"x-api-key", "two "}}, HttpFields{{"authorization", "Bearer "}},
        HttpFields{{"authorization", "Bearer   "}}, HttpFields{{"authorization", "Bearertwo"}},
        HttpFields{{"authorization", "Bearer one"}, {"x-api-key", "two"}}}) {
    for (const char* path : {"/v1/models", "/load", "/v1/models/fairy"}) {
      EXPECT_EQ(Ask("GET", path, "", fields).head.status, 401) << path;
    }
    for (const char* path : {"/v1/chat/completions", "/tokenize", "/detokenize", "/v1/messages",
                             "/v1/responses", "/v1/completions", "/v1/messages/count_tokens"}) {
      EXPECT_EQ(Ask("POST", path, kChat, fields).head.status, 401) << path;
    }
  }
  for (const char* path : {"/", "/health", "/version", "/metrics", "/openapi.json"}) {
    EXPECT_EQ(Ask("GET", path).head.status, 200) << path;
  }
  EXPECT_EQ(runner_.submitted(), 0);
}

// A client's stored answers are there for the holder of its key alone.
TEST_F(ServiceTest, ClientsHaveMemoriesOfTheirOwn) {
  options_.access.api_keys = {"one", "two"};
  const ClientModels models(model_, options_.access.api_keys,
                            {.replay_scope = ReplayScope::kAll, .replay_bytes = 1 << 20},
                            CountingBits());
  api_of_key_ = models.models();
  ASSERT_EQ(api_of_key_.size(), 2u);
  EXPECT_NE(api_of_key_[0]->cache_salt, api_of_key_[1]->cache_salt);
  const HttpFields one = {{"x-api-key", "one"}};
  const HttpFields two = {{"x-api-key", "two"}};

  const Json sent = ReadJson(Ask("POST", "/v1/responses", R"({"input": "Hi"})", one));
  const std::string path = "/v1/responses/" + sent["id"].get<std::string>();
  const std::string next = Json({{"input", "And?"}, {"previous_response_id", sent["id"]}}).dump();
  const std::string item =
      Json({{"input", {{{"type", "item_reference"}, {"id", sent["output"][0]["id"]}}}}}).dump();
  EXPECT_EQ(Ask("GET", path, "", two).head.status, 404);
  EXPECT_EQ(Ask("DELETE", path, "", two).head.status, 404);
  EXPECT_NE(Ask("POST", "/v1/responses", next, two).head.status, 200);
  EXPECT_NE(Ask("POST", "/v1/responses", item, two).head.status, 200);
  EXPECT_EQ(Ask("GET", path, "", one).head.status, 200) << "nobody has deleted it";
  EXPECT_EQ(Ask("POST", "/v1/responses", next, one).head.status, 200);
  EXPECT_EQ(Ask("POST", "/v1/responses", item, one).head.status, 200);

  answer_ = ScriptedAnswer{.text = "Hello."};
  const Json turns = {{"role", "user"}, {"content", "Hi"}};
  const Json no_thinking = {{"type", "disabled"}};
  Ask("POST", "/v1/chat/completions",
      Json({{"thinking", no_thinking}, {"messages", {turns}}}).dump(), one);
  const std::string again = Json({{"thinking", no_thinking},
                                  {"messages",
                                   {turns,
                                    {{"role", "assistant"}, {"content", "Hello."}},
                                    {{"role", "user"}, {"content", "And?"}}}}})
                                .dump();
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", again, two).Field("X-Exact-Replay"), "");
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", again, one).Field("X-Exact-Replay"), "1");
}

TEST_F(ServiceTest, WithoutAnAdminKeyThereIsNothingToAdminister) {
  options_.access.api_keys = {"key"};
  for (const HttpFields& fields : {HttpFields{}, HttpFields{{"x-api-key", "key"}}}) {
    EXPECT_EQ(Ask("GET", "/slots", "", fields).head.status, 404);
    EXPECT_EQ(Ask("POST", "/abort", R"({"request_id": "a"})", fields).head.status, 404);
    EXPECT_EQ(Ask("POST", "/flush_cache", "", fields).head.status, 404);
    EXPECT_EQ(Ask("GET", "/server_info", "", fields).head.status, 404);
  }
}

TEST_F(ServiceTest, AdminKeysAreNotApiKeys) {
  options_.access.admin_keys = {"root"};
  for (const bool has_api_keys : {false, true}) {
    if (has_api_keys) options_.access.api_keys = {"key"};
    service_.reset();
    for (const HttpFields& fields :
         {HttpFields{}, HttpFields{{"x-api-key", "key"}}, HttpFields{{"x-api-key", "roo"}}}) {
      EXPECT_EQ(Ask("GET", "/slots", "", fields).head.status, 401);
      EXPECT_EQ(Ask("POST", "/abort", R"({"request_id": "a"})", fields).head.status, 401);
      for (const char* path : {"/flush_cache", "/reset_prefix_cache"}) {
        EXPECT_EQ(Ask("POST", path, "", fields).head.status, 401);
      }
      EXPECT_EQ(Ask("GET", "/server_info", "", fields).head.status, 401);
    }
    const HttpFields root = {{"Authorization", "Bearer root"}};
    EXPECT_EQ(Ask("GET", "/slots", "", root).text, "[]");
    EXPECT_EQ(Ask("POST", "/abort", R"({"request_id": "a"})", root).head.status, 404);
    EXPECT_EQ(Ask("POST", "/slots", "", root).head.status, 405);
    EXPECT_EQ(Ask("GET", "/v1/models", "", root).head.status, has_api_keys ? 401 : 200);
  }
}

TEST_F(ServiceTest, MetricsCanBeProtected) {
  options_.access.api_keys = {"key"};
  options_.protect_metrics = true;
  EXPECT_EQ(Ask("GET", "/metrics").head.status, 401);
  EXPECT_EQ(Ask("GET", "/metrics", "", {{"x-api-key", "key"}}).head.status, 200);
}

TEST_F(ServiceTest, PagesOfOtherSitesMayNotAsk) {
  const HttpFields ours = {{"Host", "localhost:8000"}, {"Origin", "http://localhost:8000"}};
  const HttpFields theirs = {{"Host", "localhost:8000"}, {"Origin", "https://evil.example"}};
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat, ours).head.status, 200);
  const FakeExchange refused = Ask("POST", "/v1/chat/completions", kChat, theirs);
  EXPECT_EQ(refused.head.status, 403);
  EXPECT_EQ(refused.Field("Access-Control-Allow-Origin"), "");
  EXPECT_EQ(
      Ask("OPTIONS", "/v1/chat/completions", "", theirs).Field("Access-Control-Allow-Methods"), "");
  EXPECT_EQ(runner_.submitted(), 1);
}

TEST_F(ServiceTest, AllowedOriginsMayAsk) {
  options_.access.cors_origins = {"https://good.example"};
  const HttpFields good = {{"Origin", "https://good.example"},
                           {"Access-Control-Request-Headers",
                            "authorization, x-stainless-lang,http-referer, x-title,, x-EVIL\""}};
  const FakeExchange preflight = Ask("OPTIONS", "/v1/chat/completions", "", good);
  EXPECT_EQ(preflight.head.status, 204);
  EXPECT_EQ(preflight.Field("Access-Control-Allow-Origin"), "https://good.example");
  EXPECT_THAT(
      preflight.Field("Access-Control-Allow-Headers"),
      AllOf(HasSubstr("authorization"), HasSubstr(", x-stainless-lang, http-referer, x-title"),
            Not(HasSubstr("EVIL")), Not(HasSubstr(", ,"))));
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat, good).Field("Access-Control-Allow-Origin"),
            "https://good.example");
  EXPECT_EQ(
      Ask("POST", "/v1/chat/completions", kChat, {{"Origin", "https://evil.example"}}).head.status,
      403);
}

// Schemes and host names are compared without case, and a final dot says nothing.
TEST_F(ServiceTest, AddressesHaveNoCase) {
  options_.access.cors_origins = {"HTTPS://Good.Example"};
  options_.access.allowed_hosts = {"GPU.lan"};
  for (const HttpFields& fields :
       {HttpFields{{"Host", "LocalHost:8000"}, {"Origin", "HTTP://localhost:8000"}},
        HttpFields{{"Host", "gpu.LAN"}, {"Origin", "https://GPU.lan"}},
        HttpFields{{"Host", "localhost."}, {"Origin", "https://good.example"}},
        HttpFields{{"Host", "localhost"}, {"Origin", "Https://good.EXAMPLE"}}}) {
    EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat, fields).head.status, 200)
        << fields[0].second << " " << fields[1].second;
  }
  options_.access.api_keys = {"key"};
  service_.reset();
  EXPECT_EQ(Ask("GET", "/v1/models", "", {{"Authorization", "bearer key"}}).head.status, 200);
  EXPECT_EQ(Ask("GET", "/v1/models", "", {{"Authorization", "Bearer KEY"}}).head.status, 401);
}

// DNS rebinding: a site's own name that points to this machine.
TEST_F(ServiceTest, OnlyNamesOfOursAreAnswered) {
  std::array<char, 256> own = {};
  ASSERT_EQ(::gethostname(own.data(), own.size() - 1), 0);
  const std::string own_name = own.data();
  for (const std::string& host :
       {std::string("localhost"), std::string("localhost:8000"), std::string("127.0.0.1:8000"),
        std::string("[::1]:8000"), std::string(""), std::string("[fe80::1%eth0]:8000"),
        std::string("192.168.1.9"), std::string("gpu.local:8000"), std::string("Gpu.Local."),
        std::string("host.docker.internal:8000"), own_name, own_name + ":8000"}) {
    EXPECT_EQ(Ask("GET", "/v1/models", "", {{"Host", host}}).head.status, 200) << host;
  }
  for (const std::string& host :
       {std::string("evil.example"), std::string("localhost.evil.example:8000"),
        std::string("127.0.0.1.evil.example"), std::string("local"), std::string("evil.local.com"),
        std::string("evilinternal"), std::string("internal.evil.example"),
        own_name + ".evil.example"}) {
    EXPECT_EQ(Ask("GET", "/v1/models", "", {{"Host", host}}).head.status, 403) << host;
  }
}

TEST_F(ServiceTest, NamesCanBeAllowedAndKeysMakeThemNeedless) {
  options_.access.allowed_hosts = {"gpu.lan"};
  EXPECT_EQ(Ask("GET", "/v1/models", "", {{"Host", "gpu.lan:8000"}}).head.status, 200);
  EXPECT_EQ(Ask("GET", "/v1/models", "", {{"Host", "other.lan"}}).head.status, 403);
  options_.access.api_keys = {"key"};
  service_.reset();
  EXPECT_EQ(Ask("GET", "/v1/models", "", {{"Host", "any"}, {"x-api-key", "key"}}).head.status, 200);
}

TEST_F(ServiceTest, OnlyJsonIsRead) {
  for (const char* type : {"application/json", "application/json; charset=utf-8",
                           "Application/JSON", "application/json ;x"}) {
    EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat, {{"Content-Type", type}}).head.status, 200)
        << type;
  }
  for (const char* type :
       {"text/plain", "application/x-www-form-urlencoded", "application/jsonx"}) {
    const FakeExchange refused =
        Ask("POST", "/v1/chat/completions", kChat, {{"Content-Type", type}});
    EXPECT_EQ(refused.head.status, 415) << type;
    EXPECT_THAT(refused.text, HasSubstr("(curl: -H 'Content-Type: application/json')"));
  }
}

TEST_F(ServiceTest, BodiesAreOfACodingThatCanBeRead) {
  for (const char* encoding : {"", "identity", "gzip", "x-gzip", "Zstd"}) {
    FakeExchange exchange;
    const HttpFields fields = {{"Content-Encoding", encoding}};
    EXPECT_FALSE(service().AnswerHead(
        {.method = "POST", .path = "/v1/chat/completions", .fields = fields}, exchange))
        << encoding;
  }
  const HttpFields two = {{"Content-Encoding", "gzip"}, {"Content-Encoding", "zstd"}};
  for (const auto& [fields, found] :
       {std::pair<HttpFields, std::string>{{{"Content-Encoding", "br"}}, "br"},
        {{{"Content-Encoding", "gzip, zstd"}}, "gzip, zstd"},
        {two, "gzip, zstd"}}) {
    const FakeExchange refused = Ask("POST", "/v1/chat/completions", kChat, fields);
    EXPECT_EQ(refused.head.status, 415);
    EXPECT_EQ(refused.Field("Accept-Encoding"), "gzip, zstd");
    EXPECT_EQ(ReadJson(refused)["error"]["message"],
              "Content-Encoding: expected one of gzip, zstd or none, found \"" + found + "\"");
  }
}

// The head answers what Handle answers without a look at the body, in the same words.
TEST_F(ServiceTest, HeadsAreAnsweredAsRequestsAre) {
  options_.access.api_keys = {"key"};
  const HttpFields right = {{"x-api-key", "key"}};
  struct Head {
    const char* path;
    HttpFields fields;
    int status;
  };
  for (const Head& head :
       {Head{"/v1/chat/completions", {}, 401}, Head{"/v1/messages", {{"x-api-key", "no"}}, 401},
        Head{"/nowhere", {}, 404}, Head{"/v1/models", right, 405}, Head{"/abort", {}, 404},
        Head{"/tokenize", {{"x-api-key", "key"}, {"Content-Type", "text/plain"}}, 415},
        Head{"/tokenize", {{"x-api-key", "key"}, {"Content-Encoding", "br"}}, 415},
        Head{"/tokenize", {{"x-api-key", "key"}, {"Origin", "http://evil.example"}}, 403}}) {
    HttpFields fields = head.fields;
    fields.emplace_back("X-Request-Id", "mine");
    FakeExchange refused;
    EXPECT_TRUE(
        service().AnswerHead({.method = "POST", .path = head.path, .fields = fields}, refused));
    EXPECT_EQ(refused.head.status, head.status) << head.path;
    EXPECT_EQ(refused.text, Ask("POST", head.path, kChat, fields).text);
    EXPECT_EQ(records_.at(records_.size() - 2).status, head.status) << "in the log, too";
  }
  const std::size_t n_records = records_.size();
  FakeExchange admitted;
  EXPECT_FALSE(service().AnswerHead(
      {.method = "POST", .path = "/v1/chat/completions", .fields = right}, admitted));
  EXPECT_EQ(admitted.n_answers, 0U);
  EXPECT_EQ(records_.size(), n_records);
  EXPECT_EQ(runner_.submitted(), 0);
  for (const char* path : {"/", "/health", "/version", "/openapi.json"}) {
    FakeExchange answered;
    EXPECT_TRUE(service().AnswerHead({.method = "GET", .path = path}, answered)) << path;
    EXPECT_EQ(answered.head.status, 200) << "no body is read that nobody needs";
  }
}

TEST_F(ServiceTest, VitalRequests) {
  for (const char* path :
       {"/health", "/ping", "/v1/health", "/health/live", "/metrics", "/slots", "/abort"}) {
    EXPECT_TRUE(service().IsVital({.path = path})) << path;
  }
  for (const char* path : {"/", "/v1/models", "/v1/chat/completions", "/nowhere", "/load"}) {
    EXPECT_FALSE(service().IsVital({.path = path})) << path;
  }
}

TEST_F(ServiceTest, RecordsTellStrangersFromClients) {
  options_.access = {
      .api_keys = {"key"}, .admin_keys = {"root"}, .cors_origins = {}, .allowed_hosts = {}};
  for (const char* key : {"key", "root"}) {
    Ask("GET", "/nowhere", "", {{"x-api-key", key}});
    EXPECT_TRUE(records_.back().has_key);
  }
  Ask("GET", "/nowhere", "", {{"x-api-key", "other"}});
  EXPECT_FALSE(records_.back().has_key);
  options_.access = {};
  service_.reset();
  Ask("GET", "/nowhere");
  EXPECT_FALSE(records_.back().has_key);
}

}  // namespace
}  // namespace fathom::testing
