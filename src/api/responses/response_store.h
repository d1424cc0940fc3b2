// ResponseStore: the latest responses of the Responses API, so that a client need not send again
// what was said before.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/common/recent_entries.h"

namespace fathom {

// One item of a conversation: a message, a call, the output of one, ...
struct ResponseItem {
  std::string id{};  // may be empty
  std::string json{};
};

struct StoredResponse {
  std::string id{};
  std::string json{};                 // the response, as its client got it
  std::vector<ResponseItem> items{};  // the whole conversation: its input, then its output
};

// In memory only. Over the limit the responses go that were not used for longest. Any thread.
class ResponseStore {
 public:
  static constexpr std::size_t kDefaultBytes = std::size_t{64} << 20;

  explicit ResponseStore(std::size_t max_bytes = kDefaultBytes) : entries_(max_bytes) {}

  // In place of what has the same id. What alone is over the limit is not kept.
  void Put(StoredResponse response);

  // The response of that id, its conversation, and any item of any conversation. nullopt: not
  // there, or not any more.
  std::optional<std::string> FindResponse(std::string_view id);
  std::optional<std::vector<ResponseItem>> FindConversation(std::string_view id);
  std::optional<ResponseItem> FindItem(std::string_view id);

  // Whether it was there.
  bool Remove(std::string_view id);

  // Returns the bytes of all entries, with an estimate of the overhead.
  std::size_t bytes() const;

 private:
  mutable std::mutex mutex_;
  RecentEntries<std::string, StoredResponse> entries_;  // by id; guarded by mutex_
};

}  // namespace fathom
