#include "cli/request_stats.h"

#include <gtest/gtest.h>

namespace fathom::cli {
namespace {

TEST(PromptShare, CountsTokensAndTheLayersOfTheStepUnderWay) {
  MetricsSnapshot now;
  EXPECT_EQ(PromptShare(now, 1000), 0);
  now.pass_tokens = 400;
  now.pass = {.layers_done = 10, .layers = 40};
  EXPECT_DOUBLE_EQ(PromptShare(now, 1000), .1);
  now.prompt_tokens = 400;
  now.cached_tokens = 200;
  EXPECT_DOUBLE_EQ(PromptShare(now, 1000), .7);
  now.pass = {};
  EXPECT_DOUBLE_EQ(PromptShare(now, 1000), .6);
}

}  // namespace
}  // namespace fathom::cli
