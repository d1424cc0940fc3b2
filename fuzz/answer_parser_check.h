// Invariants of the parser of answers for any input; shared by the fuzz target and the test that
// replays its seeds.
#pragma once

#include <string>
#include <string_view>

namespace fathom::fuzz {

// The first byte chooses the options, the second the pieces into which the rest, the answer, is
// cut. Returns what is wrong, or "":
//  * cut into pieces the answer is the same as whole, with and without streamed arguments;
//  * arguments are JSON objects, but those of a call that is cut are never whole; its finished
//    parameters are an object; text is valid UTF-8;
//  * no argument holds the closer that would have ended it, and the content no think tag.
std::string CheckAnswerParser(std::string_view input);

}  // namespace fathom::fuzz
