// The byte-level alphabet: how tokenizer.json writes bytes as printable characters.
//
// Bytes that are printable in Latin-1 (21..7E, A1..AC, AE..FF) stand for themselves; the other 68,
// in ascending order, are U+0100, U+0101, ... (docs/spec/tokenizer.md 2). A space is U+0120.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fathom {

// The UTF-8 of the symbol of one byte.
std::string ByteToSymbol(std::uint8_t byte);

// The bytes that a string of symbols stands for; nullopt if it holds anything else.
std::optional<std::string> SymbolsToBytes(std::string_view symbols);

}  // namespace fathom
