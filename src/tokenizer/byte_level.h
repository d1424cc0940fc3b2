// The byte-level alphabet: how tokenizer.json writes bytes as printable characters.
//
// Bytes that are printable in Latin-1 (21..7E, A1..AC, AE..FF) represent themselves; the other 68
// bytes, in ascending order, are U+0100, U+0101, ... (docs/spec/tokenizer.md 2). A space is U+0120.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fathom::tokenizer {

// Returns the symbol of a byte, in UTF-8.
std::string ByteToSymbol(std::uint8_t byte);

// Returns the bytes of a string of symbols; nullopt if the string contains anything else.
std::optional<std::string> SymbolsToBytes(std::string_view symbols);

}  // namespace fathom::tokenizer
