// LoadTarget: the server under load, and the requests to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "http/http_client.h"
#include "json/json_value.h"
#include "measure/load/completion_stream.h"

namespace fathom::measure::load {

struct LoadTarget {
  std::string url;  // a URL that ParseServerUrl accepts
  LoadEndpoint endpoint = LoadEndpoint::kCompletions;
  std::string model;
  std::string api_key;                // empty: none
  std::optional<double> temperature;  // none: the server's default
  HttpClientLimits limits{};
};

// The conversation so far is an array of messages {"role", "content"}, which all endpoints but
// completions accept.
HttpCall MakeChatCall(const LoadTarget& target, const JsonValue& messages, std::int64_t n_output);
HttpCall MakeCompletionCall(const LoadTarget& target, const std::vector<Token>& prompt,
                            std::int64_t n_output);

// Returns the first model of GET /v1/models. Errors: an error of HttpClient::Send; a status that is
// not 200; a list without a model.
Result<std::string> FetchFirstModel(const LoadTarget& target);

}  // namespace fathom::measure::load
