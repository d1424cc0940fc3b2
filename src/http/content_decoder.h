// ContentDecoder: decodes a compressed body piece by piece and in bounded memory (RFC 9110 8.4, RFC
// 1952, RFC 8878).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "http/http.h"

namespace fathom::http {

enum class ContentCoding { kIdentity, kGzip, kZstd };

// The codings other than identity, as Accept-Encoding lists them.
inline constexpr std::string_view kContentCodings = "gzip, zstd";

// Returns the coding that the Content-Encoding fields name: gzip (or x-gzip), zstd, identity;
// without such a field, identity. nullopt: another coding, or several, one applied to the other.
std::optional<ContentCoding> FindContentCoding(const HttpFields& fields);

// Decodes one body, in one thread.
class ContentDecoder {
 public:
  // `coding` must not be identity. Errors: kOutOfMemory.
  static Result<std::unique_ptr<ContentDecoder>> Make(ContentCoding coding);
  virtual ~ContentDecoder() = default;

  // Decodes from the front of `bytes`, and removes the bytes that it reads, into `room`, which must
  // not be empty. Returns the number of decoded bytes. If `room` is full, more may follow without
  // further bytes. The time is linear in the bytes of both. Errors: kInvalidData if the bytes do
  // not have this coding, are damaged, or need a window of more than 8 MiB (RFC 9659); the decoder
  // cannot be used afterwards.
  virtual Result<std::size_t> Decode(std::string_view* bytes, std::span<char> room) = 0;
  // Returns whether the bytes read so far are a whole body: members of gzip or frames of zstd, at
  // least one.
  virtual bool is_whole() const = 0;
  // Returns the bytes of memory that the decoder uses now: about 50 KiB for gzip; the window and
  // 300 KiB for zstd.
  virtual std::size_t memory() const = 0;
};

}  // namespace fathom::http
