#include "base/lost_pages.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/integer_math.h"

namespace fathom {

// Never freed, because the handler may read an entry at any time. A free entry is reused, unless it
// names the first loss.
struct WatchedMapping::Entry {
  std::atomic<const std::byte*> begin = nullptr;  // null: free
  std::atomic<std::size_t> size = 0;
  std::array<char, 1024> file = {};  // ends with zeros
  Entry* next = nullptr;
};

// A signal handler has no argument for an object, so the data that it reads and writes is global.
struct LostPages {
  using Entry = WatchedMapping::Entry;

  static void Handle(int signal, siginfo_t* info, void* context);
  static bool Replace(const Entry& entry, const std::byte* address);
  static void Report(const Entry& entry, std::size_t offset);

  static inline std::mutex adding;
  static inline std::atomic<Entry*> entries = nullptr;
  static inline std::size_t page_bytes = 0;
  static inline struct sigaction before = {};
  // The first loss.
  static inline std::atomic_flag is_reported;
  static inline std::atomic<std::size_t> offset = 0;
  static inline std::atomic<const Entry*> lost = nullptr;
};

namespace {

constexpr std::string_view kCause = "the file was truncated while it was in use, or its disk fails";

// Appends as much of `text` as fits.
char* Append(char* to, const char* end, std::string_view text) {
  return std::copy_n(text.data(), std::min(text.size(), static_cast<std::size_t>(end - to)), to);
}

}  // namespace

// Calls only functions that a handler may call: no allocation, no locks.
void LostPages::Handle(int signal, siginfo_t* info, void* /*context*/) {
  const int error = errno;
  const auto* const address = static_cast<const std::byte*>(info->si_addr);
  const bool is_fault = info->si_code > 0;  // not sent by a process
  const Entry* entry = is_fault ? entries.load() : nullptr;
  for (; entry != nullptr; entry = entry->next) {
    const std::byte* const begin = entry->begin;
    if (begin != nullptr && address >= begin && address < begin + entry->size) break;
  }
  if (entry == nullptr || !Replace(*entry, address)) {
    // On return, the instruction runs again, and its signal has its earlier effect.
    ::sigaction(signal, &before, nullptr);
    if (!is_fault) ::raise(signal);
  }
  errno = error;
}

// A truncated file has lost the pages after this one, too.
bool LostPages::Replace(const Entry& entry, const std::byte* address) {
  const std::byte* const begin = entry.begin;
  const auto offset_in_file = static_cast<std::size_t>(address - begin);
  const std::size_t first = offset_in_file / page_bytes * page_bytes;
  void* const page = const_cast<std::byte*>(begin) + first;
  // The raw call: ThreadSanitizer takes mmap for a write that races with the readers of the page.
  if (::syscall(SYS_mmap, page, RoundUp(entry.size - first, page_bytes), PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0L) == -1) {
    return false;
  }
  if (!is_reported.test_and_set()) {
    offset = offset_in_file;
    lost = &entry;
    Report(entry, offset_in_file);
  }
  return true;
}

void LostPages::Report(const Entry& entry, std::size_t offset_in_file) {
  std::array<char, 1280> line;
  const char* const end = line.data() + line.size();
  std::array<char, 20> digits;
  const char* const digits_end =
      std::to_chars(digits.data(), digits.data() + digits.size(), offset_in_file).ptr;
  char* next = Append(line.data(), end, "fathom: ");
  next = Append(next, end, entry.file.data());
  next = Append(next, end, ": cannot read byte ");
  next = Append(next, end, {digits.data(), digits_end});
  next = Append(next, end, ": ");
  next = Append(next, end, kCause);
  next = Append(next, end, "\n");
  static_cast<void>(
      !::write(STDERR_FILENO, line.data(), static_cast<std::size_t>(next - line.data())));
}

void HandleLostPages() {
  LostPages::page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = LostPages::Handle;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, &LostPages::before);
}

Status CheckLostPages() {
  const LostPages::Entry* const lost = LostPages::lost;
  if (lost == nullptr) return {};
  return MakeError(ErrorCode::kInvalidData, "{}: cannot read byte {}: {}", lost->file.data(),
                   LostPages::offset.load(), kCause);
}

WatchedMapping::WatchedMapping(std::span<const std::byte> bytes,
                               const std::filesystem::path& path) {
  const std::lock_guard lock(LostPages::adding);
  entry_ = LostPages::entries;
  while (entry_ != nullptr && (entry_->begin != nullptr || entry_ == LostPages::lost)) {
    entry_ = entry_->next;
  }
  const bool is_new = entry_ == nullptr;
  if (is_new) entry_ = new Entry;
  const std::string name = path.string().substr(0, entry_->file.size() - 1);
  entry_->file.fill('\0');
  std::ranges::copy(name, entry_->file.begin());
  entry_->size = bytes.size();
  entry_->begin = bytes.data();
  if (is_new) {
    entry_->next = LostPages::entries;
    LostPages::entries = entry_;
  }
}

WatchedMapping::WatchedMapping(WatchedMapping&& other) noexcept
    : entry_(std::exchange(other.entry_, nullptr)) {}

WatchedMapping& WatchedMapping::operator=(WatchedMapping&& other) noexcept {
  std::swap(entry_, other.entry_);
  return *this;
}

WatchedMapping::~WatchedMapping() {
  if (entry_ != nullptr) entry_->begin = nullptr;
}

}  // namespace fathom
