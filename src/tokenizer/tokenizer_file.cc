#include "tokenizer/tokenizer_file.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace fathom {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kShownBytes = 80;  // of a value quoted in a message

// A short rendering of what was found; cut, and never throws on strings that cannot be printed.
std::string Shown(const Json* value) {
  if (value == nullptr) {
    return "nothing";
  }
  if (value->is_structured()) {
    return fmt::format("{} of {} entries", value->type_name(), value->size());
  }
  std::string text = value->dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kShownBytes) {
    text = text.substr(0, kShownBytes) + "...";
  }
  return text;
}

// The value under `key`, or nullptr; as const as the object is.
template <class AnyJson>
AnyJson* Member(AnyJson& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

bool IsNullOrAbsent(const Json* value) { return value == nullptr || value->is_null(); }
bool IsFalseOrAbsent(const Json* value) { return IsNullOrAbsent(value) || *value == false; }

// The string under `key`, or "" if it is something else or absent.
std::string_view StringMember(const Json& object, const char* key) {
  const Json* value = object.is_object() ? Member(object, key) : nullptr;
  if (value == nullptr || !value->is_string()) {
    return {};
  }
  return value->get_ref<const std::string&>();
}

std::optional<Token> ToToken(const Json& value) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() < kTokenLimit) {
    return static_cast<Token>(value.get<std::uint64_t>());
  }
  return std::nullopt;
}

class Reader {
 public:
  explicit Reader(std::string_view file_name) : file_name_(file_name) {}

  Result<TokenizerFile> Read(std::string_view text) {
    Json root = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (root.is_discarded()) {
      return MakeError(ErrorCode::kInvalidData, "{}: expected JSON, found something else",
                       file_name_);
    }
    if (!root.is_object()) {
      return Unexpected(Wrong("the file", "a JSON object", &root));
    }
    for (const auto step :
         {&Reader::ReadAddedTokens, &Reader::ReadNormalizer, &Reader::ReadPreTokenizer,
          &Reader::ReadSilentStages, &Reader::ReadModel}) {
      Status status = (this->*step)(root);
      if (!status) return Unexpected(status.error());
    }
    return std::move(file_);
  }

 private:
  Error Wrong(std::string_view field, std::string_view expected, const Json* found,
              ErrorCode code = ErrorCode::kInvalidData) const {
    return {code, fmt::format("{}: {}: expected {}, found {}", file_name_, field, expected,
                              Shown(found))};
  }

  Error Unsupported(std::string_view field, std::string_view supported, const Json* found) const {
    return {ErrorCode::kUnsupported, fmt::format("{}: {}: only {} is supported, found {}",
                                                 file_name_, field, supported, Shown(found))};
  }

  Status ReadAddedTokens(Json& root) {
    const Json* tokens = Member(root, "added_tokens");
    if (IsNullOrAbsent(tokens)) {
      return {};
    }
    if (!tokens->is_array()) {
      return Unexpected(Wrong("added_tokens", "an array", tokens));
    }
    for (std::size_t i = 0; i < tokens->size(); ++i) {
      Status status = ReadAddedToken((*tokens)[i], fmt::format("added_tokens[{}]", i));
      if (!status) return status;
    }
    return {};
  }

  Status ReadAddedToken(const Json& entry, const std::string& field) {
    if (!entry.is_object()) {
      return Unexpected(Wrong(field, "an object", &entry));
    }
    const Json* id = Member(entry, "id");
    const std::optional<Token> token = id == nullptr ? std::nullopt : ToToken(*id);
    if (!token) {
      return Unexpected(Wrong(field + ".id", IdRange(), id));
    }
    const std::string_view text = StringMember(entry, "content");
    if (text.empty()) {
      return Unexpected(Wrong(field + ".content", "a non-empty string", Member(entry, "content")));
    }
    for (const char* key : {"single_word", "lstrip", "rstrip"}) {
      const Json* flag = Member(entry, key);
      if (!IsFalseOrAbsent(flag)) {
        return Unexpected(Unsupported(fmt::format("{}.{}", field, key), "false", flag));
      }
    }
    const Json* special = Member(entry, "special");
    if (special != nullptr && !special->is_boolean()) {
      return Unexpected(Wrong(field + ".special", "true or false", special));
    }
    file_.added_tokens.push_back(
        {std::string(text), *token, special != nullptr && special->get<bool>()});
    return {};
  }

  Status ReadNormalizer(Json& root) {
    const Json* normalizer = Member(root, "normalizer");
    if (IsNullOrAbsent(normalizer)) {
      return {};
    }
    if (StringMember(*normalizer, "type") == "Sequence") {
      const Json* steps = Member(*normalizer, "normalizers");
      if (steps != nullptr && steps->is_array() && steps->empty()) {
        return {};
      }
    }
    return Unexpected(Unsupported("normalizer", "null or an empty Sequence", normalizer));
  }

  Status ReadPreTokenizer(Json& root) {
    const Json* stage = Member(root, "pre_tokenizer");
    if (stage == nullptr || !stage->is_object()) {
      return Unexpected(Wrong("pre_tokenizer", "an object", stage));
    }
    if (StringMember(*stage, "type") == "ByteLevel") {
      return ReadByteLevel(*stage, "pre_tokenizer");
    }
    if (StringMember(*stage, "type") != "Sequence") {
      return Unexpected(
          Unsupported("pre_tokenizer.type", "Sequence or ByteLevel", Member(*stage, "type")));
    }
    const Json* steps = Member(*stage, "pretokenizers");
    if (steps == nullptr || !steps->is_array() || steps->empty()) {
      return Unexpected(Wrong("pre_tokenizer.pretokenizers", "a non-empty array", steps));
    }
    for (std::size_t i = 0; i < steps->size(); ++i) {
      const std::string field = fmt::format("pre_tokenizer.pretokenizers[{}]", i);
      const bool is_last = i + 1 == steps->size();
      Status status = is_last ? ReadByteLevel((*steps)[i], field) : ReadSplit((*steps)[i], field);
      if (!status) return status;
    }
    return {};
  }

