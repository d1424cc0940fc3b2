#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "base/line_reader.h"
#include "cli/commands/commands.h"
#include "cli/terminal/output.h"
#include "json/json_value.h"
#include "json/json_writer.h"
#include "measure/constrain/constraint_check.h"
#include "runtime/model_files.h"

namespace fathom::cli {
namespace {

constexpr std::size_t kMostSchemaBytes = 64u << 20;

// The model's tokenizer, and the number of rows of its logits: from config.json if there is one.
struct ModelVocabulary {
  Tokenizer tokenizer;
  std::int64_t vocab_size = 0;
  Token eos = 1;
};

// chosen: a directory, or only a tokenizer.json, whose highest id is then the last row.
Result<ModelVocabulary> ReadVocabulary(const std::filesystem::path& chosen) {
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(chosen, error);
  const Result<std::filesystem::path> model = is_file ? chosen : FindModel(chosen);
  if (!model) return Unexpected(model.error());
  Result<Tokenizer> tokenizer = Tokenizer::Load(*model);
  if (!tokenizer) return Unexpected(tokenizer.error());
  ModelVocabulary vocabulary = {.tokenizer = *std::move(tokenizer)};
  vocabulary.vocab_size = vocabulary.tokenizer.vocab_size();
  if (is_file || !std::filesystem::is_regular_file(*model / "config.json", error))
    return vocabulary;
  const Result<ModelFiles> files = ModelFiles::Read(*model);
  if (!files) return Unexpected(files.error());
  vocabulary.vocab_size = files->config.vocab_size;
  if (!files->EosTokens().empty()) vocabulary.eos = files->EosTokens().front();
  return vocabulary;
}

Result<JsonValue> ReadJson(const std::string& path, const std::string& text) {
  Result<JsonValue> value = ParseJson(text);
  if (!value) return MakeError(value.error().code, "{}: {}", path, value.error().message);
  return value;
}

Result<ContentConstraint> ReadContent(const ConstrainCommand& command) {
  using Kind = ContentConstraint::Kind;
  ContentConstraint content = {.strict = command.strict};
  if (!command.regex.empty()) {
    content.kind = Kind::kRegex;
    content.text = command.regex;
    return content;
  }
  const std::string& path = command.schema.empty() ? command.grammar : command.schema;
  Result<std::string> text = ReadInput(path, kMostSchemaBytes);
  if (!text) return Unexpected(text.error());
  if (command.schema.empty()) {
    content.kind = Kind::kGbnf;
    content.text = *std::move(text);
    return content;
  }
  Result<JsonValue> schema = ReadJson(path, *text);
  if (!schema) return Unexpected(schema.error());
  content.kind = Kind::kJsonSchema;
  content.schema = *std::move(schema);
  return content;
}

std::vector<double> Times(const std::vector<double>& microseconds) {
  std::vector<double> rounded;
  for (const double us : microseconds) rounded.push_back(std::round(us * 10) / 10);
  return rounded;
}

JsonValue ToJson(const ConstraintCheck& check) {
  JsonValue object = {{"compile", check.Outcome()},
                      {"compile_us", std::round(check.compile_us * 10) / 10}};
  if (check.error) {
    JsonValue issues = JsonValue::Array();
    for (const ConstraintIssue& issue : check.error->issues) {
      issues.push_back(
          {{"pointer", issue.pointer}, {"keyword", issue.keyword}, {"reason", issue.reason}});
    }
    object["error"] = check.error->message;
    object["errors"] = std::move(issues);
  }
  if (!check.relaxed.empty()) object["relaxed"] = check.relaxed;
  JsonValue results = JsonValue::Array();
  for (const TextResult& result : check.results) {
    JsonValue entry = {{"accepted", result.accepted}};
    if (result.valid) entry["valid"] = *result.valid;
    if (!result.is_decided) entry["undecided"] = true;
    if (result.refused_byte >= 0) entry["refused_byte"] = result.refused_byte;
    if (!result.error.empty()) entry["error"] = result.error;
    entry["mask_us"] = Times(result.mask_us);
    results.push_back(std::move(entry));
  }
  object["results"] = std::move(results);
  return object;
}

// Sums over many checks.
struct CheckTotals {
  std::vector<double> compile_us;
  std::vector<double> mask_us;
  std::int64_t n_compiled = 0;
  std::int64_t n_passing = 0;  // compiled, and every text was accepted or refused as expected
  std::int64_t n_valid_refused = 0;
  std::int64_t n_valid_undecided = 0;
  std::int64_t n_invalid_accepted = 0;

  void Add(const ConstraintCheck& check) {
    compile_us.push_back(check.compile_us);
    bool passes = !check.error;
    n_compiled += check.error ? 0 : 1;
    for (const TextResult& result : check.results) {
      mask_us.insert(mask_us.end(), result.mask_us.begin(), result.mask_us.end());
      if (!result.valid) continue;
      const bool is_refused = *result.valid && !result.accepted;
      n_valid_refused += is_refused && result.is_decided ? 1 : 0;
      n_valid_undecided += is_refused && !result.is_decided ? 1 : 0;
      n_invalid_accepted += !*result.valid && result.accepted ? 1 : 0;
      passes = passes && *result.valid == result.accepted;
    }
    n_passing += passes ? 1 : 0;
  }

  std::string Text() {
    return fmt::format(
        "{} schemas: {} compiled, {} passing; {} valid texts refused, {} undecided, {} invalid "
        "texts "
        "accepted\ncompile us: {}\nmask us: {}\n",
        compile_us.size(), n_compiled, n_passing, n_valid_refused, n_valid_undecided,
        n_invalid_accepted, Distribution(compile_us), Distribution(mask_us));
  }

