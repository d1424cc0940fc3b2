// GenerationTable: lists the running requests that generate, for the administrators.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/http.h"

namespace fathom::server {

// Any thread may call.
class GenerationTable {
 public:
  // One request, in the table during its lifetime. Belongs to the thread of its request; the table,
  // which must outlive it, may be used from other threads.
  class Entry {
   public:
    // `id`: X-Request-Id; clients choose it, so several requests may have equal ids. `exchange`
    // belongs to the request and must outlive the entry.
    Entry(GenerationTable& table, std::string id, std::string path, HttpExchange& exchange)
        : table_(table), id_(std::move(id)), path_(std::move(path)), exchange_(exchange) {
      const std::lock_guard lock(table_.mutex_);
      table_.entries_.push_back(this);
    }
    ~Entry() {
      const std::lock_guard lock(table_.mutex_);
      std::erase(table_.entries_, this);
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    // Sets the tokens of all prompts and choices so far.
    void SetTokens(std::int64_t prompt, std::int64_t output) {
      prompt_tokens_ = prompt;
      output_tokens_ = output;
    }
    // Returns whether an administrator has ended the request.
    bool is_aborted() const { return is_aborted_; }

   private:
    friend class GenerationTable;

    GenerationTable& table_;
    const std::string id_;
    const std::string path_;
    HttpExchange& exchange_;
    const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    std::atomic<std::int64_t> prompt_tokens_ = 0;
    std::atomic<std::int64_t> output_tokens_ = 0;
    std::atomic<bool> is_aborted_ = false;
  };

  struct Row {
    std::string id;
    std::string path;
    std::int64_t prompt_tokens = 0;
    std::int64_t output_tokens = 0;
    double seconds = 0;  // time since the beginning
  };

  // Returns the rows, oldest first.
  std::vector<Row> List() const {
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

  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }

  // Marks the requests with that id as aborted. They end within a step of the engine, even if a
  // client does not read its answer. Returns their number.
  std::size_t Abort(std::string_view id) {
    const std::lock_guard lock(mutex_);
    std::size_t n_found = 0;
    for (Entry* entry : entries_) {
      if (entry->id_ != id) continue;
      entry->is_aborted_ = true;
      entry->exchange_.DropSlowClient();
      ++n_found;
    }
    return n_found;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Entry*> entries_;  // guarded by mutex_
};

}  // namespace fathom::server
