// The checkpoints that tests of whole models run on: the embedded one, and small ones of every kind
// from the golden data.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

#include "tests/testing/shared_data.h"

namespace fathom::testing {

struct CheckpointCase {
  const char* name;
  const char* golden;  // in the golden data; nullptr: the embedded model

  // None: it is not there, and the test is skipped.
  std::optional<std::filesystem::path> Directory() const {
    return golden == nullptr ? std::optional<std::filesystem::path>(ProjectPath("models/fairy"))
                             : SharedData(golden);
  }
};

inline constexpr CheckpointCase kFairy = {"fairy", nullptr};
inline constexpr CheckpointCase kFlashMini = {"flash_mini", "oracle/flash-mini"};
inline constexpr CheckpointCase kProMini = {"pro_mini", "oracle/pro-mini"};
inline constexpr CheckpointCase kBaseMini = {"base_mini", "oracle/base-mini"};

inline constexpr CheckpointCase kDSparkMini = {"dspark_mini", "oracle/dspark-mini"};

inline auto AllCheckpoints() { return ::testing::Values(kFairy, kFlashMini, kProMini, kBaseMini); }
inline std::string NameOfCase(const ::testing::TestParamInfo<CheckpointCase>& info) {
  return info.param.name;
}

}  // namespace fathom::testing
