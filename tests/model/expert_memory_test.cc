#include "model/expert_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "kernels/registry.h"

namespace fathom {
namespace {

TEST(ExpertMemoryTest, PiecesAreApartAndAreTakenAgain) {
  const std::unique_ptr<Backend> backend = *MakeCpuBackend(std::nullopt, 1);
  ExpertMemory memory(*backend, 40 * 1024);
  std::vector<std::span<std::byte>> pieces;
  for (int i = 0; i < 40; ++i) {  // more than a buffer has
    const Result<std::span<std::byte>> piece = memory.Take(1000);
    ASSERT_TRUE(piece.has_value()) << piece.error().message;
    EXPECT_EQ(piece->size(), 1024u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(piece->data()) % 64, 0u);
    std::fill(piece->begin(), piece->end(), static_cast<std::byte>(i));
    pieces.push_back(*piece);
  }
  for (int i = 0; i < 40; ++i) {
    const auto& piece = pieces[static_cast<std::size_t>(i)];
    EXPECT_EQ(std::count(piece.begin(), piece.end(), static_cast<std::byte>(i)), 1024);
  }
  EXPECT_EQ(memory.bytes(), 40 * 1024);
  const Result<std::span<std::byte>> refused = memory.Take(1);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(refused.error().message, "moved experts: expected at most 40960 bytes, found 41024");
  memory.GiveBack(pieces[7]);
  memory.ReleaseSpare();
  EXPECT_FALSE(memory.Take(1025).has_value());
  EXPECT_EQ(memory.Take(1024)->data(), pieces[7].data());
  // Its neighbours have kept what they hold.
  EXPECT_EQ(pieces[6][1023], std::byte{6});
  EXPECT_EQ(pieces[8][0], std::byte{8});
}

}  // namespace
}  // namespace fathom
