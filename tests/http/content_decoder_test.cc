#include "http/content_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/http/compressed_body.h"

namespace fathom::http {
namespace {

using testing::Gzip;
using ::testing::HasSubstr;
using testing::Zstd;

constexpr std::size_t kMiB = std::size_t{1} << 20;

struct Decoded {
  std::string text;
  std::string error;
  bool is_whole = false;
  std::size_t most_memory = 0;
};

Decoded Decode(ContentCoding coding, std::string_view bytes, std::size_t step = 1 << 14,
               std::size_t n_room = 1 << 14) {
  const auto decoder = *ContentDecoder::Make(coding);
  std::vector<char> room(n_room);
  Decoded decoded;
  while (!bytes.empty()) {
    std::string_view piece = bytes.substr(0, step);
    bytes.remove_prefix(piece.size());
    std::size_t n_decoded = n_room;
    while (!piece.empty() || n_decoded == n_room) {
      const Result<std::size_t> result = decoder->Decode(&piece, room);
      if (!result) return {.text = decoded.text, .error = result.error().message};
      n_decoded = *result;
      decoded.text.append(room.data(), n_decoded);
      decoded.most_memory = std::max(decoded.most_memory, decoder->memory());
    }
  }
  decoded.is_whole = decoder->is_whole();
  return decoded;
}

// Text that can be compressed, but not to nothing.
std::string SomeText(std::size_t n_bytes) {
  std::string text;
  std::uint32_t state = 1;
  while (text.size() < n_bytes) {
    state = state * 1664525 + 1013904223;
    text += static_cast<char>('a' + (state >> 28));
  }
  return text;
}

struct Coding {
  ContentCoding coding;
  std::string (*encode)(std::string_view text);
};

const Coding kCodings[] = {
    {ContentCoding::kGzip, Gzip},
    {ContentCoding::kZstd, [](std::string_view text) { return Zstd(text); }}};

TEST(ContentDecoderTest, TheTextDoesNotDependOnThePieces) {
  for (const Coding& coding : kCodings) {
    for (const std::size_t n_bytes : {0, 1, 100, 70'000}) {
      const std::string text = SomeText(n_bytes);
      const std::string coded = coding.encode(text);
      for (const std::size_t step : {std::size_t{1}, std::size_t{100}, coded.size()}) {
        for (const std::size_t n_room : {1, 1000, 100'000}) {
          const Decoded decoded = Decode(coding.coding, coded, step, n_room);
          EXPECT_EQ(decoded.error, "");
          EXPECT_TRUE(decoded.is_whole) << n_bytes << " " << step << " " << n_room;
          EXPECT_TRUE(decoded.text == text) << n_bytes << " " << step << " " << n_room;
        }
      }
    }
  }
}

TEST(ContentDecoderTest, BodiesOfSeveralParts) {
  const std::string skippable = std::string("\x50\x2a\x4d\x18\x03\0\0\0", 8) + "abc";
  const std::pair<ContentCoding, std::string> bodies[] = {
      {ContentCoding::kGzip, Gzip("one ") + Gzip("") + Gzip("two")},
      {ContentCoding::kZstd, Zstd("one ") + skippable + Zstd("") + Zstd("two")}};
  for (const auto& [coding, body] : bodies) {
    for (const std::size_t step : {std::size_t{1}, body.size()}) {
      const Decoded decoded = Decode(coding, body, step);
      EXPECT_EQ(decoded.error, "");
      EXPECT_EQ(decoded.text, "one two");
      EXPECT_TRUE(decoded.is_whole);
    }
  }
}

TEST(ContentDecoderTest, ACutBodyIsNotWhole) {
  for (const Coding& coding : kCodings) {
    const std::string one = coding.encode("Once upon a time.");
    const std::string two = one + coding.encode("The end.");
    for (std::size_t n_bytes = 0; n_bytes <= two.size(); ++n_bytes) {
      const Decoded decoded = Decode(coding.coding, two.substr(0, n_bytes));
      EXPECT_EQ(decoded.error, "");
      EXPECT_EQ(decoded.is_whole, n_bytes == one.size() || n_bytes == two.size()) << n_bytes;
    }
  }
}

TEST(ContentDecoderTest, OtherBytesAreRefused) {
  for (const Coding& coding : kCodings) {
    const std::string name = coding.coding == ContentCoding::kGzip ? "gzip" : "zstd";
    const std::string body = coding.encode("Once upon a time.");
    std::string damaged = body;
    damaged[body.size() - 1] = static_cast<char>(damaged[body.size() - 1] ^ 1);
    for (const std::string& wrong :
         {std::string(R"({"model": "m"})"), body + "{}{}{}", damaged,
          name == "gzip" ? Zstd("other coding") : Gzip("other coding")}) {
      for (const std::size_t step : {std::size_t{1}, wrong.size()}) {
        EXPECT_THAT(Decode(coding.coding, wrong, step).error,
                    HasSubstr("Content-Encoding: expected a " + name + " body, found "));
      }
    }
  }
}

// Its decoder would need memory without a limit.
TEST(ContentDecoderTest, TheFirstVersionsOfZstdAreRefused) {
  std::string body = Zstd("Once upon a time.");
  for (char version = 0x22; version < 0x28; ++version) {
    body[0] = version;
    EXPECT_THAT(Decode(ContentCoding::kZstd, body).error, HasSubstr("found other bytes"));
  }
}

TEST(ContentDecoderTest, MemoryIsBounded) {
  const std::string text = SomeText(20 * kMiB);
  const Decoded largest = Decode(ContentCoding::kZstd, Zstd(text, 23));
  EXPECT_TRUE(largest.is_whole);
  EXPECT_GT(largest.most_memory, 8 * kMiB) << "the window is counted";
  EXPECT_LT(largest.most_memory, 9 * kMiB);
  const Decoded larger = Decode(ContentCoding::kZstd, Zstd(text, 24));
  EXPECT_THAT(larger.error, HasSubstr("a zstd body with a window of at most 8 MiB, found "));
  EXPECT_EQ(larger.text, "");
  EXPECT_LT(Decode(ContentCoding::kGzip, Gzip(text)).most_memory, kMiB / 16);
}

TEST(ContentDecoderTest, CodingsThatCanBeRead) {
  using Fields = HttpFields;
  EXPECT_EQ(FindContentCoding({}), ContentCoding::kIdentity);
  for (const auto& [value, coding] :
       {std::pair<std::string, ContentCoding>{"", ContentCoding::kIdentity},
        {"identity", ContentCoding::kIdentity},
        {"Identity", ContentCoding::kIdentity},
        {"gzip", ContentCoding::kGzip},
        {"GZip", ContentCoding::kGzip},
        {"x-gzip", ContentCoding::kGzip},
        {"zstd", ContentCoding::kZstd}}) {
    EXPECT_EQ(FindContentCoding(Fields{{"content-ENCODING", value}}), coding) << value;
  }
  for (const char* value : {"br", "deflate", "gzip, zstd", "identity, gzip", "gzip,", "gzip;q=1"}) {
    EXPECT_EQ(FindContentCoding(Fields{{"Content-Encoding", value}}), std::nullopt) << value;
  }
  EXPECT_EQ(FindContentCoding(Fields{{"Content-Encoding", "gzip"}, {"Content-Encoding", "zstd"}}),
            std::nullopt);
}

}  // namespace
}  // namespace fathom::http
