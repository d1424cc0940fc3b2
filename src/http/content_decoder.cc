#include "http/content_decoder.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/ascii.h"
#include "base/check.h"

namespace fathom::http {
namespace {

class GzipDecoder final : public ContentDecoder {
 public:
  ~GzipDecoder() override { inflateEnd(&stream_); }

  bool Start() {
    constexpr int kGzipOnly = 16;  // added to the logarithm of the window
    return inflateInit2(&stream_, kGzipOnly + MAX_WBITS) == Z_OK;
  }

  Result<std::size_t> Decode(std::string_view* bytes, std::span<char> room) override {
    constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
    const auto n_bytes = static_cast<uInt>(std::min(bytes->size(), kMost));
    const auto n_room = static_cast<uInt>(std::min(room.size(), kMost));
    // The stream of zlib serves both directions, so its input is not const; inflate only reads it.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes->data()));
    stream_.avail_in = n_bytes;
    stream_.next_out = reinterpret_cast<Bytef*>(room.data());
    stream_.avail_out = n_room;
    int status = Z_OK;
    while (status == Z_OK && stream_.avail_out > 0 && !(is_whole_ && stream_.avail_in == 0)) {
      if (std::exchange(is_whole_, false)) inflateReset(&stream_);  // another member follows
      status = inflate(&stream_, Z_NO_FLUSH);
      if (status != Z_STREAM_END) continue;
      is_whole_ = true;
      status = Z_OK;
    }
    bytes->remove_prefix(n_bytes - stream_.avail_in);
    // Z_BUF_ERROR: more bytes are needed.
    if (status == Z_OK || status == Z_BUF_ERROR) return n_room - stream_.avail_out;
    return MakeError(ErrorCode::kInvalidData, "Content-Encoding: expected a gzip body, found {}",
                     stream_.msg == nullptr ? "other bytes" : stream_.msg);
  }

  bool is_whole() const override { return is_whole_; }
  // Returns the size of the window and the tables of inflate.
  std::size_t memory() const override { return std::size_t{48} << 10; }

 private:
  z_stream stream_{};
  bool is_whole_ = false;
};

class ZstdDecoder final : public ContentDecoder {
 public:
  ~ZstdDecoder() override { ZSTD_freeDCtx(context_); }

  bool Start() {
    constexpr int kWindowBits = 23;
    context_ = ZSTD_createDCtx();
    return context_ != nullptr &&
           !ZSTD_isError(ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, kWindowBits));
  }

  Result<std::size_t> Decode(std::string_view* bytes, std::span<char> room) override {
    ZSTD_outBuffer out = {.dst = room.data(), .size = room.size(), .pos = 0};
    do {
      if (is_between_frames_) {
        TakeMagic(bytes);
        if (n_magic_ < sizeof magic_) break;
        if (Status begun = BeginFrame(); !begun) return Unexpected(begun.error());
      }
      ZSTD_inBuffer in = {.src = bytes->data(), .size = bytes->size(), .pos = 0};
      const Result<bool> has_ended = DecodeFrame(&in, &out);
      if (!has_ended) return Unexpected(has_ended.error());
      bytes->remove_prefix(in.pos);
      is_between_frames_ = *has_ended;
      has_frame_ = has_frame_ || *has_ended;
    } while (!bytes->empty() && out.pos < out.size);
    return out.pos;
  }

  bool is_whole() const override { return has_frame_ && is_between_frames_ && n_magic_ == 0; }
  std::size_t memory() const override { return ZSTD_sizeof_DCtx(context_); }

 private:
  void TakeMagic(std::string_view* bytes) {
    const std::size_t n_bytes = std::min(sizeof magic_ - n_magic_, bytes->size());
    std::copy_n(bytes->begin(), n_bytes, magic_ + n_magic_);
    n_magic_ += n_bytes;
    bytes->remove_prefix(n_bytes);
  }

  // The library can also read frames of its first versions, with decoders whose memory has no
  // limit.
  Status BeginFrame() {
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < sizeof magic_; ++i) {
      number |= static_cast<std::uint32_t>(static_cast<unsigned char>(magic_[i])) << (8 * i);
    }
    const bool is_skippable = (number & ZSTD_MAGIC_SKIPPABLE_MASK) == ZSTD_MAGIC_SKIPPABLE_START;
    if (number != ZSTD_MAGICNUMBER && !is_skippable) {
      return MakeError(ErrorCode::kInvalidData,
                       "Content-Encoding: expected a zstd body, found other bytes");
    }
    ZSTD_inBuffer in = {.src = magic_, .size = std::exchange(n_magic_, 0), .pos = 0};
    ZSTD_outBuffer out = {.dst = nullptr, .size = 0, .pos = 0};
    is_between_frames_ = false;
    const Result<bool> begun = DecodeFrame(&in, &out);
    if (!begun) return Unexpected(begun.error());
    return {};
  }

  // Returns whether the frame has ended and is completely decoded.
  Result<bool> DecodeFrame(ZSTD_inBuffer* in, ZSTD_outBuffer* out) {
    const std::size_t rest = ZSTD_decompressStream(context_, out, in);
    if (!ZSTD_isError(rest)) return rest == 0;
    const bool is_large = ZSTD_getErrorCode(rest) == ZSTD_error_frameParameter_windowTooLarge;
    return MakeError(ErrorCode::kInvalidData, "Content-Encoding: expected a zstd body{}, found {}",
                     is_large ? " with a window of at most 8 MiB" : "", ZSTD_getErrorName(rest));
  }

  ZSTD_DCtx* context_ = nullptr;
  char magic_[4] = {};  // magic number of the next frame
  std::size_t n_magic_ = 0;
  bool is_between_frames_ = true;
  bool has_frame_ = false;
};

template <class Decoder>
Result<std::unique_ptr<ContentDecoder>> Started() {
  auto decoder = std::make_unique<Decoder>();
  if (!decoder->Start()) return MakeError(ErrorCode::kOutOfMemory, "no memory to decode a body");
  return decoder;
}

}  // namespace

std::optional<ContentCoding> FindContentCoding(const HttpFields& fields) {
  ContentCoding coding = ContentCoding::kIdentity;
  bool is_named = false;
  for (const auto& [name, value] : fields) {
    if (!EqualsWithoutCase(name, "Content-Encoding") || value.empty()) continue;
    if (std::exchange(is_named, true)) return std::nullopt;
    if (EqualsWithoutCase(value, "gzip") || EqualsWithoutCase(value, "x-gzip")) {
      coding = ContentCoding::kGzip;
    } else if (EqualsWithoutCase(value, "zstd")) {
      coding = ContentCoding::kZstd;
    } else if (!EqualsWithoutCase(value, "identity")) {
      return std::nullopt;
    }
  }
  return coding;
}

Result<std::unique_ptr<ContentDecoder>> ContentDecoder::Make(ContentCoding coding) {
  Check(coding != ContentCoding::kIdentity, "a body without a coding is decoded");
  return coding == ContentCoding::kGzip ? Started<GzipDecoder>() : Started<ZstdDecoder>();
}

}  // namespace fathom::http
