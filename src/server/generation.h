// Generation: one call, from the engine to the client.
#pragma once

#include <chrono>
#include <optional>

#include "api/common/api.h"
#include "api/common/request_runner.h"
#include "chat/call_ids.h"
#include "http/http.h"
#include "server/generation_table.h"
#include "server/served_request.h"

namespace fathom {

struct GenerationOptions {
  // How long a stream may say nothing before it shows that it lives.
  std::chrono::milliseconds keep_alive{10000};
  // For the whole answer; none: as long as it takes.
  std::optional<std::chrono::milliseconds> time_limit;
  // A client that is gone is noticed at the next event, and after so long where there is none.
  std::chrono::milliseconds watch{100};
  RandomBits random_bits;  // required
};

// Whom the answer is for, and where it is kept account of.
struct GenerationClient {
  HttpExchange& exchange;
  ServedRequest& record;
  GenerationTable::Entry& entry;
};

// Submits the requests of a call and answers the exchange, whole or as a stream. Blocks until that
// is done; the engine's work is cancelled when the client is gone or the entry aborted. What is to
// be kept of an answer is kept before its end is told, so that the client finds it.
void Generate(const ApiCall& call, const ApiModel& model, RequestRunner& runner,
              const GenerationOptions& options, const GenerationClient& client);

// An error as the API writes it, with Retry-After where trying again makes sense.
HttpResponse ErrorResponse(const Api& api, const ApiError& error);

}  // namespace fathom
