// GenerationTable: the requests that generate now, for whoever runs the server.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace fathom {

// Any thread.
class GenerationTable {
 public:
  // One request, in the table as long as it lives. Belongs to the thread of its request; the table,
  // which must outlive it, may be asked from others.
  class Entry {
   public:
    // `id`: X-Request-Id; clients choose it, so that several requests may have the same.
    Entry(GenerationTable& table, std::string id, std::string path);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    // Sets the tokens of all prompts and choices so far.
    void SetTokens(std::int64_t prompt, std::int64_t output);
    // Whether somebody wants it to end.
    bool is_aborted() const { return is_aborted_; }

   private:
    friend class GenerationTable;

    GenerationTable& table_;
    const std::string id_;
    const std::string path_;
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
    double seconds = 0;  // since it began
  };

  // The oldest first.
  std::vector<Row> List() const;
  std::size_t size() const;
  // Asks those of that id to end, which they do within a step of the engine. Returns how many.
  std::size_t Abort(std::string_view id);

 private:
  mutable std::mutex mutex_;
  std::vector<Entry*> entries_;  // guarded by mutex_
};

}  // namespace fathom