  Status ReadSplit(const Json& step, const std::string& field) {
    if (StringMember(step, "type") != "Split") {
      return Unexpected(Unsupported(field, "a list of Split with one ByteLevel at its end", &step));
    }
    if (StringMember(step, "behavior") != "Isolated") {
      return Unexpected(Unsupported(field + ".behavior", "\"Isolated\"", Member(step, "behavior")));
    }
    const Json* invert = Member(step, "invert");
    if (!IsFalseOrAbsent(invert)) {
      return Unexpected(Unsupported(field + ".invert", "false", invert));
    }
    const Json* pattern = Member(step, "pattern");
    const std::string_view regex =
        pattern == nullptr ? std::string_view() : StringMember(*pattern, "Regex");
    if (regex.empty()) {
      return Unexpected(
          Unsupported(field + ".pattern", "{\"Regex\": a non-empty string}", pattern));
    }
    file_.patterns.emplace_back(regex);
    return {};
  }

  // Both flags are required: their absence means true.
  Status ReadByteLevel(const Json& step, const std::string& field) {
    if (StringMember(step, "type") != "ByteLevel") {
      return Unexpected(Unsupported(field, "ByteLevel as the last step", &step));
    }
    for (const char* key : {"add_prefix_space", "use_regex"}) {
      const Json* flag = Member(step, key);
      if (flag == nullptr || *flag != false) {
        return Unexpected(Unsupported(fmt::format("{}.{}", field, key), "false", flag));
      }
    }
    return {};
  }

  // The stages after the model must not change tokens or text.
  Status ReadSilentStages(Json& root) {
    for (const char* key : {"post_processor", "decoder"}) {
      const Json* stage = Member(root, key);
      if (!IsNullOrAbsent(stage) && StringMember(*stage, "type") != "ByteLevel") {
        return Unexpected(Unsupported(key, "null or ByteLevel",
                                      stage->is_object() ? Member(*stage, "type") : stage));
      }
    }
    return {};
  }

  Status ReadModel(Json& root) {
    Json* model = Member(root, "model");
    if (model == nullptr || !model->is_object()) {
      return Unexpected(Wrong("model", "an object", model));
    }
    if (StringMember(*model, "type") != "BPE") {
      return Unexpected(Unsupported("model.type", "\"BPE\"", Member(*model, "type")));
    }
    for (const char* key :
         {"byte_fallback", "dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json* value = Member(*model, key);
      if (!IsFalseOrAbsent(value) && *value != "" && *value != 0) {
        return Unexpected(Unsupported(fmt::format("model.{}", key), "none", value));
      }
    }
    const Json* ignore_merges = Member(*model, "ignore_merges");
    if (!IsNullOrAbsent(ignore_merges) && !ignore_merges->is_boolean()) {
      return Unexpected(Wrong("model.ignore_merges", "true or false", ignore_merges));
    }
    file_.ignore_merges = !IsFalseOrAbsent(ignore_merges);
    Status status = ReadVocabulary(Member(*model, "vocab"));
    if (!status) return status;
    return ReadMerges(Member(*model, "merges"));
  }

  Status ReadVocabulary(const Json* vocabulary) {
    if (vocabulary == nullptr || !vocabulary->is_object() || vocabulary->empty()) {
      return Unexpected(Wrong("model.vocab", "a non-empty object", vocabulary));
    }
    file_.vocabulary.reserve(vocabulary->size());
    for (auto entry = vocabulary->begin(); entry != vocabulary->end(); ++entry) {
      const std::optional<Token> token = ToToken(entry.value());
      if (entry.key().empty() || !token) {
        const Json key = entry.key();
        return Unexpected(Wrong(fmt::format("model.vocab[{}]", Shown(&key)),
                                "a non-empty string with " + IdRange(), &entry.value()));
      }
      file_.vocabulary.push_back({entry.key(), *token});
    }
    return {};
  }

  Status ReadMerges(Json* merges) {
    if (merges == nullptr || !merges->is_array()) {
      return Unexpected(Wrong("model.merges", "an array", merges));
    }
    file_.merges.reserve(merges->size());
    for (std::size_t i = 0; i < merges->size(); ++i) {
      Json& entry = (*merges)[i];
      std::optional<MergeEntry> merge = ReadMerge(entry);
      if (!merge) {
        return Unexpected(Wrong(fmt::format("model.merges[{}]", i),
                                R"("left right" or ["left", "right"])", &entry));
      }
      file_.merges.push_back(std::move(*merge));
    }
    return {};
  }

  // Takes the text out of a string entry: there are 127,741 of them.
  static std::optional<MergeEntry> ReadMerge(Json& entry) {
    MergeEntry merge = {};
    if (entry.is_string()) {
      auto& text = entry.get_ref<std::string&>();
      merge.left_bytes = text.find(' ');
      if (merge.left_bytes == std::string::npos || text.rfind(' ') != merge.left_bytes) {
        return std::nullopt;
      }
      merge.symbols = std::move(text);
      merge.symbols.erase(merge.left_bytes, 1);
    } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() &&
               entry[1].is_string()) {
      merge.symbols = entry[0].get_ref<const std::string&>();
      merge.left_bytes = merge.symbols.size();
      merge.symbols += entry[1].get_ref<const std::string&>();
    }
    if (merge.left_bytes == 0 || merge.left_bytes >= merge.symbols.size()) {
      return std::nullopt;
    }
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

}  // namespace fathom
