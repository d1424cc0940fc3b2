// Operations on single rows: every backend gives the bits of the reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/kernels/conformance.h"

namespace fathom::kernels::conformance {
namespace {

constexpr std::int64_t kRowCounts[] = {0, 1, 2, 3, 5, 16, 17, 33};

class ConformanceRows : public Conformance {};

TEST_P(ConformanceRows, RmsNorm) {
  const auto expect_same = [&](Data& data, Kind kind, std::int64_t d, std::int64_t t) {
    const Array<Bf16> x = data.Bf16s(t * d, kind);
    const Array<Bf16> weight = data.Bf16s(d);
    ExpectSame(fmt::format("d {} t {} offset {}", d, t, data.offset()), [&](Backend& backend) {
      Array<Bf16> out(t * d, data.offset());
      Array<Bf16> in_place = x;
      backend.RmsNorm(x.As(t, d), weight.all(), 1e-6f, out.As(t, d));
      backend.RmsNorm(in_place.As(t, d), weight.all(), 1e-6f, in_place.As(t, d));
      return ReadBytes(backend, out, in_place);
    });
  };
  for (const std::int64_t offset : {0, 1}) {
    Data data(1, offset);
    for (const Kind kind : kKinds) {
      for (const std::int64_t d : {1, 7, 16, 31, 128, 520, 1000}) {
        for (const std::int64_t t : kRowCounts) expect_same(data, kind, d, t);
      }
    }
    // Rows that a block reads in several parts.
    for (const std::int64_t d : {4096, 4097, 8200}) expect_same(data, Kind::kMixed, d, 2);
  }
}

TEST_P(ConformanceRows, SwiGlu) {
  Data data(2);
  for (const Kind kind : kKinds) {
    for (const std::int64_t f : {1, 15, 33, 512}) {
      for (const std::int64_t t : {0, 1, 3, 40}) {
        const Array<Bf16> gate = data.Bf16s(t * f, kind);
        const Array<Bf16> up = data.Bf16s(t * f, kind);
        ExpectSame(fmt::format("f {} t {}", f, t), [&](Backend& backend) {
          Array<Bf16> out(t * f);
          Array<Bf16> in_place = gate;
          backend.SwiGlu(gate.As(t, f), up.As(t, f), 10.0f, out.As(t, f));
          backend.SwiGlu(in_place.As(t, f), up.As(t, f), 10.0f, in_place.As(t, f));
          return ReadBytes(backend, out, in_place);
        });
      }
    }
  }
}

TEST_P(ConformanceRows, Add) {
  Data data(14);
  for (const std::int64_t n : {1, 7, 16, 33, 1000}) {
    for (const std::int64_t t : kRowCounts) {
      const Array<float> x = data.Floats(t * n);
      const Array<float> y = data.Floats(t * n);
      ExpectSame(fmt::format("n {} t {}", n, t), [&](Backend& backend) {
        Array<float> out(t * n);
        Array<float> into_x = x;
        Array<float> into_y = y;
        backend.Add(x.As(t, n), y.As(t, n), out.As(t, n));
        backend.Add(into_x.As(t, n), y.As(t, n), into_x.As(t, n));
        backend.Add(x.As(t, n), into_y.As(t, n), into_y.As(t, n));
        return ReadBytes(backend, out, into_x, into_y);
      });
    }
  }
}

// The weights of hyper-connections of width d.
struct HyperData {
  HyperData(Data& data, std::int64_t width)
      : d(width),
        offset(data.offset()),
        fn(data.Floats(24 * 4 * d)),
        base(data.Floats(24)),
        scale(data.Floats(3)) {}
  HcWeights weights() const { return {fn.data(), base.data(), scale.data()}; }

