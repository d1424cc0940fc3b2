#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "fuzz/content_decoder_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string wrong = fathom::fuzz::CheckContentDecoder(input);
  fathom::Check(wrong.empty(), wrong);
  return 0;
}
