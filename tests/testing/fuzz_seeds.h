// FuzzSeedsTest: replays the seeds of fuzz targets, and changes them at random as a fuzzer would.
//
// For one file of a test, which says what its targets are:
//   INSTANTIATE_TEST_SUITE_P(Targets, FuzzSeedsTest, ::testing::Values(...), NameOfTarget);
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <filesystem>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/testing/shared_data.h"

namespace fathom::testing {

struct FuzzTarget {
  const char* name;                              // its seeds are in fuzz/seeds/NAME
  std::string (*check)(std::string_view input);  // returns what is wrong, or ""
  int n_texts = 1;                               // a connection has several behind one another
};

// The name in the list of tests.
inline std::ostream& operator<<(std::ostream& out, const FuzzTarget& target) {
  return out << target.name;
}
inline std::string NameOfTarget(const ::testing::TestParamInfo<FuzzTarget>& target) {
  return target.param.name;
}

class FuzzSeedsTest : public ::testing::TestWithParam<FuzzTarget> {
 protected:
  FuzzSeedsTest() {
    const std::filesystem::path folder = ProjectPath("fuzz/seeds") / GetParam().name;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      seeds_.push_back(ReadFile(entry.path()));
    }
  }
  std::string Check(const std::string& input) const { return GetParam().check(input); }

  std::vector<std::string> seeds_;
};

TEST_P(FuzzSeedsTest, Replay) {
  EXPECT_FALSE(seeds_.empty());
  for (const std::string& seed : seeds_) {
    EXPECT_EQ(Check(seed), "") << seed.substr(0, 200);
  }
}

TEST_P(FuzzSeedsTest, AnyBytes) {
  const bool passed =
      rc::check([this](const std::string& bytes) { RC_ASSERT(Check(bytes) == ""); });
  EXPECT_TRUE(passed);
}

TEST_P(FuzzSeedsTest, SeedsWithAPieceOfAnotherInThem) {
  const bool passed = rc::check([this] {
    std::string text;
    for (int i = 0; i < GetParam().n_texts; ++i) text += *rc::gen::elementOf(seeds_);
    const std::string other = *rc::gen::elementOf(seeds_);
    const auto cut = [](const std::string& from) {
      return *rc::gen::inRange<std::size_t>(0, from.size() + 1);
    };
    const std::size_t begin = cut(other);
    const std::size_t length = *rc::gen::inRange<std::size_t>(0, 40);
    const std::size_t at = cut(text);
    text.replace(at, *rc::gen::inRange<std::size_t>(0, 20), other.substr(begin, length));
    RC_ASSERT(Check(text) == "");
  });
  EXPECT_TRUE(passed);
}

}  // namespace fathom::testing
