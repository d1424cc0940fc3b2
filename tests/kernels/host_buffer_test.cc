#include "kernels/host_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace fathom::kernels {
namespace {

TEST(HostBuffer, IsZeroedAlignedAndWritable) {
  const auto buffer = AllocateHostBuffer(100'000);
  ASSERT_TRUE(buffer);
  const std::span<std::byte> bytes = (*buffer)->host();
  ASSERT_EQ(bytes.size(), 100'000u);
  EXPECT_EQ((*buffer)->address(), bytes.data());
  EXPECT_EQ((*buffer)->bytes(), 100'000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes.data()) % 64, 0u);
  EXPECT_THAT(bytes, ::testing::Each(std::byte{0}));
  bytes.back() = std::byte{1};
  EXPECT_EQ(bytes.back(), std::byte{1});
}

TEST(HostBuffer, MayBeEmpty) {
  const auto buffer = AllocateHostBuffer(0);
  ASSERT_TRUE(buffer);
  EXPECT_TRUE((*buffer)->host().empty());
}

TEST(HostBuffer, TooMuchIsAnErrorThatNamesTheBytes) {
  const auto buffer = AllocateHostBuffer(std::numeric_limits<std::int64_t>::max());
  ASSERT_FALSE(buffer);
  EXPECT_EQ(buffer.error().code, ErrorCode::kOutOfMemory);
  EXPECT_THAT(buffer.error().message, ::testing::HasSubstr("9223372036854775807"));
}

}  // namespace
}  // namespace fathom::kernels
