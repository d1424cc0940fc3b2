// Products of every weight format: every backend gives the bits of the reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/kernels/conformance.h"

namespace fathom::kernels::conformance {
namespace {

constexpr std::int64_t kRows[] = {0, 1, 2, 3, 5, 8, 9, 16, 17, 33};

// A weight of any format with the memory it points into.
struct OwnedWeight {
  Weight view;
  Array<std::uint8_t> bytes{0};
  Array<std::uint8_t> scale_bytes{0};
  Array<Bf16> bf16{0};
  Array<float> floats{0};
  Array<float> scale_floats{0};
};

struct Shape {
  std::int64_t n = 0;
  std::int64_t k = 0;
};

OwnedWeight MakeWeight(Data& data, WeightFormat format, ScaleFormat scale_format, Shape shape,
                       Kind kind) {
  OwnedWeight w;
  w.view = {.format = format, .scale_format = scale_format, .n = shape.n, .k = shape.k};
  const std::int64_t blocks = (shape.n + kFp8Block - 1) / kFp8Block * (shape.k / kFp8Block);
  // Byte 0 (zero, or 2^-127) and 254 are legal scales.
  const int first_scale = kind == Kind::kTiny ? 0 : kind == Kind::kMixed ? 60 : 118;
  // Scales of real weights are below 1; some ways of summing need that.
  const int last_scale = kind == Kind::kTiny     ? 40
                         : kind == Kind::kLarge  ? 200
                         : kind == Kind::kNormal ? 127
                                                 : 130;
  switch (format) {
    case WeightFormat::kF32:
      w.floats = data.Floats(shape.n * shape.k, kind);
      w.view.data = reinterpret_cast<const std::byte*>(w.floats.data());
      break;
    case WeightFormat::kBf16:
      w.bf16 = data.Bf16s(shape.n * shape.k, kind);
      w.view.data = reinterpret_cast<const std::byte*>(w.bf16.data());
      break;
    case WeightFormat::kFp8:
      w.bytes = data.Fp8(shape.n * shape.k);
      w.view.data = reinterpret_cast<const std::byte*>(w.bytes.data());
      w.scale_bytes = data.Bytes(blocks, first_scale, last_scale);
      w.scale_floats = data.Floats(blocks, kind);
      w.view.scales = scale_format == ScaleFormat::kE8m0
                          ? reinterpret_cast<const std::byte*>(w.scale_bytes.data())
                          : reinterpret_cast<const std::byte*>(w.scale_floats.data());
      break;
    case WeightFormat::kFp4:
      w.bytes = data.Bytes(shape.n * shape.k / 2, 0, 255);
      w.view.data = reinterpret_cast<const std::byte*>(w.bytes.data());
      w.scale_bytes = data.Bytes(shape.n * shape.k / kFp4Block, first_scale, last_scale);
      w.view.scales = reinterpret_cast<const std::byte*>(w.scale_bytes.data());
      break;
  }
  return w;
}

class ConformanceLinear : public Conformance {
 protected:
  void Compare(Data& data, const Weight& w, std::int64_t t, Kind kind) {
    const Array<Bf16> x = data.Bf16s(t * w.k, kind);
    ExpectSame(fmt::format("format {} n {} k {} parts {} t {} kind {}", static_cast<int>(w.format),
                           w.n, w.k, w.k_parts, t, static_cast<int>(kind)),
               [&](Backend& backend) {
                 Array<Bf16> rounded(t * w.n);
                 Array<float> exact(t * w.n);
                 backend.Linear(x.As(t, w.k), w, rounded.As(t, w.n));
                 backend.Linear(x.As(t, w.k), w, exact.As(t, w.n));
                 return ReadBytes(backend, rounded, exact);
               });
  }

