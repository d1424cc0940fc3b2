// Writes a tokenizer for a vocabulary of any size: byte-level BPE that encodes every text and
// decodes it again, with the pre-tokenizer and the chat format's tokens of V4. Its words are
// syllables.
#pragma once

#include <cstdint>
#include <string>

namespace fathom::measure {

// The smallest vocabulary has the bytes and the added tokens; the largest has all merges, too.
std::int64_t SmallestVocabulary();
std::int64_t LargestVocabulary();

// Returns tokenizer.json with the ids 0 to vocab_size - 1, all in use: begin and end of sentence
// and padding, 256 bytes, merges in the order of their ids, the other added tokens. vocab_size must
// be between the two limits.
std::string TokenizerJson(std::int64_t vocab_size);

// Returns the matching tokenizer_config.json and generation_config.json.
std::string TokenizerConfigJson(std::int64_t max_positions);
std::string GenerationConfigJson();

}  // namespace fathom::measure
