// PagesInPlace: lets a device read memory of the host in place.
//
// For devices that share the memory of the host: weights that the host has mapped need no copy. The
// driver pins their pages and gives the device access at the same addresses.
#pragma once

#include <cstddef>
#include <map>
#include <span>

#include "kernels/vendor/driver_api.h"

namespace fathom::kernels {

// One thread at a time, with the device set.
class PagesInPlace {
 public:
  // `api` must outlive this object. `flags`: for register_host, for memory that is only read.
  PagesInPlace(const DriverApi& api, unsigned flags) : api_(api), flags_(flags) {}
  PagesInPlace(const PagesInPlace&) = delete;
  PagesInPlace& operator=(const PagesInPlace&) = delete;
  ~PagesInPlace();

  // Returns true if the driver supports this: tries a page of a mapped file that is only read, like
  // weights.
  bool IsPossible();
  // Registers the pages of all pieces, each page once in all calls. Adjacent pieces are registered
  // together. Returns 0 or an error of the driver.
  int Add(std::span<const std::span<const std::byte>> pieces);

 private:
  int Register(std::byte* begin, std::byte* end);

  const DriverApi& api_;
  const unsigned flags_;
  std::map<std::byte*, std::byte*> ranges_;  // registered: begin to end, of whole pages
};

}  // namespace fathom::kernels