  void CompareFormat(WeightFormat format, ScaleFormat scale_format,
                     std::span<const std::int64_t> widths) {
    Data data(17);
    for (const Kind kind : kKinds) {
      for (const std::int64_t k : widths) {
        for (const std::int64_t n : {1, 7, 131}) {
          const OwnedWeight w = MakeWeight(data, format, scale_format, {.n = n, .k = k}, kind);
          for (const std::int64_t t : kRows) {
            if (n < 100 || t < 6) {
              Compare(data, w.view, t, kind);
            }
          }
        }
      }
    }
  }
};

constexpr std::int64_t kPlainWidths[] = {1, 5, 31, 32, 33, 100, 128, 129, 300, 512};
constexpr std::int64_t kQuantizedWidths[] = {128, 256, 640};

TEST_P(ConformanceLinear, F32) {
  CompareFormat(WeightFormat::kF32, ScaleFormat::kE8m0, kPlainWidths);
}
TEST_P(ConformanceLinear, Bf16) {
  CompareFormat(WeightFormat::kBf16, ScaleFormat::kE8m0, kPlainWidths);
}
TEST_P(ConformanceLinear, Fp8) {
  CompareFormat(WeightFormat::kFp8, ScaleFormat::kE8m0, kQuantizedWidths);
}
TEST_P(ConformanceLinear, Fp8WithFloatScales) {
  CompareFormat(WeightFormat::kFp8, ScaleFormat::kF32, kQuantizedWidths);
}
TEST_P(ConformanceLinear, Fp4) {
  CompareFormat(WeightFormat::kFp4, ScaleFormat::kE8m0, kQuantizedWidths);
}

// More rows than a tile, columns for all threads.
TEST_P(ConformanceLinear, ManyRows) {
  Data data(3);
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kFp8, WeightFormat::kFp4}) {
    const OwnedWeight w =
        MakeWeight(data, format, ScaleFormat::kE8m0, {.n = 19, .k = 256}, Kind::kNormal);
    Compare(data, w.view, 299, Kind::kNormal);
  }
}

// Codes that are read 16 or 8 bytes at a time; each number of rows for which there may be a kernel,
// and blocks of all sizes.
TEST_P(ConformanceLinear, AlignedCodes) {
  constexpr std::pair<WeightFormat, ScaleFormat> kFormats[] = {
      {WeightFormat::kFp8, ScaleFormat::kE8m0},
      {WeightFormat::kFp8, ScaleFormat::kF32},
      {WeightFormat::kFp4, ScaleFormat::kE8m0}};
  for (const std::int64_t offset : {0, 8}) {
    Data data(8, offset);
    for (const auto& [format, scale_format] : kFormats) {
      for (const Kind kind : kKinds) {
        for (const std::int64_t n : {5, 30, 50, 300}) {
          OwnedWeight w = MakeWeight(data, format, scale_format, {.n = n, .k = 640}, kind);
          for (const std::int64_t t : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 64, 129}) {
            if (n * t <= 600) Compare(data, w.view, t, kind);
          }
        }
      }
    }
  }
  Data data(9, 0);
  for (const auto& [format, scale_format] : kFormats) {
    OwnedWeight w = MakeWeight(data, format, scale_format, {.n = 40, .k = 2048}, Kind::kNormal);
    for (const int parts : {1, 2, 4, 8}) {
      w.view.k_parts = parts;
      for (const std::int64_t t : {1, 3, 8}) {
        Compare(data, w.view, t, Kind::kNormal);
      }
    }
  }
}

// Several tiles, several blocks of shared scales, more than one range of k, and scales with and
// without room for those of the activations.
TEST_P(ConformanceLinear, ManyRowsAndScales) {
  Data data(6);
  for (const Kind kind : kKinds) {
    OwnedWeight w =
        MakeWeight(data, WeightFormat::kFp8, ScaleFormat::kE8m0, {.n = 300, .k = 1152}, kind);
    for (const std::int64_t t : {11, 14, 67}) {
      Compare(data, w.view, t, kind);
    }
  }
}

// More rows than Reserve announced: with several streams a token has several.
TEST_P(ConformanceLinear, MoreRowsThanTokens) {
  Data data(9);
  for (const WeightFormat format : {WeightFormat::kFp8, WeightFormat::kFp4}) {
    const OwnedWeight w =
        MakeWeight(data, format, ScaleFormat::kE8m0, {.n = 3, .k = 256}, Kind::kNormal);
    Compare(data, w.view, 2500, Kind::kNormal);
  }
}

