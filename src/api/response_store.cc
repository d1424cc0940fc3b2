#include "api/response_store.h"

#include <utility>

namespace fathom {
namespace {

// Of nodes, strings and tables around one entry or item; what matters is that many empty items are
// not free.
constexpr std::size_t kOverheadBytes = 128;

std::size_t BytesOf(const StoredResponse& response) {
  std::size_t bytes = 2 * kOverheadBytes + response.id.size() + response.json.size();
  for (const ResponseItem& item : response.items) {
    bytes += kOverheadBytes + item.id.size() + item.json.size();
  }
  return bytes;
}

}  // namespace

void ResponseStore::Put(StoredResponse response) {
  const std::size_t bytes = BytesOf(response);
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(response.id);
  if (found != by_id_.end()) Erase(found->second);
  if (bytes > max_bytes_) return;
  while (bytes_ + bytes > max_bytes_) Erase(std::prev(entries_.end()));
  entries_.push_front({.response = std::move(response), .bytes = bytes});
  by_id_.emplace(entries_.front().response.id, entries_.begin());
  bytes_ += bytes;
}

std::optional<std::string> ResponseStore::FindResponse(std::string_view id) {
  const std::lock_guard lock(mutex_);
  const StoredResponse* response = Use(id);
  if (response == nullptr) return std::nullopt;
  return response->json;
}

std::optional<std::vector<ResponseItem>> ResponseStore::FindConversation(std::string_view id) {
  const std::lock_guard lock(mutex_);
  const StoredResponse* response = Use(id);
  if (response == nullptr) return std::nullopt;
  return response->items;
}

// References to items are rare, and a table of them would have to know of every conversation that
// holds the same one.
std::optional<ResponseItem> ResponseStore::FindItem(std::string_view id) {
  if (id.empty()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    for (const ResponseItem& item : entry.response.items) {
      if (item.id == id) return item;
    }
  }
  return std::nullopt;
}

bool ResponseStore::Remove(std::string_view id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return false;
  Erase(found->second);
  return true;
}

std::size_t ResponseStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

const StoredResponse* ResponseStore::Use(std::string_view id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return &entries_.front().response;
}

void ResponseStore::Erase(Entries::iterator entry) {
  bytes_ -= entry->bytes;
  by_id_.erase(entry->response.id);
  entries_.erase(entry);
}

}  // namespace fathom
