// PageWatch: tells where the memory of emulated devices is written, and where hidden pages of it
// are read.
//
// Pages are closed to such a touch. The fault of the first one opens a page, and the touch goes on.
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

namespace fathom::emulator {

// Pages by their first address, each with the name of a kernel that writes it.
using WrittenPages = std::map<std::byte*, std::string_view>;

// Threads: the one that has made it. One at a time on a thread.
class PageWatch {
 public:
  // Runs in the handler of a signal, where a kernel has touched a page for the first time.
  using OnTouch = std::function<void(std::byte* address, bool writes)>;

  // Tells of writes to the arenas, which are open, and remain so for the life of this object.
  PageWatch(std::vector<Arena*> arenas, OnTouch on_touch);
  ~PageWatch();
  PageWatch(const PageWatch&) = delete;
  PageWatch& operator=(const PageWatch&) = delete;

  // Tells of reads of these pages, too.
  void Hide(const WrittenPages& pages);
  // Does not tell of writes to these pages any more.
  void Ignore(const WrittenPages& pages);

  static std::byte* PageOf(std::byte* address);

 private:
  struct Signals;

  // Opens the page of an address, and tells. Returns false if no arena has it. `wrote`: what the
  // system says of the access, if it does.
  bool Touch(std::byte* address, std::optional<bool> wrote);
  // Returns false if no arena has the page.
  bool AllowPage(std::byte* page, ReservedAddresses::Access access);

  std::vector<Arena*> arenas_;
  OnTouch on_touch_;
  std::set<std::byte*> hidden_;
};

}  // namespace fathom::emulator
