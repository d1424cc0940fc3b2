#include "cli/batch/batch_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "api/anthropic/messages_api.h"
#include "api/openai/openai_api.h"
#include "api/responses/responses_api.h"
#include "json/field_reader.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom::cli {
namespace {

// Every line of the output begins with this text. The id of a line that never ran continues with
// its number in the input.
constexpr std::string_view kOutputBegin = R"({"id":")";
constexpr std::string_view kLineId = "batch_line_";

tl::unexpected<BatchLineError> LineError(std::string custom_id, std::string code,
                                         std::string message) {
  return tl::unexpected<BatchLineError>(BatchLineError{
      .custom_id = std::move(custom_id), .code = std::move(code), .message = std::move(message)});
}

// Returns the API that the first path of the endpoint names; nullptr: batches do not support the
// endpoint.
const Api* FindBatchApi(std::string_view url) {
  for (const Api* api : {&kChatCompletions, &kCompletions, &kResponses, &kMessages}) {
    if (url == api->paths.front()) return api;
  }
  return nullptr;
}

}  // namespace

tl::expected<BatchInputLine, BatchLineError> ParseBatchLine(std::string_view line) {
  const Result<JsonValue> json = ParseJson(line);
  if (!json) return LineError("", "invalid_json_line", json.error().message);
  if (!json->IsObject()) {
    return LineError("", "invalid_json_line",
                     fmt::format("expected an object, found {}", DescribeFound(*json)));
  }
  const JsonValue* id = json->Find("custom_id");
  if (id == nullptr || !id->IsString() || id->text().empty()) {
    return LineError("", "missing_custom_id",
                     fmt::format("custom_id: expected a string that is not empty, found {}",
                                 id == nullptr ? "nothing" : DescribeFound(*id)));
  }
  FieldReader reader(*json);
  std::string method = "POST";
  std::string url;
  reader.ReadString("method", &method);
  reader.ReadString("url", &url);
  if (method != "POST") reader.Fail("method", "POST", PythonJsonString(method));
  const Api* api = FindBatchApi(url);
  if (api == nullptr) {
    reader.Fail("url", "/v1/chat/completions, /v1/completions, /v1/responses or /v1/messages",
                url.empty() ? "nothing" : PythonJsonString(url));
  }
  const JsonValue* body = json->Find("body");
  if (body == nullptr || !body->IsObject()) {
    reader.Fail("body", "an object", body == nullptr ? "nothing" : DescribeFound(*body));
  }
  if (reader.error())
    return LineError(std::string(id->text()), "invalid_request", reader.error()->message);
  return BatchInputLine{
      .custom_id = std::string(id->text()), .api = api, .body = std::string(body->SourceIn(line))};
}

Result<BatchOutputKey> ParseBatchOutputLine(std::string_view line) {
  const Result<JsonValue> json = ParseJson(line, {.python_constants = false});
  const JsonValue* id = json ? json->Find("id") : nullptr;
  const JsonValue* custom_id = json ? json->Find("custom_id") : nullptr;
  const JsonValue* response = json ? json->Find("response") : nullptr;
  const bool is_output = id != nullptr && id->IsString() && custom_id != nullptr &&
                         response != nullptr && json->Find("error") != nullptr;
  if (!is_output) {
    return MakeError(ErrorCode::kInvalidData, "expected a line of a batch's output, found {}",
                     json ? "other JSON" : "text that is not JSON");
  }
  const JsonValue* status = response->Find("status_code");
  BatchOutputKey key = {.is_error = status == nullptr || status->AsDouble() != 200.0};
  if (id->text().starts_with(kLineId)) {
    const char* end = id->text().data() + id->text().size();
    std::from_chars(id->text().data() + kLineId.size(), end, key.line_number);
  }
  if (custom_id->IsString()) key.custom_id = custom_id->text();
  return key;
}

std::string BatchReplyLine(std::string_view custom_id, std::string_view request_id,
                           const ApiReply& reply) {
  return fmt::format(
      "{}batch_req_{}\",\"custom_id\":{},\"response\":{{\"status_code\":{},\"request_id\":\"req_{}"
      "\",\"body\":{}}},\"error\":null}}\n",
      kOutputBegin, request_id, PythonJsonString(custom_id), reply.status, request_id, reply.body);
}

std::string BatchErrorLine(const BatchLineError& error, std::int64_t line_number) {
  return fmt::format(
      "{}{}{}\",\"custom_id\":{},\"response\":null,\"error\":{{\"code\":{},\"message\":{}}}}}\n",
      kOutputBegin, kLineId, line_number,
      error.custom_id.empty() ? "null" : PythonJsonString(error.custom_id),
      PythonJsonString(error.code),
      PythonJsonString(fmt::format("line {}: {}", line_number, error.message)));
}

bool MayBeginBatchOutput(std::string_view text) {
  const std::size_t n_bytes = std::min(text.size(), kOutputBegin.size());
  return text.substr(0, n_bytes) == kOutputBegin.substr(0, n_bytes);
}

}  // namespace fathom::cli
