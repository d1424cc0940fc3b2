// Shared by the conformance tests: backends to compare, and data. In its own namespace: the tests
// of the reference backend, in the same program, have helpers of the same names.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/isa.h"
#include "kernels/reference/reference_backend.h"
#include "tests/emulator/emulator_driver.h"
#include "tests/kernels/shared_memory_resource.h"

namespace fathom::kernels::conformance {

// n elements, `offset` elements beyond a multiple of 16 bytes: data that is aligned to its element
// and no more, or with offset 0 to vectors. In memory that the backends of the test reach: the
// fixture sets the default memory resource.
template <class T>
class Array {
 public:
  explicit Array(std::int64_t n, std::int64_t offset = 1)
      : chunks_(static_cast<std::size_t>(n + offset) * sizeof(T) / kChunk + 1),
        n_(n),
        offset_(offset) {}

  T* data() { return reinterpret_cast<T*>(chunks_.data()) + offset_; }
  const T* data() const { return reinterpret_cast<const T*>(chunks_.data()) + offset_; }
  std::span<T> all() { return {data(), static_cast<std::size_t>(n_)}; }
  std::span<const T> all() const { return {data(), static_cast<std::size_t>(n_)}; }
  Matrix<T> As(std::int64_t rows, std::int64_t cols) { return {data(), rows, cols}; }
  Matrix<const T> As(std::int64_t rows, std::int64_t cols) const { return {data(), rows, cols}; }

 private:
  static constexpr std::size_t kChunk = 16;
  struct alignas(kChunk) Chunk {
    std::byte bytes[kChunk];
  };
  std::pmr::vector<Chunk> chunks_;
  std::int64_t n_;
  std::int64_t offset_;
};

// The kinds of numbers that kernels get wrong.
enum class Kind {
  kNormal,  // Gaussian, with some exact zeros of both signs
  kMixed,   // magnitudes from 2^-60 to 2^60
  kTiny,    // around the smallest normal number, and subnormal ones
  kLarge,   // 448 and its neighbours, equal magnitudes: ties, saturation
};
inline constexpr Kind kKinds[] = {Kind::kNormal, Kind::kMixed, Kind::kTiny, Kind::kLarge};

// Random data; the same for the same seed. offset: of the arrays.
class Data {
 public:
  explicit Data(std::uint32_t seed, std::int64_t offset = 1) : random_(seed), offset_(offset) {}

  std::int64_t offset() const { return offset_; }

  float Number(Kind kind);
  std::int64_t Integer(std::int64_t first, std::int64_t last);
  Array<Bf16> Bf16s(std::int64_t n, Kind kind = Kind::kNormal);
  Array<float> Floats(std::int64_t n, Kind kind = Kind::kNormal);
  // E4M3 codes without NaN; bytes of any value.
  Array<std::uint8_t> Fp8(std::int64_t n);
  Array<std::uint8_t> Bytes(std::int64_t n, int first, int last);

 private:
  std::mt19937 random_;
  std::int64_t offset_;
};

// A backend that is compared with the reference.
struct Subject {
  std::string name;
  std::optional<Isa> isa;      // the CPU backend with this instruction set, on 1, 2 and 3 threads
  EmulatorOptions emulator{};  // without isa: the backend of GPUs on an emulated one
  bool on_device = false;      // or on the GPU that FATHOM_TEST_GPU names
};
// All of them: the instruction sets with kernels (the fixture skips those that the machine lacks),
// GPUs of both wave sizes in two orders each, one of them random, and the GPU of FATHOM_TEST_GPU if
// that is set (the fixture skips what cannot be opened).
std::vector<Subject> Subjects();
std::string SubjectName(const ::testing::TestParamInfo<Subject>& info);
void PrintTo(const Subject& subject, std::ostream* out);

// Compares the backends of a subject with the reference.
class Conformance : public ::testing::TestWithParam<Subject> {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Adds a backend of the CPU with n_threads threads to those that are compared, if the subject is
  // a CPU.
  void AddBackend(int n_threads);

  // Runs `compute` on every backend and expects the bytes that the reference returns. What compute
  // returns has been waited for: ReadBytes does it.
  void ExpectSame(const std::string& what,
                  const std::function<std::vector<std::byte>(Backend&)>& compute);

 private:
  void AddGpu();
  void Add(std::unique_ptr<Backend> backend);

  ReferenceBackend reference_;
  std::vector<std::unique_ptr<Backend>> backends_;
  // Memory that the host and the GPU reach, of which Array takes: pieces of a large allocation, or
  // with FATHOM_TEST_SEPARATE in the environment an allocation for each array, so that
  // compute-sanitizer sees an access beyond its end.
  std::unique_ptr<testing::SharedMemoryResource> shared_;
  std::unique_ptr<std::pmr::monotonic_buffer_resource> shared_bytes_;
  std::unique_ptr<std::pmr::unsynchronized_pool_resource> shared_pool_;
};

// Waits for the backend, and returns the bytes of one result after another.
template <class T>
void Append(std::vector<std::byte>& bytes, const Array<T>& result) {
  const auto more = std::as_bytes(result.all());
  bytes.insert(bytes.end(), more.begin(), more.end());
}
template <class... T>
std::vector<std::byte> ReadBytes(Backend& backend, const Array<T>&... results) {
  const Status ended = backend.Synchronize();
  EXPECT_TRUE(ended) << (ended ? "" : ended.error().message);
  std::vector<std::byte> bytes;
  (Append(bytes, results), ...);
  return bytes;
}

// A batch, and the arrays its view points into.
struct Batch {
  std::vector<Token> tokens;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> segment_of_row;
  std::vector<Segment> segments;

  // n_tokens tokens of `sequence` from `first_position`.
  void Add(std::int32_t sequence, std::int32_t first_position, std::int32_t n_tokens);
  BatchView View() const { return {tokens, positions, segment_of_row, segments}; }
  std::int64_t n() const { return static_cast<std::int64_t>(tokens.size()); }
};

// Begins the step of a batch, whose operations follow.
void BeginStep(Backend& backend, const Batch& batch);

// cos and sin of random angles: [rows, pairs].
struct Angles {
  Angles(Data& data, std::int64_t rows, std::int64_t pairs);
  RopeRows View() const { return {cos.As(rows_, pairs_), sin.As(rows_, pairs_)}; }

  Array<float> cos;
  Array<float> sin;

 private:
  std::int64_t rows_;
  std::int64_t pairs_;
};

}  // namespace fathom::kernels::conformance
