// Turns an answer into the turn that a later prompt can hold in its place.
#pragma once

#include <optional>

#include "api/common/answer_collector.h"
#include "api/common/api_answer.h"
#include "chat/chat.h"
#include "tokenizer/tokenizer.h"

namespace fathom {

// Returns the tokens of a chat's answer as a turn of the format, ended as the encoder would end it.
// nullopt if the answer was cut or stopped, holds tokens that no turn has, or parses strictly to
// something else than the client saw; then a prompt should hold the repaired answer.
std::optional<GeneratedTurn> MakeWrittenTurn(const CollectedAnswer& collected,
                                             bool starts_in_reasoning, const Tokenizer& tokenizer);

// Puts the turns of all choices into model().turns, if the call allows it. All choices must have
// finished.
void RememberTurns(const ApiAnswer& answer);

}  // namespace fathom
