#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/options/token_ids.h"
#include "cli/terminal/output.h"
#include "json/json_writer.h"
#include "runtime/model_files.h"
#include "tokenizer/tokenizer.h"

namespace fathom::cli {
namespace {

// Returns one line per token: id and text, quoted so that blanks and newlines can be seen.
std::string Table(const Tokenizer& tokenizer, std::span<const Token> tokens) {
  std::string table;
  for (const Token token : tokens) {
    table += fmt::format("{:>8}  {}\n", token, PythonJsonString(tokenizer.TokenToText(token)));
  }
  return table;
}

}  // namespace

Status RunCommand(const TokenizeCommand& command, Log&) {
  const Result<std::filesystem::path> model = FindModel(command.model);
  if (!model) return Unexpected(model.error());
  const Result<Tokenizer> tokenizer = Tokenizer::Load(*model);
  if (!tokenizer) return Unexpected(tokenizer.error());

  if (command.decode) {
    const Result<std::vector<Token>> tokens =
        ReadTokenIds(*command.decode, tokenizer->vocab_size());
    if (!tokens) return Unexpected(tokens.error());
    const Result<std::string> text = tokenizer->Decode(*tokens);
    if (!text) return Unexpected(text.error());
    return Print(*text);
  }

  const Result<std::string> text = command.text == "-" ? ReadInput("-") : command.text;
  if (!text) return Unexpected(text.error());
  const Result<std::vector<Token>> tokens = tokenizer->Encode(
      *text, command.plain_text ? SpecialTokens::kPlainText : SpecialTokens::kParse);
  if (!tokens) return Unexpected(tokens.error());
  return Print(command.ids_only ? fmt::format("{}\n", fmt::join(*tokens, " "))
                                : Table(*tokenizer, *tokens));
}

}  // namespace fathom::cli
