#include "cli/options/token_ids.h"

#include <charconv>
#include <string>

#include "cli/terminal/output.h"

namespace fathom::cli {
namespace {

constexpr std::string_view kSeparators = ", \t\r\n";
constexpr std::string_view kIdCharacters = "+-0123456789, \t\r\n";

// `source`: the name of the file, for messages.
Result<std::vector<Token>> ParseTokenIds(std::string_view text, std::string_view source,
                                         std::int64_t vocab_size) {
  std::vector<Token> tokens;
  std::size_t begin = 0;
  while ((begin = text.find_first_not_of(kSeparators, begin)) != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kSeparators, begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    std::int64_t id = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (rest != word.data() + word.size() || error == std::errc::invalid_argument) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{}: expected token ids separated by commas or blanks, found \"{}\" at "
                       "byte {}",
                       source, word.substr(0, 40), begin);
    }
    if (error != std::errc() || id < 0 || id >= vocab_size) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{}: token {}: expected an id from 0 to {}, found {}", source, tokens.size(),
                       vocab_size - 1, word.substr(0, 40));
    }
    tokens.push_back(static_cast<Token>(id));
    begin = end;
  }
  if (tokens.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: expected token ids, found none", source);
  }
  return tokens;
}

}  // namespace

Result<std::vector<Token>> ReadTokenIds(std::string_view argument, std::int64_t vocab_size) {
  if (argument != "-" && argument.find_first_not_of(kIdCharacters) == std::string_view::npos) {
    return ParseTokenIds(argument, "token ids", vocab_size);
  }
  Result<std::string> text = ReadInput(std::string(argument));
  if (!text && text.error().code == ErrorCode::kNotFound) {
    return MakeError(ErrorCode::kNotFound, "{}: neither token ids nor a file that exists",
                     argument);
  }
  if (!text) return Unexpected(text.error());
  return ParseTokenIds(*text, argument == "-" ? "standard input" : argument, vocab_size);
}

}  // namespace fathom::cli
