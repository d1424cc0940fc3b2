// The names of rows: their meaning, and refused names.
#include "measure/bench/row_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fathom::measure::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using enum RowSpec::Kind;

TEST(RowSpec, NamesAreReadAndWrittenAlike) {
  const std::pair<const char*, RowSpec> rows[] = {
      {"pp512", {kPrefill, 512, 0, 1}},           {"tg128", {kDecode, 128, 0, 1}},
      {"tg128@16384", {kDecode, 128, 16384, 1}},  {"pp2048@4096", {kPrefill, 2048, 4096, 1}},
      {"tg128x8", {kDecode, 128, 0, 8}},          {"tg1@1x256", {kDecode, 1, 1, 256}},
      {"tg128@65536x4", {kDecode, 128, 65536, 4}}};
  for (const auto& [name, row] : rows) {
    const Result<RowSpec> parsed = ParseRow(name);
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_TRUE(*parsed == row) << name;
    EXPECT_EQ(Name(row), name);
  }
  EXPECT_EQ(Name(*ParseRow("tg128x1")), "tg128");
}

TEST(RowSpec, OtherNamesAreRefusedWithWhatIsAllowed) {
  for (const char* name :
       {"",         "pp",        "tg",           "512",      "xx512",    "pp0",
        "pp-1",     "pp+1",      "pp 1",         "pp1 ",     "pp1.5",    "PP512",
        "pp0512",   "tg128@",    "tg128@0",      "tg128@-4", "tg128@x",  "tg128x",
        "tg128x0",  "tg128x257", "tg128x4@4096", "pp512x2",  "tg128@4k", "tg99999999999999999999",
        "tg1@1x1x1"}) {
    const Result<RowSpec> row = ParseRow(name);
    ASSERT_FALSE(row) << name;
    EXPECT_EQ(row.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(row.error().message, HasSubstr(std::string("row \"") + name + "\""));
    EXPECT_THAT(row.error().message, HasSubstr("tgN@DEPTHxB"));
  }
}

TEST(RowSpec, ListsKeepTheirOrder) {
  const Result<std::vector<RowSpec>> rows = ParseRows("tg4,pp8,tg4@2");
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_THAT(*rows, ElementsAre(RowSpec{kDecode, 4, 0, 1}, RowSpec{kPrefill, 8, 0, 1},
                                 RowSpec{kDecode, 4, 2, 1}));
  for (const char* names : {"", ",", "pp1,", ",pp1", "pp1,,tg1", "pp1 tg1"}) {
    EXPECT_FALSE(ParseRows(names)) << names;
  }
  const Result<std::vector<RowSpec>> twice = ParseRows("tg4,pp8,tg4x1");
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().message, HasSubstr("row \"tg4\": expected once, found twice"));
}

TEST(RowSpec, RowsMustFitTheModel) {
  EXPECT_TRUE(CheckRows(*ParseRows("pp100,tg50@50"), 100));
  const Status status = CheckRows(*ParseRows("pp100,tg51@50"), 100);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("row \"tg51@50\""));
  EXPECT_THAT(status.error().message, HasSubstr("at most 100 positions"));
  EXPECT_THAT(status.error().message, HasSubstr("found 101"));
}

TEST(RowSpec, DefaultRowsAreThoseThatFit) {
  EXPECT_EQ(DefaultRows(1'048'576).size(), 9u);
  for (const std::int64_t positions : {1, 127, 128, 600, 4224, 65536}) {
    const std::vector<RowSpec> rows = DefaultRows(positions);
    EXPECT_FALSE(rows.empty());
    EXPECT_TRUE(CheckRows(rows, positions)) << positions;
  }
}

}  // namespace
}  // namespace fathom::measure::bench
