// Endpoints that generate nothing, for clients of llama.cpp, vLLM, SGLang and Ollama.
#pragma once

#include "api/common/api.h"
#include "http/http.h"
#include "server/endpoints.h"

namespace fathom::server {

// llama.cpp's /apply-template: the body of a chat completion -> {"prompt"}, the text that the model
// would continue, with its special tokens. /v1/completions accepts it as a prompt. Errors: as for a
// chat completion.
ApiResult<HttpResponse> ApplyTemplateResponse(const ApiModel& model, const ApiBody& body);

// llama.cpp's /props: the context, the sampling and the name, as its clients read them.
HttpResponse PropsResponse(const ServedModel& model, std::string_view version);

// SGLang's /get_model_info.
HttpResponse ModelInfoResponse(const ServedModel& model);

// Ollama's /api/show: {"model"} -> the context and the capabilities of the model. Error: no such
// model; Ollama's ":latest" after a name is ignored.
ApiResult<HttpResponse> ShowResponse(const ServedModel& model, const ApiBody& body);

// For holders of an admin key: the state of the server, with the fields that benchmarks of SGLang
// read.
HttpResponse ServerInfoResponse(const ServedModel& model, std::string_view version);

}  // namespace fathom::server
