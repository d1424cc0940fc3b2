#include "tests/emulator/page_watch.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <utility>

#if defined(__x86_64__)
#include <ucontext.h>
#endif

namespace fathom::kernels::emulator {
namespace {

using Access = ReservedAddresses::Access;

std::size_t PageBytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

// Returns true if the access of a fault was a write; nullopt: the system does not say.
std::optional<bool> Wrote([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  constexpr greg_t kWrite = 2;  // a bit of the processor's error code
  return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & kWrite) != 0;
#else
  return std::nullopt;
#endif
}

}  // namespace

// The state of the signal handlers. It is global, because a handler has no argument for an object.
struct PageWatch::Signals {
  static void Handle(int signal, siginfo_t* info, void* context);
  static void Add(PageWatch* watch);
  static void Remove();

  static inline constinit thread_local PageWatch* active = nullptr;
  static inline std::mutex mutex;
  static inline int n_watches = 0;  // watches of all threads
  static inline struct sigaction before = {};
};

// Kernels access memory outside of all locks, so that the handler may allocate.
void PageWatch::Signals::Handle(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool is_fault = info->si_code > 0;  // not sent by a process
  if (!is_fault || active == nullptr ||
      !active->Touch(static_cast<std::byte*>(info->si_addr), Wrote(context))) {
    // After the return, the instruction runs again and its signal has its former effect.
    ::sigaction(signal, &before, nullptr);
    if (!is_fault) ::raise(signal);
  }
  errno = error;
}

void PageWatch::Signals::Add(PageWatch* watch) {
  active = watch;
  const std::lock_guard lock(mutex);
  if (n_watches++ > 0) return;
  struct sigaction action = {};
  action.sa_sigaction = &Handle;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGSEGV, &action, &before);
}

void PageWatch::Signals::Remove() {
  active = nullptr;
  const std::lock_guard lock(mutex);
  if (--n_watches > 0) return;
  ::sigaction(SIGSEGV, &before, nullptr);
}

PageWatch::PageWatch(std::vector<Arena*> arenas, OnTouch on_touch)
    : arenas_(std::move(arenas)), on_touch_(std::move(on_touch)) {
  Signals::Add(this);
  for (Arena* const arena : arenas_) {
    arena->Allow(arena->used(), Access::kRead);
  }
}

PageWatch::~PageWatch() {
  for (Arena* const arena : arenas_) {
    arena->Allow(arena->used(), Access::kWrite);
  }
  Signals::Remove();
}

void PageWatch::Hide(const WrittenPages& pages) {
  for (const auto& [page, writer] : pages) {
    if (AllowPage(page, Access::kNone)) {
      hidden_.insert(page);
    }
  }
}

void PageWatch::Ignore(const WrittenPages& pages) {
  for (const auto& [page, writer] : pages) {
    AllowPage(page, Access::kWrite);
  }
}

std::byte* PageWatch::PageOf(std::byte* address) {
  return address - reinterpret_cast<std::uintptr_t>(address) % PageBytes();
}

bool PageWatch::AllowPage(std::byte* page, Access access) {
  for (Arena* const arena : arenas_) {
    if (arena->HasUsed(page)) {
      arena->Allow({page, PageBytes()}, access);
      return true;
    }
  }
  return false;
}

bool PageWatch::Touch(std::byte* address, std::optional<bool> wrote) {
  std::byte* const page = PageOf(address);
  // A readable page faults for a write.
  const bool writes = wrote.value_or(!hidden_.contains(page));
  if (!AllowPage(page, writes ? Access::kWrite : Access::kRead)) return false;
  hidden_.erase(page);
  on_touch_(address, writes);
  return true;
}

}  // namespace fathom::kernels::emulator
