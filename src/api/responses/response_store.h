// ResponseStore: stores the latest responses of the Responses API, so that a client need not send a
// conversation again.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/common/recent_entries.h"

namespace fathom::api {

// One item of a conversation: a message, a call, the output of a call, ...
struct ResponseItem {
  std::string id{};  // not empty in a stored response
  std::string json{};
};

struct StoredResponse {
  std::string id{};
  std::string json{};                 // the response as its client received it
  std::vector<ResponseItem> items{};  // the whole conversation: its input, then its output
  std::size_t n_input = 0;            // items of the input
};

// Keeps responses in memory; evicts the least recently used ones. Any thread may call.
class ResponseStore {
 public:
  static constexpr std::size_t kDefaultBytes = std::size_t{64} << 20;

  explicit ResponseStore(std::size_t max_bytes = kDefaultBytes) : entries_(max_bytes) {}

  // Replaces the response with the same id. A single response above the limit is not kept.
  void Put(StoredResponse response);

  // Return the response with this id, its conversation or the input in it, or any item of any
  // conversation; nullopt if it is not stored.
  std::optional<std::string> FindResponse(std::string_view id);
  std::optional<std::vector<ResponseItem>> FindConversation(std::string_view id);
  std::optional<std::vector<ResponseItem>> FindInput(std::string_view id);
  std::optional<ResponseItem> FindItem(std::string_view id);

  // Returns whether there was such a response.
  bool Remove(std::string_view id);

  // Returns the bytes of all entries, with an estimate of their overhead.
  std::size_t bytes() const;

 private:
  mutable std::mutex mutex_;
  RecentEntries<std::string, StoredResponse> entries_;  // by id; guarded by mutex_
};

}  // namespace fathom::api
