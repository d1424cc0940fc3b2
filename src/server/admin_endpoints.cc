#include "server/admin_endpoints.h"

#include <fmt/format.h>

#include <string>

#include "api/common/generation_fields.h"
#include "api/common/sse.h"
#include "json/field_reader.h"
#include "json/json_writer.h"

namespace fathom {
namespace {

tl::unexpected<ApiError> Failed(ApiError error) {
  return tl::unexpected<ApiError>(std::move(error));
}

ApiError NotRunning(const std::string& id) {
  return {.status = 404,
          .message = fmt::format("no request \"{}\" generates now", id),
          .type = "invalid_request_error",
          .param = "request_id",
          .code = "not_found"};
}

}  // namespace

HttpResponse SlotsResponse(const GenerationTable& table) {
  JsonValue slots = JsonValue::Array();
  for (const GenerationTable::Row& row : table.List()) {
    slots.push_back({{"id", row.id},
                     {"path", row.path},
                     {"prompt_tokens", row.prompt_tokens},
                     {"output_tokens", row.output_tokens},
                     {"seconds", row.seconds}});
  }
  return {.body = WriteJson(slots)};
}

ApiResult<HttpResponse> AbortResponse(GenerationTable& table, std::string_view body) {
  const Result<JsonValue> json = ParseBody(body);
  if (!json) return Failed(ToApiError(json.error()));
  FieldReader reader(*json);
  std::string id;
  reader.ReadString("request_id", &id);
  if (!reader.error() && id.empty()) reader.Fail("request_id", "the id of a request", "nothing");
  if (reader.error()) return Failed(ToApiError(*reader.error()));
  const std::size_t n_aborted = table.Abort(id);
  if (n_aborted == 0) return Failed(NotRunning(id));
  return HttpResponse{.body = WriteJson({{"request_id", id}, {"aborted", n_aborted}})};
}

}  // namespace fathom
