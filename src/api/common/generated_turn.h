// From an answer to the turn that a later prompt may hold in its place.
#pragma once

#include <optional>

#include "api/common/answer_collector.h"
#include "api/common/api_answer.h"
#include "chat/chat.h"
#include "tokenizer/tokenizer.h"

namespace fathom {

// The tokens of a chat's answer as a turn of the format, ended as the encoder would end it.
// nullopt: it is none. The answer was cut or stopped, tokens stand in it that no turn has, or read
// by the rules of the format it says something else than the client was told, whose repairs a
// prompt should have.
std::optional<GeneratedTurn> MakeWrittenTurn(const CollectedAnswer& collected,
                                             bool starts_in_reasoning, const Tokenizer& tokenizer);

// Puts the turns of all choices into model().turns, where the call wants that. All choices have
// finished.
void RememberTurns(const ApiAnswer& answer);

}  // namespace fathom
