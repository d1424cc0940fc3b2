// The files of the chat page, and what protects them.
#include "server/embedded_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fathom::server {
namespace {

std::string FindField(const HttpResponse& response, std::string_view name) {
  return std::string(HttpRequest{.fields = response.fields}.Field(name));
}

HttpResponse Get(const std::string& path, HttpFields fields = {}) {
  return WebFileResponse({.method = "GET", .path = path, .fields = std::move(fields)})
      .value_or(HttpResponse{.status = 404});
}

TEST(WebFilesTest, ThePageAndItsFiles) {
  const HttpResponse page = Get("/");
  EXPECT_EQ(page.status, 200);
  const std::string policy = FindField(page, "Content-Security-Policy");
  constexpr std::string_view kNotInPages = "; frame-ancestors 'none'";
  ASSERT_THAT(policy, ::testing::EndsWith(std::string(kNotInPages)));
  EXPECT_THAT(page.body,
              ::testing::HasSubstr("http-equiv=\"Content-Security-Policy\" content=\"" +
                                   policy.substr(0, policy.size() - kNotInPages.size()) + "\""));
  for (const auto& [path, type] :
       {std::pair("/web/page.css", "text/css"), {"/web/main.js", "text/javascript"}}) {
    EXPECT_THAT(page.body, ::testing::HasSubstr("\"" + std::string(path + 1) + "\""));
    const HttpResponse file = Get(path);
    EXPECT_EQ(file.status, 200);
    EXPECT_THAT(file.content_type, ::testing::StartsWith(type));
    EXPECT_EQ(FindField(file, "Cache-Control"), "no-cache");
    const HttpResponse again = Get(path, {{"If-None-Match", FindField(file, "ETag")}});
    EXPECT_EQ(again.status, 304);
    EXPECT_EQ(again.body, "");
  }
  EXPECT_EQ(Get("/web/../service.cc").status, 404);
  EXPECT_EQ(Get("/web/").status, 404);
}

TEST(WebFilesTest, EachModuleThatIsImportedIsServed) {
  std::vector<std::string> names = {"main.js"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const HttpResponse file = Get("/web/" + names[i]);
    ASSERT_EQ(file.status, 200) << names[i];
    const std::regex imports(R"(from '\./([a-z_]+\.js)')");
    const std::string& text = file.body;
    for (std::sregex_iterator it(text.begin(), text.end(), imports), end; it != end; ++it) {
      const std::string name = (*it)[1];
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  EXPECT_GT(names.size(), 8U);
}

}  // namespace
}  // namespace fathom::server
