#include "tests/kernels/conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "kernels/gpu/gpu_backend.h"
#include "kernels/registry.h"
#include "tests/testing/chosen_gpu.h"

namespace fathom::kernels::conformance {

float Data::Number(Kind kind) {
  const float gauss = std::normal_distribution<float>()(random_);
  const auto pick = std::uniform_int_distribution<int>(0, 31)(random_);
  if (pick == 0) {
    return 0.0f;
  }
  if (pick == 1) {
    return -0.0f;
  }
  switch (kind) {
    case Kind::kNormal:
      return gauss;
    case Kind::kMixed:
      return std::ldexp(gauss, std::uniform_int_distribution<int>(-60, 60)(random_));
    case Kind::kTiny:
      return std::ldexp(gauss, std::uniform_int_distribution<int>(-134, -120)(random_));
    case Kind::kLarge:
      return (pick % 2 == 0 ? 1.0f : -1.0f) * std::ldexp(448.0f, pick / 8) *
             (pick % 8 < 6 ? 1.0f : 1.0f - 0.03125f * gauss);
  }
  return gauss;
}

std::int64_t Data::Integer(std::int64_t first, std::int64_t last) {
  return std::uniform_int_distribution<std::int64_t>(first, last)(random_);
}

Array<Bf16> Data::Bf16s(std::int64_t n, Kind kind) {
  Array<Bf16> numbers(n, offset_);
  for (Bf16& x : numbers.all()) {
    x = ToBf16(Number(kind));
  }
  return numbers;
}

Array<float> Data::Floats(std::int64_t n, Kind kind) {
  Array<float> numbers(n, offset_);
  for (float& x : numbers.all()) {
    x = Number(kind);
  }
  return numbers;
}

Array<std::uint8_t> Data::Fp8(std::int64_t n) {
  Array<std::uint8_t> codes = Bytes(n, 0, 255);
  for (std::uint8_t& code : codes.all()) {
    code = (code & 0x7F) == 0x7F ? static_cast<std::uint8_t>(code - 1) : code;
  }
  return codes;
}

Array<std::uint8_t> Data::Bytes(std::int64_t n, int first, int last) {
  Array<std::uint8_t> bytes(n, offset_);
  for (std::uint8_t& byte : bytes.all()) {
    byte = static_cast<std::uint8_t>(Integer(first, last));
  }
  return bytes;
}

std::vector<Subject> Subjects() {
  using emulator::Visiting;
  std::vector<Subject> subjects;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmx}) {
    subjects.push_back({.name = std::string(Name(isa)), .isa = isa});
  }
  const auto add_gpu = [&](const char* name, const EmulatorOptions& options) {
    subjects.push_back({.name = name, .isa = std::nullopt, .emulator = options});
  };
  add_gpu("gpu_32_ascending", {.wave_size = 32, .visiting = Visiting::kAscending});
  add_gpu("gpu_32_random",
          {.wave_size = 32, .visiting = Visiting::kRandom, .runs_when_awaited = true});
  add_gpu("gpu_64_descending", {.wave_size = 64, .visiting = Visiting::kDescending});
  add_gpu("gpu_64_random",
          {.wave_size = 64, .visiting = Visiting::kRandom, .runs_when_awaited = true});
  if (testing::ChosenGpu()) {
    subjects.push_back({.name = "device", .isa = std::nullopt, .on_device = true});
  }
  return subjects;
}

std::string SubjectName(const ::testing::TestParamInfo<Subject>& info) { return info.param.name; }

void PrintTo(const Subject& subject, std::ostream* out) { *out << subject.name; }

void Conformance::SetUp() {
  if (!GetParam().isa) {
    return AddGpu();
  }
  const std::vector<Isa> available = AvailableIsas();
  if (std::find(available.begin(), available.end(), *GetParam().isa) == available.end()) {
    GTEST_SKIP() << "this machine does not have " << GetParam().name;
  }
  for (const int n_threads : {1, 2, 3}) {
    ASSERT_NO_FATAL_FAILURE(AddBackend(n_threads));
  }
}