  // Runs all operations of hyper-connections on random rows.
  auto Operations(Data& data, std::int64_t t, Kind kind) const {
    return [this, t, streams = data.Bf16s(t * 4 * d, kind),
            y = data.Bf16s(t * d, kind)](Backend& backend) {
      Array<Bf16> pre(t * d, offset);
      Array<Bf16> head(t * d, offset);
      Array<float> post(t * 4, offset);
      Array<float> comb(t * 16, offset);
      const HcMix mix = {post.As(t, 4), comb.As(t, 16)};
      Array<Bf16> mixed = streams;
      Array<Bf16> added = streams;
      Array<Bf16> means(t * (2 * d + 3));
      backend.HcPre(streams.As(t, 4 * d), weights(), {}, pre.As(t, d), mix);
      backend.HcHead(streams.As(t, 4 * d), weights(), {}, head.As(t, d));
      backend.HcPost(y.As(t, d), mix, mixed.As(t, 4 * d));
      backend.AddToStreams(y.As(t, d), added.As(t, 4 * d));
      backend.MeanOfStreams(streams.As(t, 4 * d), 0, means.As(t, 2 * d + 3));
      backend.MeanOfStreams(mixed.As(t, 4 * d), d + 1, means.As(t, 2 * d + 3));
      return ReadBytes(backend, pre, head, post, comb, mixed, added, means);
    };
  }

