// PageWatch: reports writes to the memory of emulated devices, and reads of its hidden pages.
//
// Watched pages are closed to such an access. The fault of the first access opens the page, and the
// access is repeated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "tests/emulator/arena.h"

namespace fathom::kernels::emulator {

// Pages by their first address, each with the name of a kernel that writes it.
using WrittenPages = std::map<std::byte*, std::string_view>;

// To be used from the thread that made it. One at a time on a thread.
class PageWatch {
 public:
  // Runs in the handler of a signal, when a kernel accesses a page for the first time.
  using OnTouch = std::function<void(std::byte* address, bool writes)>;

  // Reports writes to the arenas, which must be open for the life of this object.
  PageWatch(std::vector<Arena*> arenas, OnTouch on_touch);
  ~PageWatch();
  PageWatch(const PageWatch&) = delete;
  PageWatch& operator=(const PageWatch&) = delete;

  // Reports reads of these pages, too.
  void Hide(const WrittenPages& pages);
  // Stops reporting writes to these pages.
  void Ignore(const WrittenPages& pages);

  static std::byte* PageOf(std::byte* address);

 private:
  struct Signals;

  // Opens the page of an address, and reports the access. Returns false if no arena has the page.
  // `wrote`: whether the access was a write, if the system says so.
  bool Touch(std::byte* address, std::optional<bool> wrote);
  // Returns false if no arena has the page.
  bool AllowPage(std::byte* page, ReservedAddresses::Access access);

  std::vector<Arena*> arenas_;
  OnTouch on_touch_;
  std::set<std::byte*> hidden_;
};

}  // namespace fathom::kernels::emulator
