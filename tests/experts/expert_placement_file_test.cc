#include "experts/balance/expert_placement_file.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace fathom::experts {
namespace {

const PlacementOwner kOwner = {"5f0c", 2, {.n_logical = 4, .n_physical = 6, .n_ranks = 3}};
const BlockPlacements kPlacements = {{0, 1, 2, 3, 0, 1}, {3, 2, 1, 0, 3, 3}};

std::string FileRefusal(std::string_view from, std::string_view to) {
  std::string text = PlacementText(kPlacements, kOwner);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const Result<BlockPlacements> parsed = ParsePlacement(text, "experts.json", kOwner);
  return parsed ? "" : parsed.error().message;
}

TEST(ExpertPlacementFileTest, WhatIsWrittenIsRead) {
  const Result<BlockPlacements> parsed =
      ParsePlacement(PlacementText(kPlacements, kOwner), "experts.json", kOwner);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(*parsed, kPlacements);
}

TEST(ExpertPlacementFileTest, AFileForSomethingElseIsRefusedByItsField) {
  EXPECT_EQ(FileRefusal("5f0c", "5f0d"), "experts.json: model: expected '5f0c', found '5f0d'");
  EXPECT_EQ(FileRefusal("fathom experts 1", "fathom experts 2"),
            "experts.json: format: expected 'fathom experts 1', found 'fathom experts 2'");
  EXPECT_EQ(FileRefusal("\"routed_experts\": 4", "\"routed_experts\": 8"),
            "experts.json: routed_experts: expected 4, found 8");
  EXPECT_EQ(FileRefusal("\"physical_experts\": 6", "\"physical_experts\": 8"),
            "experts.json: physical_experts: expected 6, found 8");
  EXPECT_EQ(FileRefusal("\"expert_ranks\": 3", "\"expert_ranks\": 2"),
            "experts.json: expert_ranks: expected 3, found 2");
  EXPECT_EQ(FileRefusal("\"blocks\": 2", "\"blocks\": \"2\""),
            "experts.json: blocks: expected 2, found '2'");
  EXPECT_EQ(FileRefusal("\"1\": [", "\"2\": ["),
            "experts.json: placement.1: expected a list of 1 to 6 integers from 0 to 3, found "
            "nothing");
}

TEST(ExpertPlacementFileTest, AFileThatIsDamagedIsRefused) {
  EXPECT_EQ(FileRefusal("[3, 2, 1, 0, 3, 3]", "[3, 2, 1, 0, 3]"),
            "experts.json: placement.1: expected 6 physical experts, found 5");
  EXPECT_EQ(FileRefusal("[3, 2, 1, 0, 3, 3]", "[3, 2, 1, 1, 3, 3]"),
            "experts.json: placement.1: expected a replica of every expert, found none of 0");
  EXPECT_NE(FileRefusal("[3, 2, 1, 0, 3, 3]", "[3, 2, 1, 0, 3, 4]"), "");
  EXPECT_NE(FileRefusal("}}\n", ""), "");
  EXPECT_NE(ParsePlacement("", "experts.json", kOwner).error().message, "");
}

}  // namespace
}  // namespace fathom::experts
