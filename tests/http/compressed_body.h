// Compresses bodies as clients do.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <string>
#include <string_view>

namespace fathom::testing {

// Returns one member of gzip.
inline std::string Gzip(std::string_view text) {
  z_stream stream{};
  constexpr int kGzipOnly = 16;
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzipOnly + MAX_WBITS, 8,
                         Z_DEFAULT_STRATEGY),
            Z_OK);
  std::string coded(deflateBound(&stream, static_cast<uLong>(text.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(coded.data());
  stream.avail_out = static_cast<uInt>(coded.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  coded.resize(stream.total_out);
  deflateEnd(&stream);
  return coded;
}

// Returns one frame of zstd with a checksum, which does not tell the size of the text, as clients
// that compress a stream write it: so the decoder needs a window of `window_bits`.
inline std::string Zstd(std::string_view text, int window_bits = 20) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_bits);
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string coded(ZSTD_compressBound(text.size()) + 64, '\0');
  ZSTD_inBuffer in = {text.data(), text.size(), 0};
  ZSTD_outBuffer out = {coded.data(), coded.size(), 0};
  while (in.pos < in.size) ZSTD_compressStream2(context, &out, &in, ZSTD_e_continue);
  EXPECT_EQ(ZSTD_compressStream2(context, &out, &in, ZSTD_e_end), 0U);
  ZSTD_freeCCtx(context);
  coded.resize(out.pos);
  return coded;
}

}  // namespace fathom::testing
