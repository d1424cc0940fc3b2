#include "server/endpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "tests/http/fake_exchange.h"

namespace fathom::server {
namespace {

using testing::FakeExchange;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Json = nlohmann::ordered_json;

TEST(AdminEndpointsTest, SlotsAreTheRequestsThatGenerate) {
  GenerationTable table;
  EXPECT_EQ(SlotsResponse(table).body, "[]");
  FakeExchange exchange;
  std::optional<GenerationTable::Entry> first(std::in_place, table, "a", "/v1/completions",
                                              exchange);
  GenerationTable::Entry second(table, "b", "/v1/messages", exchange);
  second.SetTokens(3, 5);
  const Json slots = Json::parse(SlotsResponse(table).body, nullptr, false);
  ASSERT_THAT(slots, SizeIs(2));
  EXPECT_EQ(slots[0]["id"], "a");
  EXPECT_EQ(slots[1]["path"], "/v1/messages");
  EXPECT_EQ(slots[1]["prompt_tokens"], 3);
  EXPECT_EQ(slots[1]["output_tokens"], 5);
  EXPECT_GE(slots[1]["seconds"], 0.0);
  first.reset();
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(table.List()[0].id, "b");
}

TEST(AdminEndpointsTest, AbortMeansAllOfAnId) {
  GenerationTable table;
  std::array<FakeExchange, 3> exchanges;
  GenerationTable::Entry a(table, "a", "/", exchanges[0]);
  GenerationTable::Entry b(table, "b", "/", exchanges[1]);
  GenerationTable::Entry another(table, "a", "/", exchanges[2]);
  const ApiResult<HttpResponse> response = AbortResponse(table, R"({"request_id": "a"})");
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body, R"({"request_id":"a","aborted":2})");
  EXPECT_TRUE(a.is_aborted());
  EXPECT_FALSE(b.is_aborted());
  EXPECT_TRUE(another.is_aborted());
  EXPECT_FALSE(exchanges[0].may_be_slow);
  EXPECT_TRUE(exchanges[1].may_be_slow);
  EXPECT_FALSE(exchanges[2].may_be_slow);
  const ApiResult<HttpResponse> unknown = AbortResponse(table, R"({"request_id": "c"})");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().status, 404);
  for (const char* body : {"", "[]", "{}", R"({"request_id": ""})", R"({"request_id": 5})"}) {
    const ApiResult<HttpResponse> wrong = AbortResponse(table, body);
    ASSERT_FALSE(wrong) << body;
    EXPECT_EQ(wrong.error().status, 400) << body;
  }
}

TEST(AdminEndpointsTest, RequestsComeAndGoWhileTheyAreListed) {
  GenerationTable table;
  std::vector<std::thread> requests;
  for (int i = 0; i < 4; ++i) {
    requests.emplace_back([&table] {
      FakeExchange exchange;
      for (int n = 0; n < 200; ++n) {
        GenerationTable::Entry entry(table, "a", "/", exchange);
        entry.SetTokens(n, n);
        static_cast<void>(entry.is_aborted());
      }
    });
  }
  for (int n = 0; n < 100; ++n) {
    EXPECT_LE(table.Abort("a"), 4u);
    for (const GenerationTable::Row& row : table.List()) {
      EXPECT_LE(row.output_tokens, 200);
    }
  }
  for (std::thread& request : requests) request.join();
  EXPECT_THAT(table.List(), IsEmpty());
}

}  // namespace
}  // namespace fathom::server
