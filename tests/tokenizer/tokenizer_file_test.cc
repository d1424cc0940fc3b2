// Everything that can be wrong with a tokenizer.json gives one clear error.
#include "tokenizer/tokenizer_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tokenizer/golden.h"
#include "tokenizer/tokenizer.h"

namespace fathom::tokenizer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;
using Pointer = Json::json_pointer;

Json SmallTokenizer() { return Json::parse(testing::SmallTokenizerJson()); }

void ExpectError(const std::string& json, ErrorCode code, const std::string& part) {
  const Result<Tokenizer> tokenizer = Tokenizer::Parse(json, "dir/tokenizer.json");
  ASSERT_FALSE(tokenizer) << "expected: " << part;
  EXPECT_EQ(tokenizer.error().code, code) << tokenizer.error().message;
  EXPECT_THAT(tokenizer.error().message,
              AllOf(StartsWith("dir/tokenizer.json: "), HasSubstr(part)));
  EXPECT_LT(tokenizer.error().message.size(), 600u);
}

// The small tokenizer with the value at `pointer` replaced.
void ExpectInvalid(const char* pointer, const Json& value, const std::string& part) {
  Json json = SmallTokenizer();
  json[Pointer(pointer)] = value;
  ExpectError(json.dump(), ErrorCode::kInvalidData, part);
}

void ExpectUnsupported(const char* pointer, const Json& value, const std::string& part) {
  Json json = SmallTokenizer();
  json[Pointer(pointer)] = value;
  ExpectError(json.dump(), ErrorCode::kUnsupported, part);
}

void ExpectInvalidWithout(const char* object, const char* key, ErrorCode code,
                          const std::string& part) {
  Json json = SmallTokenizer();
  json[Pointer(object)].erase(key);
  ExpectError(json.dump(), code, part);
}

TEST(TokenizerFile, TheSmallOneIsRight) {
  const Result<Tokenizer> tokenizer =
      Tokenizer::Parse(testing::SmallTokenizerJson(), "tokenizer.json");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->Encode("abcab  <end>", SpecialTokens::kParse),
            (std::vector<Token>{257, 256, 258, 300}));
  EXPECT_TRUE(tokenizer->IsSpecial(300));
}

TEST(TokenizerFile, MergesMayBePairs) {
  Json json = SmallTokenizer();
  json["model"]["merges"] = Json::array({Json::array({"a", "b"}), Json::array({"ab", "c"})});
  const Result<Tokenizer> tokenizer = Tokenizer::Parse(json.dump(), "tokenizer.json");
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(tokenizer->Encode("abc", SpecialTokens::kParse), (std::vector<Token>{257}));
}

TEST(TokenizerFile, NoPatternsNoAddedTokensNoMerges) {
  Json json = SmallTokenizer();
  json["pre_tokenizer"] = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  json.erase("added_tokens");
  json.erase("normalizer");
  json["model"]["merges"] = Json::array();
  const Result<Tokenizer> tokenizer = Tokenizer::Parse(json.dump(), "tokenizer.json");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->Encode("ab c", SpecialTokens::kParse),
            (std::vector<Token>{'a', 'b', ' ', 'c'}));
}

TEST(TokenizerFile, NotJson) {
  ExpectError("", ErrorCode::kInvalidData, "expected JSON");
  ExpectError("{", ErrorCode::kInvalidData, "expected JSON");
  ExpectError("{} x", ErrorCode::kInvalidData, "expected JSON");
  ExpectError("{\"a\": \"\xFF\"}", ErrorCode::kInvalidData, "expected JSON");
  ExpectError(std::string(1'000'000, '['), ErrorCode::kInvalidData, "expected JSON");
  ExpectError(testing::SmallTokenizerJson().substr(0, 1000), ErrorCode::kInvalidData,
              "expected JSON");
  ExpectError("[]", ErrorCode::kInvalidData, "expected a JSON object, found array of 0 entries");
  ExpectError("17", ErrorCode::kInvalidData, "expected a JSON object, found 17");
}

TEST(TokenizerFile, Model) {
  const auto invalid = ErrorCode::kInvalidData;
  ExpectInvalidWithout("", "model", invalid, "model: expected an object, found nothing");
  ExpectInvalid("/model", 5, "model: expected an object, found 5");
  ExpectInvalidWithout("/model", "type", ErrorCode::kUnsupported, "model.type: only \"BPE\"");
  ExpectUnsupported("/model/type", "Unigram", "found \"Unigram\"");
  ExpectUnsupported("/model/type", Json::array(), "model.type");
  ExpectUnsupported("/model/byte_fallback", true, "model.byte_fallback");
  ExpectUnsupported("/model/dropout", 0.1, "model.dropout: only none is supported, found 0.1");
  ExpectUnsupported("/model/continuing_subword_prefix", "##", "continuing_subword_prefix");
  ExpectUnsupported("/model/end_of_word_suffix", "</w>", "end_of_word_suffix");
  ExpectInvalid("/model/ignore_merges", "yes", "model.ignore_merges: expected true or false");
}