 private:
  static std::string Distribution(std::vector<double>& times) {
    if (times.empty()) return "none";
    std::sort(times.begin(), times.end());
    double sum = 0;
    for (const double time : times) sum += time;
    const auto at = [&](double share) {
      return times[std::min(times.size() - 1,
                            static_cast<std::size_t>(share * static_cast<double>(times.size())))];
    };
    return fmt::format("mean {:.1f}, p50 {:.1f}, p99 {:.1f}, p99.9 {:.1f}, max {:.1f} ({} times)",
                       sum / static_cast<double>(times.size()), at(0.5), at(0.99), at(0.999),
                       times.back(), times.size());
  }
};

// Returns one line of --check and --test for people.
std::string Report(const ConstraintCheck& check) {
  std::string text = fmt::format("{} ({:.0f} us)\n", check.Outcome(), check.compile_us);
  if (check.error) {
    text += check.error->message + "\n";
    for (const ConstraintIssue& issue : check.error->issues) {
      text += fmt::format("  {}{}{}: {}\n", issue.pointer, issue.keyword.empty() ? "" : " ",
                          issue.keyword, issue.reason);
    }
  }
  for (const std::string& pointer : check.relaxed)
    text += fmt::format("not enforced: {}\n", pointer);
  for (std::size_t i = 0; i < check.results.size(); ++i) {
    const TextResult& result = check.results[i];
    text += result.accepted ? fmt::format("line {}: accepted\n", i + 1)
            : result.error.empty()
                ? fmt::format("line {}: refused at byte {}\n", i + 1, result.refused_byte)
                : fmt::format("line {}: {}\n", i + 1, result.error);
  }
  return text;
}

Status CheckOne(const ConstrainCommand& command, ConstraintChecker& checker) {
  const Result<ContentConstraint> content = ReadContent(command);
  if (!content) return Unexpected(content.error());
  std::vector<std::string> lines;
  if (!command.check && !command.test.empty()) {
    const Result<std::string> texts = ReadInput(command.test);
    if (!texts) return Unexpected(texts.error());
    LineReader reader(*texts);
    for (std::string_view line; reader.Next(&line);) lines.emplace_back(line);
  }
  ConstraintCheck check = checker.Compile(*content);
  if (!check.error) {
    for (const std::string& line : lines) check.results.push_back(checker.Test(line));
  }
  if (Status printed = Print(command.json ? WriteJson(ToJson(check)) + "\n" : Report(check));
      !printed) {
    return printed;
  }
  if (check.error) return Unexpected(Error{ErrorCode::kInvalidArgument, ""});
  return {};
}

// Checks a file of --bench: {"schema": ..., "tests": [{"data": ..., "valid": bool}]}.
Result<ConstraintCheck> CheckFile(const std::filesystem::path& path, bool strict,
                                  ConstraintChecker& checker) {
  const Result<std::string> text = ReadInput(path.string(), kMostSchemaBytes);
  if (!text) return Unexpected(text.error());
  const Result<JsonValue> file = ReadJson(path.string(), *text);
  if (!file) return Unexpected(file.error());
  const JsonValue* schema = file->Find("schema");
  const JsonValue* tests = file->Find("tests");
  if (schema == nullptr || tests == nullptr || !tests->IsArray()) {
    return MakeError(ErrorCode::kInvalidData,
                     "{}: expected an object with a schema and a list of tests, found {}",
                     path.string(), file->Describe());
  }
  ConstraintCheck check = checker.Compile(
      {.kind = ContentConstraint::Kind::kJsonSchema, .schema = *schema, .strict = strict});
  if (check.error) return check;
  for (const JsonValue& test : tests->items()) {
    const JsonValue* data = test.Find("data");
    const JsonValue* valid = test.Find("valid");
    if (data == nullptr || valid == nullptr) {
      return MakeError(ErrorCode::kInvalidData, "{}: expected data and valid in each of the tests",
                       path.string());
    }
    const OrderedText ordered = checker.Write(InSchemaOrder(*schema, *data));
    TextResult result = checker.Test(ordered.text);
    result.valid = valid->boolean();
    result.is_decided = result.accepted || ordered.is_decided;
    check.results.push_back(std::move(result));
  }
  return check;
}

Status CheckFolder(const ConstrainCommand& command, ConstraintChecker& checker) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator at(command.bench, error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().extension() == ".json") files.push_back(at->path());
  }
  if (error) return MakeError(ErrorCode::kIo, "{}: {}", command.bench, error.message());
  std::sort(files.begin(), files.end());
  CheckTotals totals;
  for (const std::filesystem::path& path : files) {
    const Result<ConstraintCheck> check = CheckFile(path, command.strict, checker);
    if (!check) return Unexpected(check.error());
    totals.Add(*check);
    if (!command.json) continue;
    JsonValue line = {{"file", path.filename().string()}};
    line.Update(ToJson(*check));
    if (Status printed = Print(WriteJson(line) + "\n"); !printed) return printed;
  }
  return command.json ? Status() : Print(totals.Text());
}

}  // namespace

Status RunCommand(const ConstrainCommand& command, Log&) {
  const Result<ModelVocabulary> vocabulary = ReadVocabulary(command.model);
  if (!vocabulary) return Unexpected(vocabulary.error());
  ConstraintChecker checker(vocabulary->tokenizer, vocabulary->vocab_size, vocabulary->eos);
  return command.bench.empty() ? CheckOne(command, checker) : CheckFolder(command, checker);
}

}  // namespace fathom::cli
