#include "server/generation_table.h"

#include <algorithm>
#include <utility>

namespace fathom {

GenerationTable::Entry::Entry(GenerationTable& table, std::string id, std::string path)
    : table_(table), id_(std::move(id)), path_(std::move(path)) {
  const std::lock_guard lock(table_.mutex_);
  table_.entries_.push_back(this);
}

GenerationTable::Entry::~Entry() {
  const std::lock_guard lock(table_.mutex_);
  std::erase(table_.entries_, this);
}

void GenerationTable::Entry::SetTokens(std::int64_t prompt, std::int64_t output) {
  prompt_tokens_ = prompt;
  output_tokens_ = output;
}

std::vector<GenerationTable::Row> GenerationTable::List() const {
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  std::vector<Row> rows;
  for (const Entry* entry : entries_) {
    rows.push_back({.id = entry->id_,
                    .path = entry->path_,
                    .prompt_tokens = entry->prompt_tokens_,
                    .output_tokens = entry->output_tokens_,
                    .seconds = std::chrono::duration<double>(now - entry->start_).count()});
  }
  return rows;
}

std::size_t GenerationTable::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::size_t GenerationTable::Abort(std::string_view id) {
  const std::lock_guard lock(mutex_);
  std::size_t n_found = 0;
  for (Entry* entry : entries_) {
    if (entry->id_ != id) continue;
    entry->is_aborted_ = true;
    ++n_found;
  }
  return n_found;
}

}  // namespace fathom
