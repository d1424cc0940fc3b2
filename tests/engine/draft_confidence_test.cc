#include "engine/draft_confidence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace fathom::engine {
namespace {

TEST(DraftConfidence, LearnsTheChanceOfALogit) {
  DraftConfidence confidence;
  EXPECT_EQ(confidence.Chance(-3.0f), 1) << "nothing is known";
  for (int i = 0; i < 400; ++i) {
    confidence.RecordVerification(2.2f, i % 10 != 0);
    confidence.RecordVerification(-2.8f, i % 10 == 0);
  }
  EXPECT_NEAR(confidence.Chance(2.5f), 0.9 + 0.06, 0.03);
  EXPECT_NEAR(confidence.Chance(-2.1f), 0.1 + 0.06, 0.03);
  EXPECT_EQ(confidence.Chance(0), 1) << "another bin";
  // Lately all are right.
  for (int i = 0; i < 2000; ++i) confidence.RecordVerification(-2.8f, true);
  EXPECT_GT(confidence.Chance(-2.8f), 0.99);
}

TEST(DraftConfidence, TakesAnyNumber) {
  DraftConfidence confidence;
  for (const float logit : {-1e30f, 1e30f, std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(), std::nanf("")}) {
    for (int i = 0; i < 300; ++i) confidence.RecordVerification(logit, logit > 0);
  }
  EXPECT_GT(confidence.Chance(1e9f), 0.9);
  EXPECT_LT(confidence.Chance(-1e9f), 0.1);
  EXPECT_LT(confidence.Chance(std::nanf("")), 0.1);
}

TEST(DraftConfidence, CutsWhatIsNotWorthIt) {
  DraftConfidence confidence;
  int n_cut = 0;
  for (int i = 0; i < 160; ++i) {
    EXPECT_FALSE(confidence.Cuts(0.5, 0.4));
    n_cut += confidence.Cuts(0.3, 0.4) ? 1 : 0;
  }
  EXPECT_EQ(n_cut, 150) << "one in 16 is verified all the same";
}

}  // namespace
}  // namespace fathom::engine
