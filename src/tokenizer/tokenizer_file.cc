#include "tokenizer/tokenizer_file.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom::tokenizer {
namespace {

constexpr std::size_t kShownBytes = 80;  // bytes of a value that a message quotes

// Returns a short text for the found value.
std::string Shown(const JsonValue* value) {
  if (value == nullptr) return "nothing";
  if (value->IsArray() || value->IsObject()) {
    return fmt::format("{} of {} entries", value->IsArray() ? "array" : "object",
                       value->items().size());
  }
  const std::string text = WriteJson(*value);
  return text.size() > kShownBytes ? text.substr(0, kShownBytes) + "..." : text;
}

bool IsNullOrAbsent(const JsonValue* value) { return value == nullptr || value->IsNull(); }
bool IsBool(const JsonValue& value) { return value.kind() == JsonValue::Kind::kBool; }
bool IsFalse(const JsonValue& value) { return IsBool(value) && !value.boolean(); }
bool IsFalseOrAbsent(const JsonValue* value) { return IsNullOrAbsent(value) || IsFalse(*value); }

std::optional<Token> ToToken(const JsonValue& value) {
  const std::optional<std::int64_t> id = value.AsInteger();
  const bool is_token = value.kind() == JsonValue::Kind::kInteger && id && *id >= 0 &&
                        *id < std::int64_t{kTokenLimit};
  return is_token ? std::optional(static_cast<Token>(*id)) : std::nullopt;
}

class Reader {
 public:
  explicit Reader(std::string_view file_name) : file_name_(file_name) {}

  Result<TokenizerFile> Read(std::string_view text) {
    Result<JsonValue> root = ParseJson(text, {.python_constants = false});
    if (!root) {
      return MakeError(ErrorCode::kInvalidData, "{}: expected JSON, found something else ({})",
                       file_name_, root.error().message);
    }
    if (!root->IsObject()) return Wrong("the file", "a JSON object", &*root);
    for (const auto step :
         {&Reader::ReadAddedTokens, &Reader::ReadNormalizer, &Reader::ReadPreTokenizer,
          &Reader::ReadSilentStages, &Reader::ReadModel}) {
      Status status = (this->*step)(*root);
      if (!status) return Unexpected(status.error());
    }
    return std::move(file_);
  }

 private:
  tl::unexpected<Error> Wrong(std::string_view field, std::string_view expected,
                              const JsonValue* found) const {
    return MakeError(ErrorCode::kInvalidData, "{}: {}: expected {}, found {}", file_name_, field,
                     expected, Shown(found));
  }

  tl::unexpected<Error> Unsupported(std::string_view field, std::string_view supported,
                                    const JsonValue* found) const {
    return MakeError(ErrorCode::kUnsupported, "{}: {}: only {} is supported, found {}", file_name_,
                     field, supported, Shown(found));
  }

  Status ReadAddedTokens(const JsonValue& root) {
    const JsonValue* tokens = root.Find("added_tokens");
    if (IsNullOrAbsent(tokens)) return {};
    if (!tokens->IsArray()) return Wrong("added_tokens", "an array", tokens);
    for (std::size_t i = 0; i < tokens->items().size(); ++i) {
      Status status = ReadAddedToken(tokens->items()[i], fmt::format("added_tokens[{}]", i));
      if (!status) return status;
    }
    return {};
  }

  Status ReadAddedToken(const JsonValue& entry, const std::string& field) {
    if (!entry.IsObject()) return Wrong(field, "an object", &entry);
    const JsonValue* id = entry.Find("id");
    const std::optional<Token> token = id == nullptr ? std::nullopt : ToToken(*id);
    if (!token) return Wrong(field + ".id", IdRange(), id);
    const std::string_view text = entry.FindText("content");
    if (text.empty()) return Wrong(field + ".content", "a non-empty string", entry.Find("content"));
    for (const char* key : {"single_word", "lstrip", "rstrip"}) {
      const JsonValue* flag = entry.Find(key);
      if (!IsFalseOrAbsent(flag)) {
        return Unsupported(fmt::format("{}.{}", field, key), "false", flag);
      }
    }
    const JsonValue* special = entry.Find("special");
    if (special != nullptr && !IsBool(*special)) {
      return Wrong(field + ".special", "true or false", special);
    }
    file_.added_tokens.push_back(
        {std::string(text), *token, special != nullptr && special->boolean()});
    return {};
  }

