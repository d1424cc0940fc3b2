#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>

#include "base/edit_distance.h"
#include "base/utf8.h"
#include "server/endpoints.h"

namespace fathom::server {
namespace {

// An endpoint of other servers, by the segment that names it.
struct Absence {
  std::string_view segment;
  std::string_view sentence;
};

constexpr std::string_view kNoEmbeddings =
    "this server has no embeddings: the model generates text; a server with an embedding model "
    "has them";
constexpr std::string_view kNoScores =
    "this server ranks and classifies nothing: the model generates text; echo with logprobs of "
    "/v1/completions scores a text";
constexpr std::string_view kNoFiles =
    "this server keeps no files and runs no batches: fathom batch answers a file of requests";
constexpr std::string_view kOnlyText = "the model reads and writes text alone";
constexpr std::string_view kNoAssistants =
    "this server has no assistants: /v1/responses and /v1/chat/completions are for agents";

constexpr Absence kAbsences[] = {
    {"embeddings", kNoEmbeddings},
    {"embedding", kNoEmbeddings},
    {"embed", kNoEmbeddings},
    {"rerank", kNoScores},
    {"reranking", kNoScores},
    {"score", kNoScores},
    {"pooling", kNoScores},
    {"classify", kNoScores},
    {"files", kNoFiles},
    {"uploads", kNoFiles},
    {"batches", kNoFiles},
    {"audio", kOnlyText},
    {"images", kOnlyText},
    {"moderations", kNoScores},
    {"assistants", kNoAssistants},
    {"threads", kNoAssistants},
    {"generate", "there is nothing at /generate: /v1/completions continues a text"},
    {"infill", "there is nothing at /infill: /v1/completions fills a gap before its suffix"},
};

// Returns the first segment that is neither a version nor the name of an API.
std::string_view NamingSegment(std::string_view path) {
  while (!path.empty()) {
    path.remove_prefix(1);  // the slash
    const std::string_view segment = path.substr(0, path.find('/'));
    const bool is_version = segment == "api" || segment == "v1" || segment == "v2";
    if (!is_version) return segment;
    path.remove_prefix(segment.size());
  }
  return {};
}

// Returns the size of a client's typing error if it meant `path`: 0 if the two paths differ only by
// segments at the begin or end.
std::size_t Error(std::string_view typed, std::string_view path) {
  const bool has_more = typed.ends_with(path) ||
                        (path.starts_with(typed) && path.substr(typed.size()).starts_with('/'));
  return has_more ? 0 : EditDistance(typed, path);
}

// Returns the path that was probably meant; empty: none is similar.
std::string_view Nearest(std::string_view typed, std::span<const std::string_view> paths) {
  constexpr std::size_t kMostBytes = 100;
  constexpr std::size_t kShortest = 4;  // "/v1" is not a typing error for "/web"
  if (typed.size() < kShortest || typed.size() > kMostBytes) return {};
  std::string_view nearest;
  std::size_t least = std::max<std::size_t>(typed.size() / 5, 1) + 1;
  for (const std::string_view path : paths) {
    if (path.size() < kShortest) continue;
    const std::size_t error = Error(typed, path);
    if (error < least || (error == 0 && path.size() > nearest.size())) {
      least = error;
      nearest = path;
    }
  }
  return nearest;
}

std::string Explain(std::string_view path, std::span<const std::string_view> paths) {
  constexpr std::string_view kVersion = "/v1";
  std::string_view once = path;
  while (once.starts_with("/v1/v1/")) once.remove_prefix(kVersion.size());
  if (once.size() < path.size() && std::ranges::find(paths, once) != paths.end()) {
    return fmt::format("the base URL has /v1 twice: leave one out, so that the path is {}", once);
  }
  const auto* absence = std::ranges::find(kAbsences, NamingSegment(path), &Absence::segment);
  if (absence != std::end(kAbsences)) return std::string(absence->sentence);
  const std::string_view nearest = Nearest(path, paths);
  return fmt::format("there is nothing at {}{}; /openapi.json tells what there is",
                     ShortenedUtf8(path, kQuotedBytes),
                     nearest.empty() ? "" : fmt::format(", did you mean {}?", nearest));
}

}  // namespace

ApiError NoSuchPath(std::string_view path, std::span<const std::string_view> paths) {
  return MakeApiError(404, "not_found", Explain(path, paths));
}

}  // namespace fathom::server
