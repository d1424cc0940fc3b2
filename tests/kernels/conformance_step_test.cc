// Steps bring inputs, copy, and find faults in data: every backend does as the reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels/rope.h"
#include "tests/kernels/conformance.h"

namespace fathom::kernels::conformance {
namespace {

class ConformanceStep : public Conformance {
 protected:
  // Compares the errors of `operations`, which are told once. What the operations use must live
  // longer than the call.
  void ExpectSameFault(const std::string& what,
                       const std::function<void(Backend& backend)>& operations) {
    ExpectSame(what, [&](Backend& backend) {
      operations(backend);
      const Status found = backend.Synchronize();
      EXPECT_FALSE(found) << what;
      EXPECT_TRUE(backend.Synchronize()) << what;
      const std::string message = found ? "" : found.error().message;
      const auto bytes = std::as_bytes(std::span(message));
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    });
  }
};

Batch SomeTokens(Data& data, std::int32_t n, std::int64_t vocabulary) {
  Batch batch;
  batch.Add(0, 1000, n);
  for (Token& token : batch.tokens) {
    token = static_cast<Token>(data.Integer(0, vocabulary - 1));
  }
  return batch;
}

TEST_P(ConformanceStep, Embed) {
  Data data(1);
  constexpr std::int64_t kVocabulary = 40;
  for (const std::int64_t d : {1, 17, 128}) {
    const Array<Bf16> table = data.Bf16s(kVocabulary * d);
    for (const std::int32_t t : {0, 1, 70}) {
      const Batch batch = SomeTokens(data, t, kVocabulary);
      for (const std::int64_t copies : {1, 4}) {
        ExpectSame(fmt::format("d {} t {} copies {}", d, t, copies), [&](Backend& backend) {
          Array<Bf16> out(t * copies * d);
          BeginStep(backend, batch);
          backend.Embed(batch.View(), table.As(kVocabulary, d), out.As(t, copies * d));
          return ReadBytes(backend, out);
        });
      }
    }
  }
}

TEST_P(ConformanceStep, FillRopeRows) {
  for (const std::int64_t pairs : {1, 7, 32}) {
    Array<float> frequencies(pairs);
    std::ranges::copy(RopeFrequencies(2 * pairs, 10000.0f, {}), frequencies.data());
    for (const std::int32_t first : {0, 4090, 1000000}) {
      Batch batch;
      batch.Add(0, first, 37);
      batch.Add(1, 5, 3);
      const std::int64_t t = batch.n();
      ExpectSame(fmt::format("pairs {} first {}", pairs, first), [&](Backend& backend) {
        Array<float> cos(t * pairs), sin(t * pairs);
        BeginStep(backend, batch);
        backend.FillRopeRows(batch.View(), frequencies.all(), cos.As(t, pairs), sin.As(t, pairs));
        return ReadBytes(backend, cos, sin);
      });
    }
  }
}

// Some rows of a batch.
TEST_P(ConformanceStep, FillRopeRowsOfSomeRows) {
  Batch batch;
  batch.Add(0, 100, 20);
  Array<float> frequencies(2);
  std::ranges::copy(RopeFrequencies(4, 10000.0f, {}), frequencies.data());
  ExpectSame("rows 7 to 11", [&](Backend& backend) {
    Array<float> cos(10), sin(10);
    BeginStep(backend, batch);
    backend.FillRopeRows(batch.View().Rows(7, 5), frequencies.all(), cos.As(5, 2), sin.As(5, 2));
    return ReadBytes(backend, cos, sin);
  });
}

TEST_P(ConformanceStep, RouteByToken) {
  Data data(2);
  constexpr std::int64_t kVocabulary = 50;
  constexpr std::int64_t kExperts = 33;
  constexpr std::int64_t kChosen = 6;
  Array<std::int64_t> table(kVocabulary * kChosen);
  for (std::int64_t& id : table.all()) {
    id = data.Integer(0, kExperts - 1);
  }
  for (const std::int32_t t : {0, 1, 5, 70}) {
    const Batch batch = SomeTokens(data, t, kVocabulary);
    const Array<float> logits = data.Floats(t * kExperts);
    ExpectSame(fmt::format("t {}", t), [&](Backend& backend) {
      Array<std::int32_t> ids(t * kChosen);
      Array<float> weights(t * kChosen);
      BeginStep(backend, batch);
      backend.RouteByToken(batch.View(), logits.As(t, kExperts), table.As(kVocabulary, kChosen),
                           1.5f, {ids.As(t, kChosen), weights.As(t, kChosen)});
      return ReadBytes(backend, ids, weights);
    });
  }
}

// Pieces of all sizes at all addresses, more than fit one list.
TEST_P(ConformanceStep, CopyPieces) {
  Data data(3);
  const Array<std::uint8_t> from = data.Bytes(200000, 0, 255);
  ExpectSame("pieces", [&](Backend& backend) {
    Array<std::uint8_t> to(200000);
    std::vector<PieceCopy> pieces;
    for (std::int64_t at = 0; at < 100000; at += 5) {
      pieces.push_back({to.data() + at, from.data() + 199990 - at, at % 5 + at % 4});
    }
    pieces.push_back({to.data() + 100000, from.data(), 99000});
    backend.CopyPieces(pieces);
    backend.CopyPieces({});
    return ReadBytes(backend, to);
  });
}

TEST_P(ConformanceStep, ChangesOfTables) {
  Array<std::int32_t> first(40000);
  std::iota(first.data(), first.data() + 40000, 7);
  const Batch batch;
  ExpectSame("changes", [&](Backend& backend) {
    Array<std::int32_t> table = first;
    std::vector<TableChange> changes;
    for (std::int32_t i = 0; i < 40000; i += 2) {
      changes.push_back({table.data() + i, i % 5 == 0 ? kNoBlock : 3 * i});
    }
    EXPECT_TRUE(backend.BeginStep(batch.View(), changes));
    return ReadBytes(backend, table);
  });
}

TEST_P(ConformanceStep, FaultsOfTokens) {
  Data data(4);
  const Array<Bf16> table = data.Bf16s(10 * 4);
  const Array<float> logits = data.Floats(6 * 8);
  Array<std::int64_t> experts(10 * 2);
  experts.data()[6] = 8;
  Array<Bf16> out(6 * 4);
  Array<std::int32_t> ids(6 * 2);
  Array<float> weights(6 * 2);
  Batch batch = SomeTokens(data, 6, 3);
  const auto embed = [&](Backend& backend) {
    BeginStep(backend, batch);
    backend.Embed(batch.View(), table.As(10, 4), out.As(6, 4));
  };
  const auto route = [&](Backend& backend) {
    BeginStep(backend, batch);
    backend.RouteByToken(batch.View(), logits.As(6, 8), experts.As(10, 2), 1.0f,
                         {ids.As(6, 2), weights.As(6, 2)});
  };
  batch.tokens[1] = 3;
  ExpectSameFault("an expert behind the last", route);
  batch.tokens[1] = 0;
  batch.tokens[4] = 10;
  ExpectSameFault("a token behind the vocabulary", embed);
  ExpectSameFault("a token behind the table", route);
  batch.tokens[2] = batch.tokens[5] = -1;
  ExpectSameFault("negative tokens", embed);
}

TEST_P(ConformanceStep, FaultsOfExperts) {
  Data data(5);
  constexpr std::int64_t kWidth = 128;
  const Array<Bf16> weight = data.Bf16s(kWidth * kWidth);
  const Weight w = {
      .data = reinterpret_cast<const std::byte*>(weight.data()), .n = kWidth, .k = kWidth};
  const std::vector<ExpertWeights> experts(3, {w, w, w});
  const Array<Bf16> x = data.Bf16s(4 * kWidth);
  Array<float> weights = data.Floats(4 * 2);
  Array<Bf16> rows(4 * 2 * kWidth);
  for (const std::int32_t unknown : {3, -2}) {
    Array<std::int32_t> ids(4 * 2);
    ids.data()[5] = unknown;
    ids.data()[6] = kRemoteExpert;
    ExpectSameFault(fmt::format("expert {}", unknown), [&](Backend& backend) {
      backend.ExpertRows(x.As(4, kWidth), {ids.As(4, 2), weights.As(4, 2)},
                         backend.BindExperts(1, experts), 10.0f, rows.As(8, kWidth));
    });
  }
}

// A cache of one sequence with room for 512 rows in two blocks, of which it has none or the second.
struct SparseCache {
  SparseCache(std::int64_t row_bytes, std::int32_t second_block)
      : memory(512 * row_bytes), table(2), bytes(row_bytes) {
    table.data()[0] = kNoBlock;
    table.data()[1] = second_block;
  }
  BlockRows Rows() {
    return {.data = memory.data(),
            .block_stride = 256 * bytes,
            .rows_per_block = 256,
            .row_bytes = bytes,
            .table = table.data(),
            .table_width = 2};
  }