TEST_P(ConformanceLinear, ManyColumns) {
  Data data(4);
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kFp8, WeightFormat::kFp4}) {
    const OwnedWeight w =
        MakeWeight(data, format, ScaleFormat::kE8m0, {.n = 1001, .k = 512}, Kind::kNormal);
    Compare(data, w.view, 1, Kind::kNormal);
  }
}

// Rows around the longest for which the loops for one row of activations have room.
TEST_P(ConformanceLinear, LongRows) {
  Data data(21);
  for (const WeightFormat format : {WeightFormat::kFp8, WeightFormat::kFp4}) {
    for (const std::int64_t blocks : {128, 129}) {
      const OwnedWeight w =
          MakeWeight(data, format, ScaleFormat::kE8m0, {.n = 9, .k = 128 * blocks}, Kind::kNormal);
      Compare(data, w.view, 1, Kind::kNormal);
    }
  }
}

TEST_P(ConformanceLinear, PartsOfK) {
  Data data(5);
  for (const WeightFormat format :
       {WeightFormat::kF32, WeightFormat::kBf16, WeightFormat::kFp8, WeightFormat::kFp4}) {
    OwnedWeight w =
        MakeWeight(data, format, ScaleFormat::kE8m0, {.n = 9, .k = 1024}, Kind::kNormal);
    for (const int parts : {2, 4, 8}) {
      w.view.k_parts = parts;
      for (const std::int64_t t : {1, 3, 18}) {
        Compare(data, w.view, t, Kind::kNormal);
      }
    }
  }
}

// The product of a larger group is not defined.
constexpr std::uint8_t kLargestGroupedScale = 127 + 63;

TEST_P(ConformanceLinear, Grouped) {
  Data data(6);
  struct Case {
    WeightFormat format;
    ScaleFormat scale_format;
    std::int64_t groups;
    std::int64_t group_rows;
    std::int64_t k;
  };
  const Case cases[] = {{WeightFormat::kF32, ScaleFormat::kE8m0, 2, 9, 128},
                        {WeightFormat::kBf16, ScaleFormat::kE8m0, 2, 33, 100},
                        {WeightFormat::kBf16, ScaleFormat::kE8m0, 17, 5, 128},
                        {WeightFormat::kBf16, ScaleFormat::kE8m0, 3, 70, 256},
                        {WeightFormat::kFp8, ScaleFormat::kE8m0, 3, 70, 256},
                        {WeightFormat::kFp8, ScaleFormat::kE8m0, 17, 5, 128},
                        {WeightFormat::kFp8, ScaleFormat::kE8m0, 2, 150, 640},
                        {WeightFormat::kFp8, ScaleFormat::kF32, 3, 70, 256},
                        {WeightFormat::kFp8, ScaleFormat::kF32, 8, 20, 384}};
  for (const Case& c : cases) {
    for (const Kind kind : kKinds) {
      OwnedWeight w = MakeWeight(data, c.format, c.scale_format,
                                 {.n = c.groups * c.group_rows, .k = c.k}, kind);
      for (std::uint8_t& scale : w.scale_bytes.all()) {
        scale = std::min(scale, kLargestGroupedScale);
      }
      for (const std::int64_t t : {0, 1, 2, 3, 5, 8, 21, 70}) {
        const Array<Bf16> x = data.Bf16s(t * c.groups * c.k, kind);
        ExpectSame(fmt::format("groups {} k {} t {}", c.groups, c.k, t), [&](Backend& backend) {
          Array<Bf16> out(t * w.view.n);
          backend.GroupedLinear(x.As(t, c.groups * c.k), w.view, c.groups, out.As(t, w.view.n));
          return ReadBytes(backend, out);
        });
      }
    }
  }
}

