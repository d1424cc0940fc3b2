// SeededHash: a hash for tables whose keys come from outside: from clients or checkpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fathom {

// Depends on a random number of each process, so an attacker cannot choose keys with equal hashes,
// which would make a table slow. So it must not be used for values that must be equal in two
// processes. Any thread.
struct SeededHash {
  // Not noexcept: for such functions, the tables of GNU's library store the hashes; otherwise they
  // recompute them for each step through a bucket.
  std::size_t operator()(std::string_view text) const;
  std::size_t operator()(std::uint64_t number) const;
};

}  // namespace fathom
