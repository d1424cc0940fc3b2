#include "fuzz/responses_request_check.h"

#include <utility>

#include "api/responses/responses_request.h"
#include "fuzz/request_checks.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom::fuzz {
namespace {

constexpr std::string_view kId = "resp_stored";

// Reads a stored conversation again, as the beginning of a later request.
std::string CheckStored(const ResponsesContext& context) {
  ResponseStore store;
  store.Put({.id = std::string(kId), .json = "{}", .items = context.input});
  const Result<ResponsesRequest> again = ParseResponsesRequest(
      R"({"previous_response_id": "resp_stored"})", kRequestLimits, {}, &store);
  if (!again) return "a stored conversation is refused: " + again.error().message;
  if (again->context.input.size() != context.input.size()) return "a stored item is lost";
  return "";
}

}  // namespace

std::string CheckResponsesRequest(std::string_view input) {
  ResponseStore store;
  store.Put({.id = std::string(kId),
             .json = "{}",
             .items = {{.id = "msg_1", .json = R"({"id": "msg_1", "role": "user"})"}}});
  Result<ResponsesRequest> request = ParseResponsesRequest(input, kRequestLimits, {}, &store);
  if (!request) return CheckError(request.error());
  const std::string echo = WriteJson(request->context.echo);
  if (!ParseJson(echo, {.python_constants = false})) {
    return "an echo that is not JSON: " + echo;
  }
  std::string wrong = CheckStored(request->context);
  if (!wrong.empty()) return wrong;
  return CheckChat(std::move(request->chat));
}

}  // namespace fathom::fuzz
