// SeededHash: the hash for tables whose keys come from outside, from clients or checkpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fathom {

// Depends on a number that each process draws anew, so nobody can choose keys of one hash, which
// would make a table slow. Hence not for anything that must be the same in two processes. Any
// thread.
struct SeededHash {
  // Not noexcept: the tables of GNU's library store the hashes of such functions, and else compute
  // them again for each step through a bucket.
  std::size_t operator()(std::string_view text) const;
  std::size_t operator()(std::uint64_t number) const;
};

}  // namespace fathom