// Numbers around the smallest that counts (2^-50), alone in their block and not, of both signs,
// with weights of either sign of zero: all backends treat them alike.
TEST_P(ConformanceLinear, GroupedNearTheSmallestNumbers) {
  Data data(8);
  constexpr std::int64_t kWidth = 512;
  constexpr std::int64_t kGroupRows = 37;
  const auto near_smallest = [&](std::int64_t n) {
    Array<Bf16> numbers = data.Bf16s(n);
    for (Bf16& x : numbers.all()) {
      const auto exponent = static_cast<int>(data.Integer(-53, -48));
      const bool exact = data.Integer(0, 3) == 0;
      x = ToBf16(std::ldexp(exact ? std::copysign(1.0f, ToFloat(x)) : ToFloat(x), exponent));
    }
    return numbers;
  };
  for (const ScaleFormat scale_format : {ScaleFormat::kE8m0, ScaleFormat::kF32}) {
    for (const WeightFormat format : {WeightFormat::kFp8, WeightFormat::kBf16}) {
      for (const Kind kind : {Kind::kNormal, Kind::kTiny}) {
        OwnedWeight w =
            MakeWeight(data, format, scale_format, {.n = 2 * kGroupRows, .k = kWidth}, kind);
        if (format == WeightFormat::kBf16) {
          w.bf16 = near_smallest(2 * kGroupRows * kWidth);
          w.view.data = reinterpret_cast<const std::byte*>(w.bf16.data());
        }
        for (const int parts : {1, 4}) {
          w.view.k_parts = parts;
          for (const std::int64_t t : {1, 4, 13}) {
            const Array<Bf16> x = near_smallest(t * 2 * kWidth);
            ExpectSame(fmt::format("format {} parts {} t {}", static_cast<int>(format), parts, t),
                       [&](Backend& backend) {
                         Array<Bf16> out(t * w.view.n);
                         backend.GroupedLinear(x.As(t, 2 * kWidth), w.view, 2, out.As(t, w.view.n));
                         return ReadBytes(backend, out);
                       });
          }
        }
      }
    }
  }
}

