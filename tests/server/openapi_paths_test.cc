// The OpenAPI document has the paths and methods of the server, and no others.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "tests/server/service_fixture.h"

namespace fathom::testing {
namespace {

class OpenApiPathsTest : public ServiceTest {
 protected:
  // By path, with the other paths of an endpoint: the methods as Allow names them.
  std::map<std::string, std::set<std::string>> Documented() {
    std::map<std::string, std::set<std::string>> documented;
    const Json document = ReadJson(Ask("GET", "/openapi.json"));
    for (const auto& [path, item] : document["paths"].items()) {
      std::set<std::string> methods = {"OPTIONS"};
      for (const auto& [key, operation] : item.items()) {
        if (key == "get") methods.merge(std::set<std::string>{"GET", "HEAD"});
        if (key == "post") methods.insert("POST");
        if (key == "delete") methods.insert("DELETE");
      }
      documented[path] = methods;
      for (const Json& other : item.value("x-other-paths", Json::array())) {
        documented[other.get<std::string>()] = methods;
      }
    }
    return documented;
  }

  std::set<std::string> Allowed(std::string path) {
    const std::size_t id = path.find("{id}");
    if (id != std::string::npos) path.replace(id, 4, "x");
    const FakeExchange exchange = Ask("OPTIONS", path);
    std::string list(HttpRequest{.fields = exchange.head.fields}.Field("Allow"));
    std::set<std::string> methods;
    while (!list.empty()) {
      const std::size_t end = std::min(list.find(", "), list.size());
      methods.insert(list.substr(0, end));
      list.erase(0, end + 2);
    }
    return methods;
  }
};

TEST_F(OpenApiPathsTest, EveryDocumentedPathHasItsMethods) {
  for (const auto& [path, methods] : Documented()) EXPECT_EQ(Allowed(path), methods) << path;
}

TEST_F(OpenApiPathsTest, EveryPathIsDocumented) {
  // Files of the page, and refusals that say why there is nothing.
  const std::set<std::string> others = {"/web/", "/v1/responses/compact",
                                        "/v1/responses/{id}/cancel"};
  const auto documented = Documented();
  for (const std::string_view path : service().PublicPaths()) {
    std::string name(path);
    if (others.contains(name)) continue;
    if (name.size() > 1 && name.ends_with('/')) name += "{id}";
    EXPECT_TRUE(documented.contains(name)) << name;
  }
}

}  // namespace
}  // namespace fathom::testing
