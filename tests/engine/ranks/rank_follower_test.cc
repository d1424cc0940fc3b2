// Calls that a following rank cannot run end the run with an error.
#include "engine/ranks/rank_follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "comm/rank_message.h"
#include "comm/socket_mesh.h"
#include "engine/ranks/rank_calls.h"
#include "tests/model/test_model.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

// Returns the error of a rank that has loaded no drafter and gets this message of rank 0.
Error ErrorOfFollower(RankMessage message) {
  std::vector<MeshEnds> mesh = *MakeSocketMesh(2);
  const AbortFlag abort_flag;
  Status followed;
  {
    const std::jthread follower([&, ends = std::move(mesh[1])]() mutable {
      const std::unique_ptr<Communicator> all =
          MakeSocketCommunicator(1, std::move(ends), abort_flag);
      TestModel loaded(ProjectPath("models/fairy"), {.max_context = 16, .max_batch_tokens = 8},
                       {.n_threads = 1});
      followed = FollowCalls(loaded.model(), *all, {}, {});
    });
    const std::unique_ptr<Communicator> all =
        MakeSocketCommunicator(0, std::move(mesh[0]), abort_flag);
    EXPECT_TRUE(message.Broadcast(*all));
  }
  EXPECT_FALSE(followed);
  return followed ? Error() : followed.error();
}

TEST(RankFollower, WithoutADrafterReportsACallOfIt) {
  const std::vector<DraftRequest> requests = {{.row = 0, .n_drafts = 1}};
  RankMessage propose;
  propose.Write(RankCall::kPropose);
  WriteRequests(requests, propose);
  const Error error = ErrorOfFollower(std::move(propose));
  EXPECT_EQ(error.code, ErrorCode::kInvalidData);
  EXPECT_THAT(error.message, ::testing::HasSubstr("no call of a drafter"));
}

TEST(RankFollower, ReportsACallOfAPassThatItCannotRun) {
  for (const auto& [call, why] : {std::pair(RankCall::kBeginPass, "this rank does not pause"),
                                  std::pair(RankCall::kContinuePass, "none is under way"),
                                  std::pair(RankCall::kStopPass, "none is under way")}) {
    RankMessage message;
    message.Write(call);
    const Error error = ErrorOfFollower(std::move(message));
    EXPECT_EQ(error.code, ErrorCode::kInvalidData);
    EXPECT_THAT(error.message, ::testing::HasSubstr(why));
  }
}

TEST(RankFollower, ReportsACallThatItDoesNotKnow) {
  RankMessage unknown;
  unknown.Write(99);
  const Error error = ErrorOfFollower(std::move(unknown));
  EXPECT_EQ(error.code, ErrorCode::kInvalidData);
  EXPECT_THAT(error.message, ::testing::HasSubstr("found call 99"));
}

}  // namespace
}  // namespace fathom::testing
