#include "api/common/other_endpoint.h"

#include <fmt/format.h>

namespace fathom::api {
namespace {

struct Endpoint {
  std::string_view prompt_field;
  std::string_view paths;
  std::string_view ollama_path;
};

constexpr Endpoint kEndpoints[] = {
    {"messages", "/v1/chat/completions (or /v1/messages, with Anthropic's blocks)", "/api/chat"},
    {"input", "/v1/responses", "/v1/responses"},
    {"prompt", "/v1/completions", "/api/generate"},
};

}  // namespace

void RefuseOtherEndpoint(FieldReader& reader, std::string_view prompt_field, PathFamily family) {
  if (reader.Find(prompt_field) != nullptr) return;
  for (const Endpoint& other : kEndpoints) {
    const JsonValue* prompt = reader.Find(other.prompt_field);
    // Responses take an object as "prompt", which names a template at OpenAI.
    if (other.prompt_field == prompt_field || prompt == nullptr || prompt->IsObject()) continue;
    reader.Fail(
        {ErrorCode::kInvalidArgument,
         fmt::format("{}: this is a body for POST {}; this path reads {}", other.prompt_field,
                     family == PathFamily::kOllama ? other.ollama_path : other.paths,
                     prompt_field)});
    return;
  }
}

Error OtherEndpointError(const std::string& field, std::string_view what, std::string_view path,
                         std::string_view reads) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("{}: {} is for POST {}; this path reads {}", field, what, path, reads)};
}

}  // namespace fathom::api
