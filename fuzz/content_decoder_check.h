// CheckContentDecoder: decodes bytes whole and in pieces, and compares.
#pragma once

#include <string>
#include <string_view>

namespace fathom::fuzz {

// `input`: 'g' for gzip or another byte for zstd, and the body. Returns what is wrong, or "".
std::string CheckContentDecoder(std::string_view input);

}  // namespace fathom::fuzz
