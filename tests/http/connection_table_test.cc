#include "http/connection_table.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <optional>
#include <vector>

namespace fathom::http {
namespace {

constexpr int kNoSocket = -1;  // shutting it down does nothing

// A connection that comes while the reserve shrinks, because others end their work, must not wait
// for room that there will not be.
TEST(ConnectionTable, AddsWhileOthersEndTheirWork) {
  constexpr int kLimit = 4;
  ConnectionTable table(kLimit, 16);
  std::vector<ConnectionTable::Id> working;
  for (int i = 0; i < kLimit; ++i) {
    working.push_back(table.Add(kNoSocket).value());
    ASSERT_EQ(table.BeginWork(working.back(), true), ConnectionTable::Admission::kAdmitted);
  }
  std::vector<ConnectionTable::Id> idle;
  for (int i = 0; i < kLimit; ++i) {
    idle.push_back(table.Add(kNoSocket).value());
  }
  std::future<std::optional<ConnectionTable::Id>> added =
      std::async(std::launch::async, [&] { return table.Add(kNoSocket); });
  while (table.counts().evicted == 0) {
  }
  table.BeginLingering(working.front());
  // The threads of closed connections remove them.
  idle.insert(idle.begin(), working.front());
  while (added.wait_for(std::chrono::milliseconds(1)) == std::future_status::timeout) {
    std::erase_if(idle, [&](ConnectionTable::Id id) {
      const bool is_closed = !table.BeginReading(id);
      if (is_closed) table.Remove(id);
      return is_closed;
    });
  }
  EXPECT_TRUE(added.get().has_value());
}

TEST(ConnectionTable, RefusesWhenAllAreAtWork) {
  ConnectionTable table(1, 0);
  const ConnectionTable::Id working = table.Add(kNoSocket).value();
  ASSERT_EQ(table.BeginWork(working, false), ConnectionTable::Admission::kAdmitted);
  EXPECT_FALSE(table.Add(kNoSocket));
  table.BeginLingering(working);
  EXPECT_TRUE(table.EvictOne());
}

}  // namespace
}  // namespace fathom::http
