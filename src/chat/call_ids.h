// Unguessable ids: a prefix and 24 characters of A-Z, a-z, 0-9.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace fathom::chat {

// Returns 64 random bits each time. A server passes a generator seeded from the system, so that ids
// cannot be guessed or repeat; a test passes one with a fixed seed.
using RandomBits = std::function<std::uint64_t()>;

// Returns random bits of the operating system. Any thread.
RandomBits SystemRandomBits();

// Returns an id from at least three draws. Each character is uniform.
std::string MakeId(std::string_view prefix, const RandomBits& random_bits);

}  // namespace fathom::chat