  std::int64_t d;
  std::int64_t offset;
  Array<float> fn;
  Array<float> base;
  Array<float> scale;
};

TEST_P(ConformanceRows, HyperConnections) {
  for (const std::int64_t offset : {0, 1}) {
    Data data(3, offset);
    for (const Kind kind : {Kind::kNormal, Kind::kTiny, Kind::kLarge}) {
      for (const std::int64_t d : {1, 4, 13, 20, 100, 256, 1020}) {
        const HyperData hyper(data, d);
        for (const std::int64_t t : kRowCounts) {
          ExpectSame(fmt::format("d {} t {} offset {}", d, t, offset),
                     hyper.Operations(data, t, kind));
        }
      }
    }
    // More columns of a row than a block mixes.
    const HyperData hyper(data, 2056);
    ExpectSame("d 2056", hyper.Operations(data, 2, Kind::kNormal));
  }
}

// Threads share the rows' chains by blocks of columns; 128 rows are a pass. A GPU's block computes
// the chains of up to 32 rows, and its memory holds the chains of all rows, or of some wide ones.
TEST_P(ConformanceRows, HyperConnectionsOfManyRowCounts) {
  AddBackend(17);
  Data data(13, 0);
  const HyperData narrow(data, 256);
  for (std::int64_t t = 1; t <= 17; ++t) {
    ExpectSame(fmt::format("t {}", t), narrow.Operations(data, t, Kind::kNormal));
  }
  const HyperData wide(data, 1020);
  for (const std::int64_t t : {1, 2, 4, 5, 7, 8, 9, 11, 15, 16, 24, 31, 33, 64, 127, 128, 129}) {
    ExpectSame(fmt::format("d 1020 t {}", t), wide.Operations(data, t, Kind::kNormal));
  }
  const HyperData wider(data, 1100);
  ExpectSame("d 1100 t 299", wider.Operations(data, 299, Kind::kNormal));
}

TEST_P(ConformanceRows, QueryHeads) {
  Data data(4);
  for (const Kind kind : kKinds) {
    for (const std::int64_t head_dim : {10, 33, 128, 512, 1030}) {
      for (const std::int64_t t : {0, 1, 2, 17}) {
        constexpr std::int64_t kHeads = 3;
        const std::int64_t most_pairs = t == 2 ? 5 : t == 1 ? 40 : 32;
        const std::int64_t pairs = std::min(head_dim / 2, most_pairs);
        const Angles angles(data, t, pairs);
        const Array<Bf16> q = data.Bf16s(t * kHeads * head_dim, kind);
        ExpectSame(fmt::format("head_dim {} t {}", head_dim, t), [&](Backend& backend) {
          Array<Bf16> out = q;
          backend.QueryHeads(out.As(t, kHeads * head_dim), head_dim, 1e-6f, angles.View());
          return ReadBytes(backend, out);
        });
      }
    }
  }
}

TEST_P(ConformanceRows, WindowKeys) {
  const auto expect_same = [&](Data& data, Kind kind, std::int64_t plain, std::int64_t pairs,
                               std::int64_t t) {
    const std::int64_t width = plain + 2 * pairs;
    const Angles angles(data, t, pairs);
    const Array<Bf16> kv = data.Bf16s(t * width, kind);
    const Array<Bf16> norm = data.Bf16s(width);
    ExpectSame(fmt::format("plain {} pairs {} t {}", plain, pairs, t), [&](Backend& backend) {
      Array<Bf16> out = kv;
      backend.WindowKeys(out.As(t, width), norm.all(), 1e-6f, angles.View());
      return ReadBytes(backend, out);
    });
  };
  for (const std::int64_t offset : {0, 1}) {
    Data data(5, offset);
    for (const Kind kind : kKinds) {
      for (const std::int64_t pairs : {0, 3, 16, 32}) {
        for (const std::int64_t plain : {0, 64, 448}) {
          for (const std::int64_t t : {0, 1, 5, 19}) expect_same(data, kind, plain, pairs, t);
        }
      }
    }
    // More groups and pairs than a block has groups and threads.
    expect_same(data, Kind::kNormal, 17 * 64, 270, 2);
  }
}

TEST_P(ConformanceRows, IndexQueries) {
  Data data(6);
  for (const Kind kind : kKinds) {
    for (const std::int64_t heads : {1, 3, 16}) {
      for (const std::int64_t t : {0, 1, 2, 9}) {
        const Angles angles(data, t, t == 2 ? 7 : 32);
        const Array<Bf16> q = data.Bf16s(t * heads * kIndexDim, kind);
        ExpectSame(fmt::format("heads {} t {}", heads, t), [&](Backend& backend) {
          Array<std::uint8_t> out(t * heads * kPackedIndexBytes);
          backend.IndexQueries(q.As(t, heads * kIndexDim), angles.View(),
                               out.As(t, heads * kPackedIndexBytes));
          return ReadBytes(backend, out);
        });
      }
    }
  }
}

TEST_P(ConformanceRows, Route) {
  Data data(7);
  const auto expect_same = [&](const Array<float>& logits, const Array<float>& bias,
                               std::int64_t n_experts, std::int64_t t, std::int64_t k) {
    ExpectSame(fmt::format("experts {} t {} k {}", n_experts, t, k), [&](Backend& backend) {
      Array<std::int32_t> ids(t * k);
      Array<float> weights(t * k);
      backend.Route(logits.As(t, n_experts), bias.all(), 1.5f, {ids.As(t, k), weights.As(t, k)});
      return ReadBytes(backend, ids, weights);
    });
  };
  for (const Kind kind : {Kind::kNormal, Kind::kMixed, Kind::kLarge}) {
    for (const std::int64_t n_experts : {6, 8, 33, 384}) {
      for (const std::int64_t t : kRowCounts) {
        Array<float> logits = data.Floats(t * n_experts, kind);
        const Array<float> bias = data.Floats(n_experts);
        for (std::int64_t i = 0; i < t * n_experts; i += 3) {
          logits.data()[i] = 1.0f;  // ties
        }
        expect_same(logits, bias, n_experts, t, 6);
      }
    }
  }
  // Scores of NaN and -infinity are equal, and worse than others.
  for (const std::int64_t k : {1, 8, 40, 64}) {
    const Array<float> logits = data.Floats(3 * 64);
    Array<float> bias = data.Floats(64);
    for (std::int64_t i = 0; i < 64; i += 2) {
      bias.data()[i] = i % 3 == 0 ? std::numeric_limits<float>::quiet_NaN()
                                  : -std::numeric_limits<float>::infinity();
    }
    expect_same(logits, bias, 64, 3, k);
  }
}

TEST_P(ConformanceRows, CombineExperts) {
  Data data(8);
  for (const Kind kind : kKinds) {
    for (const std::int64_t d : {1, 17, 256}) {
      for (const std::int64_t k : {1, 2, 6}) {
        for (const std::int64_t t : {0, 1, 5, 33}) {
          const Array<Bf16> rows = data.Bf16s(t * k * d, kind);
          const Array<Bf16> shared = data.Bf16s(t * d, kind);
          ExpectSame(fmt::format("d {} k {} t {}", d, k, t), [&](Backend& backend) {
            Array<Bf16> out(t * d);
            Array<Bf16> in_place = shared;
            backend.CombineExperts(rows.As(t * k, d), shared.As(t, d), out.As(t, d));
            backend.CombineExperts(rows.As(t * k, d), in_place.As(t, d), in_place.As(t, d));
            return ReadBytes(backend, out, in_place);
          });
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ConformanceRows, ::testing::ValuesIn(Subjects()), SubjectName);

}  // namespace
}  // namespace fathom::kernels::conformance