  Status ReadNormalizer(const JsonValue& root) {
    const JsonValue* normalizer = root.Find("normalizer");
    if (IsNullOrAbsent(normalizer)) return {};
    if (normalizer->FindText("type") == "Sequence") {
      const JsonValue* steps = normalizer->Find("normalizers");
      if (steps != nullptr && steps->IsArray() && steps->items().empty()) return {};
    }
    return Unsupported("normalizer", "null or an empty Sequence", normalizer);
  }

  Status ReadPreTokenizer(const JsonValue& root) {
    const JsonValue* stage = root.Find("pre_tokenizer");
    if (stage == nullptr || !stage->IsObject()) return Wrong("pre_tokenizer", "an object", stage);
    if (stage->FindText("type") == "ByteLevel") return ReadByteLevel(*stage, "pre_tokenizer");
    if (stage->FindText("type") != "Sequence") {
      return Unsupported("pre_tokenizer.type", "Sequence or ByteLevel", stage->Find("type"));
    }
    const JsonValue* steps = stage->Find("pretokenizers");
    if (steps == nullptr || !steps->IsArray() || steps->items().empty()) {
      return Wrong("pre_tokenizer.pretokenizers", "a non-empty array", steps);
    }
    for (std::size_t i = 0; i < steps->items().size(); ++i) {
      const std::string field = fmt::format("pre_tokenizer.pretokenizers[{}]", i);
      const bool is_last = i + 1 == steps->items().size();
      Status status =
          is_last ? ReadByteLevel(steps->items()[i], field) : ReadSplit(steps->items()[i], field);
      if (!status) return status;
    }
    return {};
  }

  Status ReadSplit(const JsonValue& step, const std::string& field) {
    if (step.FindText("type") != "Split") {
      return Unsupported(field, "a list of Split with one ByteLevel at its end", &step);
    }
    if (step.FindText("behavior") != "Isolated") {
      return Unsupported(field + ".behavior", "\"Isolated\"", step.Find("behavior"));
    }
    const JsonValue* invert = step.Find("invert");
    if (!IsFalseOrAbsent(invert)) return Unsupported(field + ".invert", "false", invert);
    const JsonValue* pattern = step.Find("pattern");
    const std::string_view regex =
        pattern == nullptr ? std::string_view() : pattern->FindText("Regex");
    if (regex.empty()) {
      return Unsupported(field + ".pattern", "{\"Regex\": a non-empty string}", pattern);
    }
    file_.patterns.emplace_back(regex);
    return {};
  }

  // Both flags are required: their absence means true.
  Status ReadByteLevel(const JsonValue& step, const std::string& field) {
    if (step.FindText("type") != "ByteLevel") {
      return Unsupported(field, "ByteLevel as the last step", &step);
    }
    for (const char* key : {"add_prefix_space", "use_regex"}) {
      const JsonValue* flag = step.Find(key);
      if (flag == nullptr || !IsFalse(*flag)) {
        return Unsupported(fmt::format("{}.{}", field, key), "false", flag);
      }
    }
    return {};
  }

  // The stages after the model must not change tokens or text.
  Status ReadSilentStages(const JsonValue& root) {
    for (const char* key : {"post_processor", "decoder"}) {
      const JsonValue* stage = root.Find(key);
      if (!IsNullOrAbsent(stage) && stage->FindText("type") != "ByteLevel") {
        return Unsupported(key, "null or ByteLevel",
                           stage->IsObject() ? stage->Find("type") : stage);
      }
    }
    return {};
  }

