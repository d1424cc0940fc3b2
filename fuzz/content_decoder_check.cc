#include "fuzz/content_decoder_check.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "http/content_decoder.h"

namespace fathom::fuzz {
namespace {

// A few bytes can become many.
constexpr std::size_t kMostBytes = std::size_t{1} << 20;
// A window of 8 MiB and the decoder's own tables.
constexpr std::size_t kMostMemory = std::size_t{9} << 20;

struct Decoded {
  std::string text;
  bool has_failed = false;
  bool is_whole = false;
  std::string wrong;
};

// Decodes a piece. False: there is nothing more to do.
bool DecodePiece(ContentDecoder& decoder, std::string_view piece, std::span<char> room,
                 Decoded* decoded) {
  std::size_t n_decoded = room.size();
  while (!piece.empty() || n_decoded == room.size()) {
    const std::size_t n_before = piece.size();
    const Result<std::size_t> result = decoder.Decode(&piece, room);
    if (decoder.memory() > kMostMemory) decoded->wrong = "too much memory";
    decoded->has_failed = !result;
    if (!result) return false;
    n_decoded = *result;
    if (n_decoded > room.size()) decoded->wrong = "more bytes than there is room";
    if (n_decoded == 0 && piece.size() == n_before && n_before > 0) {
      decoded->wrong = "no progress";
      return false;
    }
    decoded->text.append(room.data(), n_decoded);
    if (decoded->text.size() > kMostBytes) return false;
  }
  return true;
}

Decoded Decode(ContentCoding coding, std::string_view bytes, std::size_t step, std::size_t n_room) {
  const Result<std::unique_ptr<ContentDecoder>> decoder = ContentDecoder::Make(coding);
  if (!decoder) return {.wrong = "no decoder"};
  std::vector<char> room(n_room);
  Decoded decoded;
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, step);
    if (!DecodePiece(**decoder, piece, room, &decoded)) return decoded;
    bytes.remove_prefix(piece.size());
  }
  decoded.is_whole = (*decoder)->is_whole();
  return decoded;
}

}  // namespace

std::string CheckContentDecoder(std::string_view input) {
  if (input.empty()) return "";
  const ContentCoding coding = input.front() == 'g' ? ContentCoding::kGzip : ContentCoding::kZstd;
  input.remove_prefix(1);
  const Decoded whole = Decode(coding, input, std::max<std::size_t>(input.size(), 1), 1 << 16);
  if (!whole.wrong.empty() || whole.text.size() > kMostBytes) return whole.wrong;
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}}) {
    const Decoded pieces = Decode(coding, input, step, step + 2);
    if (!pieces.wrong.empty()) return pieces.wrong;
    if (pieces.text.size() > kMostBytes) return "";  // before the error of the whole input
    if (pieces.has_failed != whole.has_failed) return "an error depends on the pieces";
    if (!whole.has_failed && pieces.is_whole != whole.is_whole) return "the end depends on them";
    if (!whole.has_failed && pieces.text != whole.text) return "the text depends on the pieces";
  }
  return "";
}

}  // namespace fathom::fuzz