TEST(TokenizerFile, VocabularyEntries) {
  const auto invalid = ErrorCode::kInvalidData;
  ExpectInvalidWithout("/model", "vocab", invalid, "model.vocab: expected a non-empty object");
  ExpectInvalid("/model/vocab", Json::array(), "model.vocab");
  ExpectInvalid("/model/vocab", Json::object(), "model.vocab");
  ExpectInvalid("/model/vocab/ab", -1,
                "model.vocab[\"ab\"]: expected a non-empty string with an id "
                "from 0 to 16777215, found -1");
  ExpectInvalid("/model/vocab/ab", 1 << 24, "found 16777216");
  ExpectInvalid("/model/vocab/ab", 1ull << 63, "found 9223372036854775808");
  ExpectInvalid("/model/vocab/ab", 1.5, "found 1.5");
  ExpectInvalid("/model/vocab/ab", "1", "found \"1\"");
  ExpectInvalid("/model/vocab/ab", nullptr, "found null");
  ExpectInvalid("/model/vocab/", 260, "model.vocab[\"\"]");
  ExpectInvalid(
      "/model/vocab/abc", 16'777'215,
      "token ids: expected at most 262144 unused ones below the highest, 16777215, found");
  ExpectInvalid("/model/vocab/abc", 256, "its id 256 is already taken");
  ExpectInvalid("/model/vocab/a b", 260, "'a b': expected byte-level symbols or an added token");
  ExpectInvalid("/model/vocab/\u20AC", 260, "expected byte-level symbols");
  ExpectInvalidWithout("/model/vocab", "a", invalid, "found none for byte 97 ('a')");
  ExpectInvalid(("/model/vocab/" + std::string(5000, ' ')).c_str(), -1, "...");
}

TEST(TokenizerFile, Merges) {
  const auto invalid = ErrorCode::kInvalidData;
  ExpectInvalidWithout("/model", "merges", invalid,
                       "model.merges: expected an array, found nothing");
  ExpectInvalid("/model/merges", Json::object(), "model.merges");
  for (const Json& entry :
       {Json("ab"), Json("a b c"), Json(" b"), Json("a "), Json(" "), Json(""), Json(5),
        Json::array({"a"}), Json::array({"a", "b", "c"}), Json::array({"a", 1}),
        Json::array({"", "a"}), Json::array({"a", ""}), Json::object()}) {
    ExpectInvalid("/model/merges/1", entry, "model.merges[1]: expected \"left right\"");
  }
  ExpectInvalid("/model/merges/1", "zz c",
                "merge 1 ('zz' with 'c'): 'zz' is not in the vocabulary");
  ExpectInvalid("/model/merges/1", "c zz", "'zz' is not in the vocabulary");
  ExpectInvalid("/model/merges/1", "a c", "'ac' is not in the vocabulary");
  ExpectInvalid("/model/merges/1", "a b", "merge 1 ('a' with 'b') is listed twice");
}

TEST(TokenizerFile, AddedTokens) {
  ExpectInvalid("/added_tokens", 5, "added_tokens: expected an array, found 5");
  ExpectInvalid("/added_tokens/0", "x", "added_tokens[0]: expected an object");
  ExpectInvalid("/added_tokens/0/id", -5, "added_tokens[0].id: expected an id from 0 to 16777215");
  ExpectInvalid("/added_tokens/0/id", 1e30, "added_tokens[0].id");
  ExpectInvalid("/added_tokens/0/id", nullptr, "found null");
  ExpectInvalid("/added_tokens/0/content", "", "added_tokens[0].content: expected a non-empty");
  ExpectInvalid("/added_tokens/0/content", 5, "added_tokens[0].content");
  ExpectInvalid("/added_tokens/0/special", "no", "added_tokens[0].special: expected true or false");
  for (const char* flag : {"lstrip", "rstrip", "single_word"}) {
    ExpectUnsupported((std::string("/added_tokens/0/") + flag).c_str(), true, flag);
  }
  ExpectInvalid("/added_tokens/1", {{"id", 300}, {"content", "<x>"}},
                "its id 300 is already taken");
  ExpectInvalid("/added_tokens/1", {{"id", 301}, {"content", "<end>"}}, "'<end>' is listed twice");
  ExpectInvalid("/added_tokens/0/id", 97, "token id 97: expected one token, found 'a' and '<end>'");
  ExpectInvalid("/model/vocab/<end>", 299, "expected its id in the vocabulary, 299, found 300");
}

