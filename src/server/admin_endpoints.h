// What only those may ask who run the server. spec/serving.md section 4.
#ifndef FATHOM_SERVER_ADMIN_ENDPOINTS_H_
#define FATHOM_SERVER_ADMIN_ENDPOINTS_H_

#include <string_view>

#include "api/api_error.h"
#include "server/generation_table.h"
#include "server/http.h"

namespace fathom {

// [{"id", "path", "prompt_tokens", "output_tokens", "seconds"}, ...], the oldest first.
HttpResponse SlotsResponse(const GenerationTable& table);

// {"request_id"} -> {"request_id", "aborted"}: how many requests of that id are told to end.
// Errors: a body that is none; 404 if there is no such request, or not any more.
ApiResult<HttpResponse> AbortResponse(GenerationTable& table, std::string_view body);

}  // namespace fathom

#endif  // FATHOM_SERVER_ADMIN_ENDPOINTS_H_