// One expert twice in a row, experts without tokens, all tokens at one expert, remote experts.
TEST_P(ConformanceLinear, Experts) {
  Data data(7);
  constexpr std::int64_t kHidden = 256;
  constexpr std::int64_t kWidth = 384;
  constexpr std::int64_t kExperts = 5;
  for (const WeightFormat format : {WeightFormat::kFp4, WeightFormat::kFp8, WeightFormat::kBf16}) {
    std::vector<OwnedWeight> owned;
    std::vector<ExpertWeights> experts;
    for (std::int64_t e = 0; e < kExperts; ++e) {
      const Shape in = {.n = kWidth, .k = kHidden};
      const Shape out = {.n = kHidden, .k = kWidth};
      for (const Shape& shape : {in, out, in}) {
        owned.push_back(MakeWeight(data, format, ScaleFormat::kE8m0, shape, Kind::kNormal));
      }
    }
    for (std::int64_t e = 0; e < kExperts; ++e) {
      const auto i = static_cast<std::size_t>(3 * e);
      experts.push_back({owned[i].view, owned[i + 1].view, owned[i + 2].view});
    }
    for (const std::int64_t t : {0, 1, 2, 17, 70}) {
      constexpr std::int64_t kChosen = 3;
      const Array<Bf16> x = data.Bf16s(t * kHidden);
      Array<std::int32_t> ids(t * kChosen);
      for (std::int32_t& id : ids.all()) {
        id = static_cast<std::int32_t>(
            t == 2 ? 1 : data.Integer(t == 70 ? kRemoteExpert : 0, kExperts - 1));
      }
      Array<float> weights = data.Floats(t * kChosen);
      const Routing routing = {ids.As(t, kChosen), weights.As(t, kChosen)};
      ExpectSame(fmt::format("experts of format {} t {}", static_cast<int>(format), t),
                 [&](Backend& backend) {
                   Array<Bf16> rows(t * kChosen * kHidden);
                   std::fill(rows.all().begin(), rows.all().end(), ToBf16(7.0f));
                   backend.ExpertRows(x.As(t, kHidden), routing, backend.BindExperts(0, experts),
                                      10.0f, rows.As(t * kChosen, kHidden));
                   return ReadBytes(backend, rows);
                 });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ConformanceLinear, ::testing::ValuesIn(Subjects()), SubjectName);

// Products that matrix units compute: only processors, since emulated GPUs are slow.
class ConformanceTiles : public ConformanceLinear {};

// Whole tiles of 16 rows of weights and what is left of them, tiles of tokens that do not fill up,
// several groups of tokens, parts of k.
TEST_P(ConformanceTiles, Shapes) {
  Data data(11);
  struct Case {
    Shape shape;
    int parts;
    std::vector<std::int64_t> rows;
  };
  const Case cases[] = {{{.n = 16, .k = 128}, 1, {7, 9, 15, 16, 17, 31, 32, 33, 48, 64, 65}},
                        {{.n = 83, .k = 640}, 1, {9, 16, 40, 100}},
                        {{.n = 144, .k = 256}, 1, {12, 70}},
                        {{.n = 48, .k = 1024}, 2, {13, 35}},
                        {{.n = 48, .k = 1024}, 8, {13, 35}},
                        {{.n = 32, .k = 16384}, 8, {10, 35}},
                        {{.n = 32, .k = 40960}, 1, {17}}};
  for (const WeightFormat format : {WeightFormat::kFp8, WeightFormat::kFp4}) {
    for (const Case& c : cases) {
      OwnedWeight w = MakeWeight(data, format, ScaleFormat::kE8m0, c.shape, Kind::kNormal);
      w.view.k_parts = c.parts;
      for (const std::int64_t t : c.rows) {
        Compare(data, w.view, t, Kind::kNormal);
      }
    }
  }
}

// Scales at the ends of the ranges in which tiles and scaled weights are exact, and just outside;
// activations of any size.
TEST_P(ConformanceTiles, Scales) {
  Data data(12);
  constexpr std::pair<int, int> kRanges[] = {{67, 157}, {66, 157}, {67, 158}, {67, 67},  {157, 157},
                                             {67, 127}, {66, 127}, {67, 128}, {127, 127}};
  for (const WeightFormat format : {WeightFormat::kFp8, WeightFormat::kFp4}) {
    for (const auto& [first, last] : kRanges) {
      OwnedWeight w =
          MakeWeight(data, format, ScaleFormat::kE8m0, {.n = 48, .k = 1024}, Kind::kNormal);
      for (std::uint8_t& scale : w.scale_bytes.all()) {
        scale = static_cast<std::uint8_t>(data.Integer(first, last));
      }
      w.scale_bytes.all().back() = static_cast<std::uint8_t>(last);
      w.scale_bytes.all().front() = static_cast<std::uint8_t>(first);
      for (const Kind kind : kKinds) {
        for (const std::int64_t t : {6, 9, 12, 40}) {
          Compare(data, w.view, t, kind);
        }
      }
    }
  }
}

// Numbers so far apart that FP4 products add parts of them apart, in any of a lane's columns and in
// several at once; some rows also hold a number that is NaN.
TEST_P(ConformanceTiles, NumbersFarApart) {
  Data data(14);
  const OwnedWeight w =
      MakeWeight(data, WeightFormat::kFp4, ScaleFormat::kE8m0, {.n = 21, .k = 512}, Kind::kNormal);
  for (const bool with_nan : {false, true}) {
    for (const std::int64_t t : {1, 3, 4, 5, 12, 70}) {
      Array<Bf16> x = data.Bf16s(t * w.view.k);
      for (Bf16& number : x.all()) {
        number = ToBf16(std::ldexp(ToFloat(number), 2 * static_cast<int>(data.Integer(-9, 0))));
      }
      if (with_nan) {
        x.all()[static_cast<std::size_t>(data.Integer(0, t * w.view.k - 1))] =
            ToBf16(std::nanf(""));
      }
      ExpectSame(fmt::format("t {} NaN {}", t, with_nan), [&](Backend& backend) {
        Array<float> out(t * w.view.n);
        backend.Linear(x.As(t, w.view.k), w.view, out.As(t, w.view.n));
        return ReadBytes(backend, out);
      });
    }
  }
}

std::vector<Subject> Processors() {
  std::vector<Subject> subjects = Subjects();
  std::erase_if(subjects, [](const Subject& subject) { return !subject.isa; });
  return subjects;
}

INSTANTIATE_TEST_SUITE_P(Backends, ConformanceTiles, ::testing::ValuesIn(Processors()),
                         SubjectName);

}  // namespace
}  // namespace fathom::kernels::conformance
