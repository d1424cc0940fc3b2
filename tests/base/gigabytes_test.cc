#include "base/gigabytes.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

TEST(MegabytesTest, RoundDownWhatThereIsAndUpWhatIsEnough) {
  EXPECT_EQ(InMegabytes(0), "0.000 MB");
  EXPECT_EQ(InMegabytes(65'536), "0.065 MB");
  EXPECT_EQ(EnoughMegabytes(65'536), "0.066 MB");
  EXPECT_EQ(InMegabytes(999'999), "0.999 MB");
  EXPECT_EQ(EnoughMegabytes(999'999), "1.0 MB");
  EXPECT_EQ(InMegabytes(280'000'000), "280.0 MB");
  EXPECT_EQ(EnoughMegabytes(280'000'000), "280.0 MB");
  EXPECT_EQ(InMegabytes(279'999'999), "279.9 MB");
  EXPECT_EQ(EnoughMegabytes(280'000'001), "280.1 MB");
}

}  // namespace
}  // namespace fathom
