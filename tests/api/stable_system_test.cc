#include "api/anthropic/messages_request.h"

#include <gtest/gtest.h>

namespace fathom::api {
namespace {

TEST(StableSystemTest, BillingHeadersGo) {
  EXPECT_EQ(StableSystemText("x-anthropic-billing-header: cc_version=2; cch=1;"), "");
  EXPECT_EQ(StableSystemText("x-anthropic-billing-header: cch=1;\n\nYou are"), "You are");
  EXPECT_EQ(StableSystemText("a\nx-anthropic-billing-header: cch=1;\nb\n"), "a\nb\n");
  EXPECT_EQ(StableSystemText("x-anthropic-billing-header:\nx-anthropic-billing-header:\nb"), "b");
}

TEST(StableSystemTest, MarkersOfTokensGo) {
  EXPECT_EQ(StableSystemText("<total_tokens>9 tokens left</total_tokens>"), "");
  EXPECT_EQ(StableSystemText("a\n\n<total_tokens>123,456 tokens left</total_tokens>"), "a");
  EXPECT_EQ(StableSystemText("a\n<total_tokens>2 tokens left</total_tokens>\n"
                             "<total_tokens>1 tokens left</total_tokens>\nb"),
            "a\nb");
}

TEST(StableSystemTest, OtherTextStaysAsItIs) {
  for (const char* text :
       {"", "\n", "a\n\n", "the x-anthropic-billing-header: of a request",
        "X-anthropic-billing-header:", " x-anthropic-billing-header: a", "<total_tokens>",
        "<total_tokens> tokens left</total_tokens>", "\n<total_tokens>5 tokens</total_tokens>",
        "<total_tokens>5 tokens left</total_tokens", "<total_tokens><total_tokens>x",
        "\n\n<total_tokens>many tokens left</total_tokens>\n"}) {
    EXPECT_EQ(StableSystemText(text), text);
  }
}

}  // namespace
}  // namespace fathom::api
