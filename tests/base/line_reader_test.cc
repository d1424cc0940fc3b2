#include "base/line_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace fathom {
namespace {

TEST(LineReaderTest, EndsLinesWithLineFeeds) {
  const std::pair<const char*, std::vector<std::string>> cases[] = {{"", {}},
                                                                    {"\n", {""}},
                                                                    {"a", {"a"}},
                                                                    {"a\n", {"a"}},
                                                                    {"a\nb", {"a", "b"}},
                                                                    {"\n\n", {"", ""}},
                                                                    {"a\r\n", {"a\r"}},
                                                                    {"a\n\nb\n", {"a", "", "b"}}};
  for (const auto& [text, expected] : cases) {
    std::vector<std::string> lines;
    LineReader reader(text);
    for (std::string_view line; reader.Next(&line);) lines.emplace_back(line);
    EXPECT_EQ(lines, expected) << text;
  }
}

}  // namespace
}  // namespace fathom
