// A tokenizer for a vocabulary of any size: byte-level BPE that turns every text into tokens and
// back, with the pre-tokenizer and the chat format's tokens of V4. Its words are syllables.
#pragma once

#include <cstdint>
#include <string>

namespace fathom {

// Smallest: the bytes and the added tokens; largest: with all merges.
std::int64_t SmallestVocabulary();
std::int64_t LargestVocabulary();

// tokenizer.json with the ids 0 to vocab_size - 1, all in use: begin and end of sentence and
// padding, 256 bytes, merges in the order of their ids, the other added tokens. vocab_size is
// between the two limits.
std::string TokenizerJson(std::int64_t vocab_size);

// tokenizer_config.json and generation_config.json to go with it.
std::string TokenizerConfigJson(std::int64_t max_positions);
std::string GenerationConfigJson();

}  // namespace fathom
