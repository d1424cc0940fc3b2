// The OpenAPI document allows the sampling parameters that the table of the engine allows, and has
// the limits of the server.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "engine/sampling_fields.h"
#include "server/openapi_document.h"

namespace fathom::server {
namespace {

using nlohmann::json;

void ExpectRange(const json& property, const SamplingField& field) {
  if (field.number == nullptr) {
    EXPECT_EQ(property["minimum"], -1) << "-1 and 0 are off";
    EXPECT_EQ(property["maximum"], std::numeric_limits<std::int64_t>::max())
        << "more than the vocabulary is all of it";
    return;
  }
  EXPECT_EQ(property.value("minimum", 1e9), field.low);
  EXPECT_EQ(property.value("maximum", 1e9), field.high);
}

TEST(OpenApiSampling, HasTheRangesOfTheTable) {
  const json document = json::parse(OpenApiDocument());
  const json& schemas = document["components"]["schemas"];
  for (const SamplingField& field : SamplingFields()) {
    SCOPED_TRACE(field.name);
    for (const char* request : {"ChatCompletionRequest", "CompletionRequest", "ResponsesRequest",
                                "MessagesRequest", "OllamaOptions"}) {
      const json& properties = schemas.at(request).at("properties");
      ASSERT_TRUE(properties.contains(field.name)) << request;
      ExpectRange(properties[std::string(field.name)], field);
    }
    for (const json& schema : schemas) {
      const json properties = schema.value("properties", json::object());
      const auto found = properties.find(field.name);
      if (found != properties.end() && found->contains("minimum")) ExpectRange(*found, field);
    }
  }
}

TEST(OpenApiLimits, AreThoseOfTheServer) {
  const json document = json::parse(OpenApiDocument({.vocab_size = 4096, .max_choices = 3}));
  const json& schemas = document["components"]["schemas"];
  EXPECT_EQ(schemas["TokenId"]["maximum"], 4095);
  EXPECT_EQ(schemas["TokenIdText"]["pattern"], NumbersUpTo(4095));
  EXPECT_EQ(schemas["ChoiceCount"]["maximum"], 3);
}

TEST(OpenApiOperations, AreWrittenOut) {
  const json document = json::parse(OpenApiDocument());
  const json& operation = document.at("paths").at("/v1/chat/completions").at("post");
  EXPECT_EQ(operation.at("requestBody").at("content").at("application/json").at("schema"),
            json({{"$ref", "#/components/schemas/ChatCompletionRequest"}}));
  const json& responses = operation.at("responses");
  EXPECT_TRUE(responses.at("200").at("content").contains("application/json"));
  EXPECT_TRUE(responses.at("200").at("content").contains("text/event-stream"));
  const std::string refusal = responses.at("400").at("$ref");
  EXPECT_TRUE(document.contains(json::json_pointer(refusal.substr(1)))) << refusal;
}

TEST(OpenApiLimits, NumbersHaveAnExpression) {
  for (const int last : {0, 1, 9, 10, 19, 99, 100, 409, 4095}) {
    const std::regex expression(NumbersUpTo(last));
    const auto is_number = [&](const std::string& text) {
      return std::regex_match(text, expression);
    };
    for (int i = 0; i <= 2 * last + 10; ++i) {
      EXPECT_EQ(is_number(std::to_string(i)), i <= last) << i << " up to " << last;
    }
    EXPECT_FALSE(is_number("")) << last;
    EXPECT_FALSE(is_number("00")) << last;
    EXPECT_FALSE(is_number("-0")) << last;
  }
}

}  // namespace
}  // namespace fathom::server
