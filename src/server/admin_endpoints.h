// Endpoints for holders of an admin key. docs/spec/serving.md section 4.
#pragma once

#include <string_view>

#include "api/common/api_error.h"
#include "http/http.h"
#include "server/generation_table.h"

namespace fathom {

// [{"id", "path", "prompt_tokens", "output_tokens", "seconds"}, ...], the oldest first.
HttpResponse SlotsResponse(const GenerationTable& table);

// {"request_id"} -> {"request_id", "aborted"}: how many requests of that id are told to end.
// Errors: a body that is none; 404 if there is no such request, or not any more.
ApiResult<HttpResponse> AbortResponse(GenerationTable& table, std::string_view body);

}  // namespace fathom
