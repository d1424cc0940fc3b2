// Generate: answers one call, from the engine to the client.
#pragma once

#include <chrono>
#include <optional>

#include "api/common/api.h"
#include "api/common/request_runner.h"
#include "chat/call_ids.h"
#include "http/http.h"
#include "server/generation_table.h"
#include "server/served_request.h"

namespace fathom::server {

struct GenerationOptions {
  // A stream that has sent no byte for this time sends AnswerFormat::SignOfLife. Clients are
  // promised a byte within 10 s, and bytes take time to arrive.
  std::chrono::milliseconds keep_alive{9000};
  // Limits the whole answer; none: no limit.
  std::optional<std::chrono::milliseconds> time_limit;
  // A client that is gone is noticed at the next event, or after this time without an event. A
  // stream that may begin in the queue begins after this time.
  std::chrono::milliseconds watch{100};
  RandomBits random_bits;  // required
};

// The receiver of the answer, its record, and its entry in the table of running requests.
struct GenerationClient {
  HttpExchange& exchange;
  ServedRequest& record;
  GenerationTable::Entry& entry;
};

// Submits the requests of a call and answers the exchange, whole or as a stream. Blocks until the
// answer is sent; cancels the requests when the client is gone or the entry is aborted. Stores the
// answer before it sends the end, so that the client's next request finds it.
void Generate(const ApiCall& call, const ApiModel& model, RequestRunner& runner,
              const GenerationOptions& options, const GenerationClient& client);

// Returns an error as the API writes it, with Retry-After if the client should try again.
HttpResponse ErrorResponse(const Api& api, const ApiError& error);

}  // namespace fathom::server
