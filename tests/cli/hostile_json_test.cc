// Every JSON file that the program reads, with contents that were made to break its reader.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model_config.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/safetensors_index.h"
#include "cli/options/expanded_arguments.h"
#include "cli/terminal/chat_file.h"
#include "measure/plan/hardware.h"
#include "runtime/generation_config.h"
#include "tokenizer/tokenizer_file.h"

namespace fathom::cli {
namespace {

// Returns the error; "" if the file is good.
using ReadText = std::string (*)(const std::string& text);

template <class T>
std::string ErrorFrom(const Result<T>& result) {
  return result ? "" : result.error().message;
}

// Returns the problem that ended the reading: the last one.
std::string LastMessage(const std::vector<Error>& problems) {
  return problems.empty() ? "" : problems.back().message;
}

// Reads a file through the option or command that names it.
template <class Read>
std::string ErrorOfFile(const std::string& text, const Read& read) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("hostile_json_" + std::to_string(::getpid()));
  std::ofstream(path) << text;
  const std::string error = read(path);
  std::filesystem::remove(path);
  return error;
}

struct JsonFile {
  std::string_view name;
  ReadText read;
};

constexpr JsonFile kFiles[] = {
    {"generation_config.json",
     [](const std::string& text) { return ErrorFrom(ParseGenerationConfig(text, "file")); }},
    {"config.json",
     [](const std::string& text) { return ErrorFrom(ParseModelConfig(text, "file")); }},
    {"tokenizer.json",
     [](const std::string& text) { return ErrorFrom(ParseTokenizerFile(text, "file")); }},
    {"model.safetensors.index.json",
     [](const std::string& text) {
       std::vector<Error> problems;
       static_cast<void>(ParseSafetensorsIndex(text, "file", problems));
       return LastMessage(problems);
     }},
    {"the header of a shard",
     [](const std::string& text) {
       std::vector<Error> problems;
       static_cast<void>(ParseSafetensorsHeader(text, 0, "file", problems));
       return LastMessage(problems);
     }},
    {"a hardware file",
     [](const std::string& text) { return ErrorFrom(plan::ParseHardware(text, "file")); }},
    {"/load",
     [](const std::string& text) {
       return ErrorOfFile(text, [](const auto& path) { return ErrorFrom(cli::LoadChat(path)); });
     }},
    {"--config",
     [](const std::string& text) {
       return ErrorOfFile(text, [](const auto& path) {
         return ErrorFrom(cli::ExpandArguments({"serve", "--config", path.string()}, {}));
       });
     }},
};

std::string Repeat(std::string_view unit, std::size_t n) {
  std::string text;
  for (std::size_t i = 0; i < n; ++i) text += unit;
  return text;
}

constexpr std::size_t kDepth = 200'000;

// A recursive reader, or a recursive destructor, overflows the stack.
TEST(HostileJson, DeepValuesAreErrors) {
  for (const std::string_view key : {"temperature", "weight_map", "messages", "port", "x"}) {
    const std::string begin = "{\"" + std::string(key) + "\":";
    for (const std::string& text :
         {begin + Repeat("[", kDepth) + Repeat("]", kDepth) + "}",
          begin + Repeat("{\"a\":", kDepth) + "1" + Repeat("}", kDepth) + "}",
          begin + Repeat("[{\"a\":", kDepth)}) {
      for (const JsonFile& file : kFiles) {
        const std::string error = file.read(text);
        EXPECT_NE(error.find("nested"), std::string::npos) << file.name << ": " << error;
        EXPECT_LT(error.size(), 400u) << file.name;
      }
    }
  }
}

TEST(HostileJson, ManyTinyValuesAreErrors) {
  const std::string text = "{\"x\":[" + Repeat("[],", 17'000'000) + "[]]}";
  for (const JsonFile& file : kFiles) {
    const std::string error = file.read(text);
    EXPECT_NE(error, "") << file.name;
    EXPECT_LT(error.size(), 400u) << file.name;
  }
}

}  // namespace
}  // namespace fathom::cli
