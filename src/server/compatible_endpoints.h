// Endpoints by which clients of llama.cpp, vLLM, SGLang and Ollama know a server; they generate
// nothing.
#pragma once

#include "api/common/api.h"
#include "http/http.h"
#include "server/endpoints.h"

namespace fathom {

// llama.cpp's /apply-template: the body of a chat completion -> {"prompt"}, the text that the model
// would continue, with its special tokens. /v1/completions takes it as a prompt. Errors: as of a
// chat completion.
ApiResult<HttpResponse> ApplyTemplateResponse(const ApiModel& model, const ApiBody& body);

// llama.cpp's /props: what its clients read of the context, the sampling and the name.
HttpResponse PropsResponse(const ServedModel& model, std::string_view version);

// SGLang's /get_model_info.
HttpResponse ModelInfoResponse(const ServedModel& model);

// Ollama's /api/show: {"model"} -> the context and what the model can do. Errors: no such model;
// Ollama's ":latest" after a name is ignored.
ApiResult<HttpResponse> ShowResponse(const ServedModel& model, const ApiBody& body);

// For holders of an admin key: how the server runs, with the fields that benchmarks of SGLang read.
HttpResponse ServerInfoResponse(const ServedModel& model, std::string_view version);

// For holders of an admin key: clears the prefix cache (Engine::ClearPrefixCache).
HttpResponse ClearPrefixCacheResponse(const ServedModel& model);

}  // namespace fathom