  Array<std::uint8_t> memory;
  Array<std::int32_t> table;
  std::int64_t bytes;
};

TEST_P(ConformanceStep, FaultsOfKeys) {
  Data data(6);
  const KeyLayout layout = {.head_dim = 64, .rope_dims = 16};
  SparseCache window(KeyBytes(layout), kNoBlock);
  SparseCache compressed(KeyBytes(layout), kNoBlock);
  Batch batch;
  batch.Add(0, 9, 1);
  const Array<Bf16> q = data.Bf16s(2 * 64);
  const Array<Bf16> keys = data.Bf16s(64);
  const Array<float> sinks = data.Floats(2);
  const Angles angles(data, 1, 8);
  Array<std::int32_t> selected(1);
  Array<Bf16> out(2 * 64);
  LayerCache cache;
  cache.ratio = cache.compressor.ratio = 4;
  cache.window = {.rows = {window.Rows(), layout}};
  cache.compressor.rows = {compressed.Rows(), layout};
  const auto attend = [&](std::int64_t sliding_window) {
    return [&, sliding_window](Backend& backend) {
      BeginStep(backend, batch);
      backend.SparseAttention({.q = q.As(1, 128),
                               .keys = keys.As(1, 64),
                               .selected = selected.As(1, 1),
                               .sinks = sinks.all(),
                               .sliding_window = sliding_window,
                               .rope = angles.View()},
                              batch.View(), cache, out.As(1, 128));
    };
  };
  selected.all()[0] = -1;
  ExpectSameFault("keys of the window", attend(4));
  selected.all()[0] = 2;
  ExpectSameFault("a later row", attend(1));
  selected.all()[0] = 1;
  ExpectSameFault("a row that is not cached", attend(1));
}

TEST_P(ConformanceStep, FaultOfABoundary) {
  Data data(7);
  constexpr std::int64_t kWidth = 128;
  constexpr std::int64_t kSlots = 8;
  SparseCache packed(kPackedIndexBytes, 0);
  packed.table.data()[0] = 1;
  SparseCache boundary(2 * kWidth * 4, kNoBlock);
  Batch batch;
  batch.Add(0, 128, 6);
  const std::int64_t inputs = 2 * kWidth;
  const Array<float> values = data.Floats(6 * inputs);
  const Array<float> ape = data.Floats(4 * inputs);
  const Array<Bf16> norm = data.Bf16s(kWidth);
  Array<float> frequencies(2);
  Array<float> scores(6 * inputs);
  Array<float> tail_values(kSlots * inputs), tail_scores(kSlots * inputs);
  CompressorCache cache = {.ratio = 4,
                           .packed_rows = packed.Rows(),
                           .tail_values = tail_values.As(kSlots, inputs),
                           .tail_scores = tail_scores.As(kSlots, inputs),
                           .tail_slots = kSlots,
                           .boundary_rows = boundary.Rows()};
  ExpectSameFault("the end of the block before", [&](Backend& backend) {
    BeginStep(backend, batch);
    backend.Compress({.values = values.As(6, inputs),
                      .scores = scores.As(6, inputs),
                      .ape = ape.data(),
                      .norm = norm.all(),
                      .norm_eps = 1e-6f,
                      .frequencies = frequencies.all()},
                     batch.View(), cache);
  });
}

TEST_P(ConformanceStep, ChooseTokens) {
  Data data(8);
  constexpr std::int64_t kVocabulary = 1003;
  const std::vector<Token> excluded = {3, 700, 3};
  const std::vector<TokenBias> biases = {{5, 2.5f}, {6, -100.0f}};
  const std::vector<TokenCount> counts = {{7, 0}, {8, 3}};
  for (const bool changes : {false, true}) {
    for (const double top_p : {1.0, 0.8}) {
      SCOPED_TRACE(fmt::format("changes {} top_p {}", changes, top_p));
      Array<float> logits = data.Floats(8 * kVocabulary);
      logits.data()[2 * kVocabulary + 40] = std::numeric_limits<float>::quiet_NaN();
      std::vector<SamplingRow> rows;
      for (std::uint32_t i = 0; i < 8; ++i) {
        SamplingRow& row = rows.emplace_back();
        row.rule = {.seed = 5 + i,
                    .position = 100 * i,
                    .top_p = top_p,
                    .top_k = i == 3 ? 20 : 0,
                    .temperature = 0.7f,
                    .repetition = 1.3f,
                    .presence = 0.5f,
                    .is_greedy = i == 0,
                    .truncates = top_p < 1 || i == 3,
                    .changes_logits = changes};
        if (changes) {
          row.excluded = excluded;
          row.biases = biases;
          row.counts = counts;
        }
      }
      ExpectSame("choices", [&](Backend& backend) {
        std::vector<TokenChoice> choices(rows.size());
        backend.ChooseTokens(logits.As(8, kVocabulary), rows, choices);
        EXPECT_TRUE(backend.Synchronize());
        std::vector<std::byte> bytes;
        for (const TokenChoice& choice : choices) {
          for (const std::int32_t number :
               {static_cast<std::int32_t>(choice.outcome), choice.token}) {
            const auto some = std::as_bytes(std::span(&number, 1));
            bytes.insert(bytes.end(), some.begin(), some.end());
          }
        }
        return bytes;
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ConformanceStep, ::testing::ValuesIn(Subjects()), SubjectName);

}  // namespace
}  // namespace fathom::kernels::conformance
