// Any tokenizer.json must give a tokenizer or an error, and an accepted tokenizer must decode what
// it encodes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "tokenizer/tokenizer.h"

using fathom::Check;
using fathom::tokenizer::SpecialTokens;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = fathom::tokenizer::Tokenizer::Parse(json, "tokenizer.json");
  if (!tokenizer) {
    Check(!tokenizer.error().message.empty(), "an error without a message");
    return 0;
  }
  constexpr std::string_view kText =
      "<end>ab abc 1234  \n\xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x98\x80<";
  for (const auto mode : {SpecialTokens::kParse, SpecialTokens::kPlainText}) {
    const auto tokens = tokenizer->Encode(kText, mode);
    Check(!tokens || tokenizer->Decode(*tokens) == kText, "the text did not come back");
  }
  return 0;
}
