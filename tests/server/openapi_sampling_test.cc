// The OpenAPI document allows the sampling parameters that the table of the engine allows.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "engine/sampling_fields.h"
#include "server/embedded_files.h"

namespace fathom {
namespace {

using nlohmann::json;

void ExpectRange(const json& property, const SamplingField& field) {
  if (field.number == nullptr) {
    EXPECT_EQ(property["minimum"], -1) << "-1 and 0 are off";
    EXPECT_FALSE(property.contains("maximum")) << "more than the vocabulary is all of it";
    return;
  }
  EXPECT_EQ(property.value("minimum", 1e9), field.low);
  EXPECT_EQ(property.value("maximum", 1e9), field.high);
}

TEST(OpenApiSampling, HasTheRangesOfTheTable) {
  const json document = json::parse(OpenApiJson());
  const json& schemas = document["components"]["schemas"];
  for (const SamplingField& field : SamplingFields()) {
    SCOPED_TRACE(field.name);
    for (const char* request : {"ChatCompletionRequest", "CompletionRequest"}) {
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

}  // namespace
}  // namespace fathom
