#include "tokenizer/byte_level.h"

#include <gtest/gtest.h>

#include <set>

namespace fathom::tokenizer {
namespace {

TEST(ByteLevel, EveryByteHasASymbolOfItsOwn) {
  std::set<std::string> symbols;
  std::string all_symbols;
  std::string all_bytes;
  for (int value = 0; value < 256; ++value) {
    const auto byte = static_cast<std::uint8_t>(value);
    const std::string symbol = ByteToSymbol(byte);
    EXPECT_EQ(SymbolsToBytes(symbol), std::string(1, static_cast<char>(byte)));
    symbols.insert(symbol);
    all_symbols += symbol;
    all_bytes += static_cast<char>(byte);
  }
  EXPECT_EQ(symbols.size(), 256u);
  EXPECT_EQ(SymbolsToBytes(all_symbols), all_bytes);
}

TEST(ByteLevel, KnownSymbols) {
  EXPECT_EQ(ByteToSymbol('!'), "!");
  EXPECT_EQ(ByteToSymbol('~'), "~");
  EXPECT_EQ(ByteToSymbol(0x00), "\u0100");
  EXPECT_EQ(ByteToSymbol('\n'), "\u010A");
  EXPECT_EQ(ByteToSymbol(' '), "\u0120");
  EXPECT_EQ(ByteToSymbol(0x7F), "\u0121");
  EXPECT_EQ(ByteToSymbol(0xA0), "\u0142");
  EXPECT_EQ(ByteToSymbol(0xAD), "\u0143");
  EXPECT_EQ(ByteToSymbol(0xE9), "\u00E9");
}

TEST(ByteLevel, RefusesWhatIsNoSymbol) {
  for (const char* text :
       {" ", "a b", "\n", "\u007F", "\u00A0", "\u00AD", "\u0144", "\u20AC", "a\U0001F600"}) {
    EXPECT_EQ(SymbolsToBytes(text), std::nullopt) << text;
  }
  EXPECT_EQ(SymbolsToBytes(""), "");
}

}  // namespace
}  // namespace fathom::tokenizer
