#include "server/access.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/ascii.h"

namespace fathom::server {
namespace {

// Compares every byte of both, so that the time depends only on the longer length.
bool SameInConstantTime(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const auto x = static_cast<unsigned char>(i < a.size() ? a[i] : '\0');
    const auto y = static_cast<unsigned char>(i < b.size() ? b[i] : '\0');
    difference |= static_cast<unsigned>(x ^ y);
  }
  return difference == 0;
}

std::string_view WithoutPrefix(std::string_view text, std::string_view prefix) {
  return TakePrefixWithoutCase(text, prefix) ? text : std::string_view();
}

// Returns "name" of "Name.:80", "::1" of "[::1]:80" and "fe80::1" of "[fe80::1%eth0]".
std::string HostName(std::string_view host) {
  if (host.starts_with('[')) {
    host = host.substr(1, host.find(']') - 1);
    return LowerCase(host.substr(0, host.find('%')));
  }
  host = host.substr(0, host.find(':'));
  if (host.ends_with('.')) host.remove_suffix(1);
  return LowerCase(host);
}

// Returns "gpu1.example.org" and "gpu1" on the machine with that name; nothing if it has no name.
std::vector<std::string> OwnNames() {
  std::array<char, 256> name = {};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name.front() == '\0') return {};
  const std::string whole = HostName(name.data());
  return {whole, whole.substr(0, whole.find('.'))};
}

bool IsAddress(const std::string& name) {
  unsigned char buffer[sizeof(in6_addr)];
  return ::inet_pton(AF_INET, name.c_str(), buffer) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), buffer) == 1;
}

bool Contains(const std::vector<std::string>& list, std::string_view entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
}

std::string_view RequestKey(const HttpRequest& request) {
  std::string_view key = WithoutPrefix(request.Field("Authorization"), "Bearer ");
  key.remove_prefix(std::min(key.find_first_not_of(' '), key.size()));  // RFC 9110 11.4: 1*SP
  return key.empty() ? request.Field("x-api-key") : key;
}

std::optional<std::size_t> FindKey(const std::vector<std::string>& keys, std::string_view key) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < keys.size(); ++i) {  // no early exit
    if (SameInConstantTime(key, keys[i])) found = i;
  }
  return found;
}

// The methods and fields in requests of API clients, including fields that the packages of
// Anthropic and OpenAI add.
constexpr std::string_view kCorsMethods = "GET, POST, DELETE, OPTIONS";
constexpr std::string_view kCorsHeaders =
    "authorization, content-type, x-api-key, x-request-id, anthropic-version, anthropic-beta, "
    "anthropic-dangerous-direct-browser-access, openai-organization, openai-project";

// Pages send fields of their own: the language of the package (x-stainless-*), their name
// (http-referer, x-title). An allowed site may send any request, and CORS demands each field by
// name, so all requested fields are allowed.
std::string AllowedHeaders(std::string_view asked) {
  std::string allowed(kCorsHeaders);
  while (!asked.empty()) {
    const std::size_t end = std::min(asked.find(','), asked.size());
    std::string_view name = asked.substr(0, end);
    asked.remove_prefix(std::min(end + 1, asked.size()));
    name.remove_prefix(std::min(name.find_first_not_of(' '), name.size()));
    const bool is_plain =
        name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string_view::npos;
    if (!name.empty() && is_plain) allowed.append(", ").append(name);
  }
  return allowed;
}

}  // namespace

Access::Access(AccessOptions options) : options_(std::move(options)), own_names_(OwnNames()) {
  for (auto* const list : {&options_.allowed_hosts, &options_.cors_origins}) {
    for (std::string& entry : *list) entry = LowerCase(entry);
  }
}

KeyHolder Access::FindHolder(const HttpRequest& request) const {
  const std::string_view key = RequestKey(request);
  return {.api_key = FindKey(options_.api_keys, key),
          .is_admin = FindKey(options_.admin_keys, key).has_value()};
}

bool Access::KnowsHost(const HttpRequest& request) const {
  if (!options_.api_keys.empty() || Contains(options_.allowed_hosts, "*")) return true;
  const std::string name = HostName(request.Field("Host"));
  return name.empty() || name == "localhost" || name.ends_with(".localhost") ||
         name.ends_with(".local") || name.ends_with(".internal") || IsAddress(name) ||
         Contains(own_names_, name) || Contains(options_.allowed_hosts, name);
}

bool Access::IsAllowedOrigin(std::string_view origin) const {
  return Contains(options_.cors_origins, "*") || Contains(options_.cors_origins, LowerCase(origin));
}

bool Access::IsOriginAllowed(const HttpRequest& request) const {
  const std::string_view origin = request.Field("Origin");
  if (origin.empty() || IsAllowedOrigin(origin)) return true;
  const std::string_view host = request.Field("Host");
  return !host.empty() && (EqualsWithoutCase(WithoutPrefix(origin, "http://"), host) ||
                           EqualsWithoutCase(WithoutPrefix(origin, "https://"), host));
}

void Access::AddCorsFields(const HttpRequest& request, HttpFields* fields) const {
  const std::string_view origin = request.Field("Origin");
  if (origin.empty() || !IsAllowedOrigin(origin)) return;
  fields->emplace_back("Access-Control-Allow-Origin", origin);
  fields->emplace_back(
      "Access-Control-Expose-Headers",
      "x-request-id, request-id, x-exact-replay, x-constraint-relaxed, retry-after");
  fields->emplace_back("Vary", "Origin");
}

void Access::AddPreflightFields(const HttpRequest& request, HttpFields* fields) const {
  const std::string_view origin = request.Field("Origin");
  if (origin.empty() || !IsAllowedOrigin(origin)) return;
  fields->emplace_back("Access-Control-Allow-Methods", kCorsMethods);
  fields->emplace_back("Access-Control-Allow-Headers",
                       AllowedHeaders(request.Field("Access-Control-Request-Headers")));
  fields->emplace_back("Access-Control-Max-Age", "600");
}

}  // namespace fathom::server
