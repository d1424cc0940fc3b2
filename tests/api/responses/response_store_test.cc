#include "api/responses/response_store.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace fathom::api {
namespace {

StoredResponse Response(const std::string& id, std::size_t n_bytes = 10) {
  return {.id = id,
          .json = "{" + id + "}",
          .items = {{.id = "in_" + id, .json = std::string(n_bytes, 'i')},
                    {.id = "out_" + id, .json = "o"}},
          .n_input = 1};
}

TEST(ResponseStoreTest, FindsWhatWasPut) {
  ResponseStore store;
  store.Put(Response("a"));
  store.Put(Response("b"));
  EXPECT_EQ(store.FindResponse("a"), "{a}");
  ASSERT_TRUE(store.FindConversation("b"));
  EXPECT_EQ(store.FindConversation("b")->size(), 2u);
  EXPECT_EQ(store.FindConversation("b")->at(1).id, "out_b");
  ASSERT_TRUE(store.FindInput("b"));
  ASSERT_EQ(store.FindInput("b")->size(), 1u);
  EXPECT_EQ(store.FindInput("b")->at(0).id, "in_b");
  EXPECT_EQ(store.FindItem("out_a")->json, "o");
  EXPECT_FALSE(store.FindResponse("c"));
  EXPECT_FALSE(store.FindConversation("c"));
  EXPECT_FALSE(store.FindInput("c"));
  EXPECT_FALSE(store.FindItem("c"));
  EXPECT_FALSE(store.FindItem("")) << "items without an id are not one item";
}

TEST(ResponseStoreTest, RemoveAndReplace) {
  ResponseStore store;
  store.Put(Response("a"));
  const std::size_t bytes = store.bytes();
  store.Put(Response("a"));
  EXPECT_EQ(store.bytes(), bytes);
  store.Put(Response("a", 11));
  EXPECT_EQ(store.bytes(), bytes + 1);
  EXPECT_TRUE(store.Remove("a"));
  EXPECT_FALSE(store.Remove("a"));
  EXPECT_FALSE(store.FindItem("in_a"));
  EXPECT_EQ(store.bytes(), 0u);
}

TEST(ResponseStoreTest, TheLongestUnusedGoFirst) {
  ResponseStore probe;
  probe.Put(Response("a"));
  ResponseStore store(3 * probe.bytes());
  for (const char* id : {"a", "b", "c"}) store.Put(Response(id));
  EXPECT_TRUE(store.FindResponse("a"));
  store.Put(Response("d"));
  EXPECT_FALSE(store.FindResponse("b"));
  EXPECT_TRUE(store.FindConversation("c"));
  store.Put(Response("e"));
  EXPECT_FALSE(store.FindResponse("a"));
  store.Put(Response("f", 1 << 20));
  EXPECT_FALSE(store.FindResponse("f")) << "larger than all there is room for";
  EXPECT_TRUE(store.FindResponse("c")) << "and nothing went for it";
  EXPECT_LE(store.bytes(), 3 * probe.bytes());
}

TEST(ResponseStoreTest, ManyThreads) {
  ResponseStore probe;
  probe.Put(Response("0"));
  ResponseStore store(8 * probe.bytes());
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&store, thread] {
      for (int i = 0; i < 500; ++i) {
        const std::string id = std::to_string((i * 7 + thread) % 10);
        store.Put(Response(id));
        const auto conversation = store.FindConversation(id);
        EXPECT_TRUE(!conversation || conversation->at(0).id == "in_" + id);
        store.FindItem("out_" + id);
        if (i % 3 == 0) store.Remove(id);
      }
    });
  }
  threads.clear();
  for (int id = 0; id < 10; ++id) store.Remove(std::to_string(id));
  EXPECT_EQ(store.bytes(), 0u);
}

}  // namespace
}  // namespace fathom::api