void Conformance::TearDown() {
  std::pmr::set_default_resource(nullptr);
  shared_pool_.reset();
  shared_bytes_.reset();
  shared_.reset();
}

void Conformance::AddBackend(int n_threads) {
  if (!GetParam().isa) return;
  Result<std::unique_ptr<Backend>> backend = MakeCpuBackend(GetParam().isa, n_threads);
  ASSERT_TRUE(backend) << backend.error().message;
  Add(*std::move(backend));
}

void Conformance::AddGpu() {
  constexpr std::size_t kSharedBytes = std::size_t{64} << 20;
  Result<std::unique_ptr<GpuDriver>> driver =
      GetParam().on_device ? testing::ShareChosenGpu() : MakeEmulatorDriver(GetParam().emulator);
  if (!driver) GTEST_SKIP() << driver.error().message;
  Result<std::unique_ptr<GpuBackend>> backend = GpuBackend::Make(*std::move(driver));
  ASSERT_TRUE(backend) << backend.error().message;
  shared_ = std::make_unique<testing::SharedMemoryResource>(**backend);
  shared_bytes_ =
      std::make_unique<std::pmr::monotonic_buffer_resource>(kSharedBytes, shared_.get());
  shared_pool_ = std::make_unique<std::pmr::unsynchronized_pool_resource>(shared_bytes_.get());
  if (std::getenv("FATHOM_TEST_SEPARATE") != nullptr) {
    std::pmr::set_default_resource(shared_.get());
  } else {
    std::pmr::set_default_resource(shared_pool_.get());
  }
  Add(*std::move(backend));
}

void Conformance::Add(std::unique_ptr<Backend> backend) {
  const Status reserved = backend->Reserve({.max_tokens = 300,
                                            .max_linear_inputs = kFp8Block * 129,
                                            .hidden = 1024,
                                            .head_dim = 512,
                                            .experts_per_token = 6,
                                            .n_experts = 384,
                                            .moe_intermediate = 512,
                                            .sliding_window = 128,
                                            .max_compressed_rows = 2048,
                                            .attention_heads = 130,
                                            .max_attended_rows = 2048,
                                            .max_logit_rows = 8,
                                            .vocabulary = 1003});
  ASSERT_TRUE(reserved) << reserved.error().message;
  backends_.push_back(std::move(backend));
}

void Conformance::ExpectSame(const std::string& what,
                             const std::function<std::vector<std::byte>(Backend&)>& compute) {
  const std::vector<std::byte> expected = compute(reference_);
  for (const std::unique_ptr<Backend>& backend : backends_) {
    const std::vector<std::byte> found = compute(*backend);
    ASSERT_EQ(found.size(), expected.size());
    const auto difference = std::mismatch(found.begin(), found.end(), expected.begin());
    ASSERT_TRUE(difference.first == found.end())
        << backend->Name() << ": " << what << ": first difference at byte "
        << difference.first - found.begin() << " of " << found.size();
  }
}

void Batch::Add(std::int32_t sequence, std::int32_t first_position, std::int32_t n_tokens) {
  const auto segment = static_cast<std::int32_t>(segments.size());
  segments.push_back({.sequence = sequence,
                      .first_row = static_cast<std::int32_t>(tokens.size()),
                      .n_tokens = n_tokens,
                      .first_position = first_position});
  for (std::int32_t i = 0; i < n_tokens; ++i) {
    tokens.push_back(first_position + i);
    positions.push_back(first_position + i);
    segment_of_row.push_back(segment);
  }
}

void BeginStep(Backend& backend, const Batch& batch) {
  EXPECT_TRUE(backend.BeginStep(batch.View(), {}));
}

Angles::Angles(Data& data, std::int64_t rows, std::int64_t pairs)
    : cos(rows * pairs), sin(rows * pairs), rows_(rows), pairs_(pairs) {
  for (std::int64_t i = 0; i < rows * pairs; ++i) {
    const float angle = data.Number(Kind::kNormal);
    cos.data()[i] = std::cos(angle);
    sin.data()[i] = std::sin(angle);
  }
}

}  // namespace fathom::kernels::conformance
