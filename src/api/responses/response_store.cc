#include "api/responses/response_store.h"

#include <algorithm>
#include <utility>

namespace fathom::api {
namespace {

// An estimate of the nodes, strings and tables around one entry or item; without it, many empty
// items would be free.
constexpr std::size_t kItemOverhead = 128;

std::size_t SizeInBytes(const StoredResponse& response) {
  std::size_t bytes = 2 * kItemOverhead + response.id.size() + response.json.size();
  for (const ResponseItem& item : response.items) {
    bytes += kItemOverhead + item.id.size() + item.json.size();
  }
  return bytes;
}

}  // namespace

void ResponseStore::Put(StoredResponse response) {
  const std::size_t bytes = SizeInBytes(response);
  const std::string id = response.id;
  const std::lock_guard lock(mutex_);
  entries_.Put(id, std::move(response), bytes);
}

std::optional<std::string> ResponseStore::FindResponse(std::string_view id) {
  const std::lock_guard lock(mutex_);
  const StoredResponse* response = entries_.Use(std::string(id));
  if (response == nullptr) return std::nullopt;
  return response->json;
}

std::optional<std::vector<ResponseItem>> ResponseStore::FindConversation(std::string_view id) {
  const std::lock_guard lock(mutex_);
  const StoredResponse* response = entries_.Use(std::string(id));
  if (response == nullptr) return std::nullopt;
  return response->items;
}

std::optional<std::vector<ResponseItem>> ResponseStore::FindInput(std::string_view id) {
  const std::lock_guard lock(mutex_);
  const StoredResponse* response = entries_.Use(std::string(id));
  if (response == nullptr) return std::nullopt;
  const auto begin = response->items.begin();
  return std::vector(begin, begin + static_cast<std::ptrdiff_t>(response->n_input));
}

// Searches all conversations: references to items are rare, and a table of items would have to
// track every conversation that contains an item.
std::optional<ResponseItem> ResponseStore::FindItem(std::string_view id) {
  if (id.empty()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const ResponseItem* item = entries_.Find([id](const StoredResponse& response) {
    const auto found = std::find_if(response.items.begin(), response.items.end(),
                                    [id](const ResponseItem& entry) { return entry.id == id; });
    return found == response.items.end() ? nullptr : &*found;
  });
  if (item == nullptr) return std::nullopt;
  return *item;
}

bool ResponseStore::Remove(std::string_view id) {
  const std::lock_guard lock(mutex_);
  return entries_.Remove(std::string(id));
}

std::size_t ResponseStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return entries_.bytes();
}

}  // namespace fathom::api
