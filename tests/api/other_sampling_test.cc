// Fields of sampling as other servers name them, on all APIs.
#include <gtest/gtest.h>

#include <string>

#include "api/anthropic/messages_api.h"
#include "api/openai/openai_api.h"
#include "api/responses/responses_api.h"
#include "tests/api/api_model.h"

namespace fathom::api {
namespace {

class OtherSamplingTest : public testing::ApiModelTest,
                          public ::testing::WithParamInterface<const Api*> {
 protected:
  ApiResult<ApiCall> Send(const std::string& fields) const {
    std::string prompt = R"("messages": [{"role": "user", "content": "Hi"}])";
    if (GetParam() == &kResponses) prompt = R"("input": "Hi")";
    if (GetParam() == &kCompletions) prompt = R"("prompt": "Hi")";
    return GetParam()->prepare("{" + prompt + ", " + fields + "}", model_);
  }
  SamplingParameters Sampling(const std::string& fields) const {
    const ApiResult<ApiCall> call = Send(fields);
    EXPECT_TRUE(call) << fields << ": " << (call ? "" : call.error().message);
    return call ? call->requests.at(0).sampling : SamplingParameters();
  }
  std::string ErrorFrom(const std::string& fields) const {
    const ApiResult<ApiCall> call = Send(fields);
    return call ? "accepted" : call.error().message;
  }
};

TEST_P(OtherSamplingTest, OtherNames) {
  EXPECT_EQ(Sampling(R"("repeat_penalty": 1.5)").repetition_penalty, 1.5);
  EXPECT_EQ(Sampling(R"("repeat_penalty": 3, "repetition_penalty": 1.25)").repetition_penalty,
            1.25);
  EXPECT_EQ(ErrorFrom(R"("repeat_penalty": 0)"),
            "repeat_penalty: expected a number from 0.01 to 100, found 0");
  for (const std::string name : {"num_predict", "max_new_tokens", "n_predict"}) {
    EXPECT_EQ(Sampling("\"" + name + "\": 7").max_tokens, 7);
    EXPECT_EQ(Sampling("\"" + name + "\": 7, \"max_tokens\": 9").max_tokens, 9);
    EXPECT_EQ(ErrorFrom("\"" + name + "\": 5.5"),
              name + ": expected an integer of at least 1, found 5.5");
  }
}

TEST_P(OtherSamplingTest, FieldsThatThisServerLacksAreRefused) {
  for (const std::string field :
       {R"("typical_p": 0.5)", R"("mirostat": 2)", R"("mirostat_mode": 1)",
        R"("dry_multiplier": 1)", R"("xtc_probability": 0.5)", R"("stop_regex": "a")",
        R"("samplers": ["top_k"])", R"("top_a": 0.2)", R"("tfs_z": 0.9)", R"("dynatemp_range": 1)",
        R"("typical_p": "x")", R"("chat_template": "{{ messages }}")",
        R"("documents": [{"text": "a"}])", R"("no_repeat_ngram_size": 3)"}) {
    const std::string name = field.substr(1, field.find('"', 1) - 1);
    EXPECT_EQ(ErrorFrom(field), name + ": not supported") << field;
  }
  EXPECT_EQ(ErrorFrom(R"("repeat_last_n": 64, "repeat_penalty": 1.1)"),
            "repeat_last_n: not supported with a repetition_penalty, but for -1: the penalty holds "
            "for all tokens");
}

TEST_P(OtherSamplingTest, ValuesThatAskForNothingAreTaken) {
  Sampling(R"("typical_p": 1, "mirostat": 0, "mirostat_tau": 5.0, "dry_multiplier": 0.0,
              "dry_base": 1.75, "xtc_probability": 0, "xtc_threshold": 0.1, "tfs_z": 1.0,
              "top_a": 0, "samplers": [], "stop_regex": null, "chat_template": null,
              "documents": [], "dynatemp_range": 0, "repeat_last_n": 64, "repeat_penalty": 1)");
  Sampling(R"("repeat_last_n": -1, "repeat_penalty": 1.1)");
}

INSTANTIATE_TEST_SUITE_P(Apis, OtherSamplingTest,
                         ::testing::Values(&kChatCompletions, &kCompletions, &kResponses,
                                           &kMessages),
                         [](const ::testing::TestParamInfo<const Api*>& api) {
                           if (api.param == &kMessages) return "Messages";
                           if (api.param == &kResponses) return "Responses";
                           return api.param == &kCompletions ? "Completions" : "Chat";
                         });

}  // namespace
}  // namespace fathom::api
