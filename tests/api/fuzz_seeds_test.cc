#include "tests/testing/fuzz_seeds.h"

#include "fuzz/chat_request_check.h"
#include "fuzz/responses_request_check.h"

namespace fathom::testing {

INSTANTIATE_TEST_SUITE_P(
    Targets, FuzzSeedsTest,
    ::testing::Values(FuzzTarget{"chat_request", fuzz::CheckChatRequest},
                      FuzzTarget{"messages_request", fuzz::CheckMessagesRequest},
                      FuzzTarget{"responses_request", fuzz::CheckResponsesRequest}),
    NameOfTarget);

}  // namespace fathom::testing
