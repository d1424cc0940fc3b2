// Access: decides which clients, pages and host names may use the server.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/http.h"

namespace fathom::server {

struct AccessOptions {
  std::vector<std::string> api_keys;      // any of them is accepted; none: no key is needed
  std::vector<std::string> admin_keys{};  // administrators' keys; none: no administration
  std::vector<std::string> cors_origins;  // other sites whose pages may send requests; "*": all
  // Names of this server in addition to the names that Access::KnowsHost always accepts; "*": all.
  // Ignored if there are keys.
  std::vector<std::string> allowed_hosts;
};

// The holder of a request's key, which is sent as Authorization: Bearer KEY or x-api-key: KEY.
struct KeyHolder {
  std::optional<std::size_t> api_key;  // the number of the key among AccessOptions::api_keys
  bool is_admin = false;               // the key is an admin key; API keys are not admin keys
};

// Constant after construction; any thread. Host names and origins are compared without case.
class Access {
 public:
  explicit Access(AccessOptions options);

  // Takes equally long for a wrong key and a right one.
  KeyHolder FindHolder(const HttpRequest& request) const;
  // Returns whether there are API keys, so that clients need one.
  bool has_keys() const { return !options_.api_keys.empty(); }
  // Returns whether there are admin keys.
  bool has_admins() const { return !options_.admin_keys.empty(); }
  // Returns whether Host is a name of this server. Without this check, the owner of a domain could
  // point its name to 127.0.0.1 (DNS rebinding), and its pages would count as pages of this server.
  // Accepted are addresses, which cannot be pointed elsewhere; "localhost", .local and .internal,
  // which are not domains that one can own; and this machine's own name, which its administrator
  // chose.
  bool KnowsHost(const HttpRequest& request) const;
  // Returns whether the page that sends the request belongs to this server or to an allowed origin.
  // Browsers always name the origin; other clients never do.
  bool IsOriginAllowed(const HttpRequest& request) const;

  // Adds the fields with which a browser passes the response to a page of another site; none if its
  // origin is not allowed.
  void AddCorsFields(const HttpRequest& request, HttpFields* fields) const;
  // Adds the fields that answer the browser's preflight request (OPTIONS).
  void AddPreflightFields(const HttpRequest& request, HttpFields* fields) const;

 private:
  bool IsAllowedOrigin(std::string_view origin) const;

  AccessOptions options_;
  std::vector<std::string> own_names_;  // names of this machine
};

}  // namespace fathom::server
