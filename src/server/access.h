// Access: who may ask, from which page, under which name of the host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "http/http.h"

namespace fathom {

struct AccessOptions {
  std::vector<std::string> api_keys;      // any of them will do; none: nobody is asked for one
  std::vector<std::string> admin_keys{};  // of those who run the server; none: nobody is one
  std::vector<std::string> cors_origins;  // pages of other sites that may ask; "*": all
  // Names under which we may be reached besides "localhost" and addresses; "*": all. A web page
  // whose name its owner lets point to 127.0.0.1 would otherwise be a page of ours. Only looked at
  // if there are no keys.
  std::vector<std::string> allowed_hosts;
};

// Constant after construction; any thread.
class Access {
 public:
  explicit Access(AccessOptions options) : options_(std::move(options)) {}

  // Authorization: Bearer KEY, or x-api-key: KEY. Takes as long for a wrong key as for a right one.
  bool HasKey(const HttpRequest& request) const;
  // The same for the admin keys; api keys are none of them.
  bool HasAdminKey(const HttpRequest& request) const;
  // Whether anybody could have one.
  bool has_admins() const { return !options_.admin_keys.empty(); }
  // Whether Host is a name we go by.
  bool KnowsHost(const HttpRequest& request) const;
  // Whether the page that asks, if it is one, is of this server or of an allowed origin. Browsers
  // always say; other clients never do.
  bool MayAsk(const HttpRequest& request) const;

  // What a browser needs to hand our answer to a page of another site; nothing if it is not
  // allowed.
  void AddCorsFields(const HttpRequest& request, HttpFields* fields) const;
  // The same for the question it asks first (OPTIONS).
  void AddPreflightFields(const HttpRequest& request, HttpFields* fields) const;

 private:
  bool IsAllowedOrigin(std::string_view origin) const;

  const AccessOptions options_;
};

}  // namespace fathom