  Status ReadModel(const JsonValue& root) {
    const JsonValue* model = root.Find("model");
    if (model == nullptr || !model->IsObject()) return Wrong("model", "an object", model);
    if (model->FindText("type") != "BPE") {
      return Unsupported("model.type", "\"BPE\"", model->Find("type"));
    }
    for (const char* key :
         {"byte_fallback", "dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
      const JsonValue* value = model->Find(key);
      if (!IsNullOrAbsent(value) && value->Truthy()) {
        return Unsupported(fmt::format("model.{}", key), "none", value);
      }
    }
    const JsonValue* ignore_merges = model->Find("ignore_merges");
    if (!IsNullOrAbsent(ignore_merges) && !IsBool(*ignore_merges)) {
      return Wrong("model.ignore_merges", "true or false", ignore_merges);
    }
    file_.ignore_merges = !IsFalseOrAbsent(ignore_merges);
    Status status = ReadVocabulary(model->Find("vocab"));
    if (!status) return status;
    return ReadMerges(model->Find("merges"));
  }

  Status ReadVocabulary(const JsonValue* vocabulary) {
    if (vocabulary == nullptr || !vocabulary->IsObject() || vocabulary->items().empty()) {
      return Wrong("model.vocab", "a non-empty object", vocabulary);
    }
    file_.vocabulary.reserve(vocabulary->items().size());
    for (std::size_t i = 0; i < vocabulary->items().size(); ++i) {
      const std::string_view text = vocabulary->key(i);
      const std::optional<Token> token = ToToken(vocabulary->items()[i]);
      if (text.empty() || !token) {
        const JsonValue key(text);
        return Wrong(fmt::format("model.vocab[{}]", Shown(&key)),
                     "a non-empty string with " + IdRange(), &vocabulary->items()[i]);
      }
      file_.vocabulary.push_back({std::string(text), *token});
    }
    return {};
  }

  Status ReadMerges(const JsonValue* merges) {
    if (merges == nullptr || !merges->IsArray()) return Wrong("model.merges", "an array", merges);
    file_.merges.reserve(merges->items().size());
    for (std::size_t i = 0; i < merges->items().size(); ++i) {
      const JsonValue& entry = merges->items()[i];
      std::optional<MergeEntry> merge = ReadMerge(entry);
      if (!merge) {
        return Wrong(fmt::format("model.merges[{}]", i), R"("left right" or ["left", "right"])",
                     &entry);
      }
      file_.merges.push_back(std::move(*merge));
    }
    return {};
  }

  static std::optional<MergeEntry> ReadMerge(const JsonValue& entry) {
    MergeEntry merge = {};
    if (entry.IsString()) {
      merge.symbols = entry.text();
      merge.left_bytes = entry.text().find(' ');
      if (merge.left_bytes == std::string::npos || entry.text().rfind(' ') != merge.left_bytes) {
        return std::nullopt;
      }
      merge.symbols.erase(merge.left_bytes, 1);
    } else if (entry.IsArray() && entry.items().size() == 2 && entry.items()[0].IsString() &&
               entry.items()[1].IsString()) {
      merge.left_bytes = entry.items()[0].text().size();
      merge.symbols.append(entry.items()[0].text()).append(entry.items()[1].text());
    }
    if (merge.left_bytes == 0 || merge.left_bytes >= merge.symbols.size()) return std::nullopt;
    return merge;
  }

  static std::string IdRange() { return fmt::format("an id from 0 to {}", kTokenLimit - 1); }

  std::string_view file_name_;
  TokenizerFile file_;
};

}  // namespace

Result<TokenizerFile> ParseTokenizerFile(std::string_view json, std::string_view file_name) {
  return Reader(file_name).Read(json);
}

}  // namespace fathom::tokenizer