TEST(TokenizerFile, AnAddedTokenMayBeInTheVocabularyToo) {
  Json json = SmallTokenizer();
  json["model"]["vocab"]["<end>"] = 300;
  json["model"]["vocab"]["<\uFF5Cx\uFF5C>"] = 301;
  json["added_tokens"].push_back({{"id", 301}, {"content", "<\uFF5Cx\uFF5C>"}});
  const Result<Tokenizer> tokenizer = Tokenizer::Parse(json.dump(), "tokenizer.json");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->Encode("<end><\uFF5Cx\uFF5C>", SpecialTokens::kParse),
            (std::vector<Token>{300, 301}));
  EXPECT_EQ(tokenizer->Encode("<end>", SpecialTokens::kPlainText)->size(), 5u)
      << "no merge makes it";
  EXPECT_EQ(tokenizer->vocab_size(), 302);
}

TEST(TokenizerFile, OtherStages) {
  ExpectUnsupported("/normalizer", {{"type", "NFC"}}, "normalizer: only null or an empty Sequence");
  ExpectUnsupported("/normalizer", {{"type", "Sequence"}, {"normalizers", {1}}}, "normalizer");
  ExpectUnsupported("/normalizer", {{"type", "Sequence"}}, "normalizer");
  ExpectUnsupported("/normalizer", "NFC", "found \"NFC\"");
  ExpectUnsupported("/decoder", {{"type", "WordPiece"}}, "decoder: only null or ByteLevel");
  ExpectUnsupported("/decoder", 5, "decoder");
  ExpectUnsupported("/post_processor", {{"type", "TemplateProcessing"}}, "post_processor");
}

TEST(TokenizerFile, PreTokenizer) {
  const auto unsupported = ErrorCode::kUnsupported;
  const char* split = "/pre_tokenizer/pretokenizers/0";
  ExpectInvalidWithout("", "pre_tokenizer", ErrorCode::kInvalidData, "pre_tokenizer: expected");
  ExpectInvalid("/pre_tokenizer", nullptr, "pre_tokenizer: expected an object, found null");
  ExpectUnsupported("/pre_tokenizer/type", "Whitespace",
                    "pre_tokenizer.type: only Sequence or ByteLevel is supported");
  ExpectInvalid("/pre_tokenizer/pretokenizers", Json::array(), "expected a non-empty array");
  ExpectInvalid("/pre_tokenizer/pretokenizers", 5, "expected a non-empty array");
  ExpectUnsupported("/pre_tokenizer/pretokenizers/0/type", "Digits",
                    "pretokenizers[0]: only a list of Split with one ByteLevel at its end");
  ExpectUnsupported("/pre_tokenizer/pretokenizers/0", "Split", "pretokenizers[0]");
  ExpectUnsupported("/pre_tokenizer/pretokenizers/0/behavior", "Removed", "behavior");
  ExpectUnsupported("/pre_tokenizer/pretokenizers/0/invert", true, "invert");
  ExpectUnsupported("/pre_tokenizer/pretokenizers/0/pattern", {{"String", " "}}, "pattern");
  ExpectUnsupported("/pre_tokenizer/pretokenizers/0/pattern", " ", "pattern");
  ExpectUnsupported("/pre_tokenizer/pretokenizers/0/pattern/Regex", R"(\w+)", R"(pattern '\w+')");
  ExpectUnsupported("/pre_tokenizer/pretokenizers/0/pattern/Regex", "(", "pattern '('");
  ExpectInvalidWithout(split, "behavior", unsupported, "behavior");
  ExpectInvalidWithout(split, "pattern", unsupported, "pattern");
  ExpectUnsupported("/pre_tokenizer/pretokenizers/3/use_regex", true, "use_regex");
  ExpectUnsupported("/pre_tokenizer/pretokenizers/3/add_prefix_space", true, "add_prefix_space");
  ExpectInvalidWithout("/pre_tokenizer/pretokenizers/3", "use_regex", unsupported,
                       "use_regex: only false is supported, found nothing");
  ExpectInvalidWithout("/pre_tokenizer/pretokenizers/3", "add_prefix_space", unsupported,
                       "add_prefix_space");
  Json json = SmallTokenizer();
  json["pre_tokenizer"]["pretokenizers"].erase(3);
  ExpectError(json.dump(), unsupported, "pretokenizers[2]: only ByteLevel as the last step");
}

}  // namespace
}  // namespace fathom::tokenizer
