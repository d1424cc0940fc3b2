// Runs instructions of the matrix units of a device and compares them, bit by bit, with the model
// (tests/emulator/matrix_unit.h). One JSON object per line for every instruction. Exit code 1:
// the device cannot be used, and why; a mismatch is a result.
//
//   arithmetic_probe --device N [--cases N]
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "tests/emulator/matrix_unit.h"
#include "tests/gpu/arithmetic/arithmetic.h"
#include "tests/gpu/arithmetic/cases.h"
#include "tools/gpu_checks/probes/device.h"

namespace fathom::probe {

// The compiled kernels (tests/gpu/CMakeLists.txt).
std::span<const std::byte* const> ArithmeticFatbins();

namespace {

using emulator::MatrixFormat;
using emulator::MatrixNumber;
using emulator::MatrixUnit;
using emulator::MultiplyAdd;

// The sums that an instruction may be: the design's model first, others to tell what it is instead.
struct SumModel {
  std::string_view name;
  MatrixUnit unit;
};
constexpr MatrixUnit kOneSum = {"32 terms, 25 bits", 32, 25, 23};

struct Instruction {
  std::string_view name;
  const char* kernel;
  MatrixFormat format;
  std::vector<SumModel> models;
};

const std::vector<Instruction> kInstructions = {
    {"mma.sync f16",
     "MmaF16",
     MatrixFormat::kF16,
     {{"16 terms, 25 bits", emulator::kSm90Mma}, {"8 terms, 24 bits", emulator::kSm80Mma}}},
    {"mma.sync bf16",
     "MmaBf16",
     MatrixFormat::kBf16,
     {{"16 terms, 25 bits", emulator::kSm90Mma}, {"8 terms, 24 bits", emulator::kSm80Mma}}},
    {"mma.sync e4m3",
     "MmaE4m3",
     MatrixFormat::kE4m3,
     {{"16 terms, 25 bits", emulator::kSm90Mma}, {"32 terms, 25 bits", kOneSum}}},
    {"wgmma f16", "WgmmaF16", MatrixFormat::kF16, {{"16 terms, 25 bits", emulator::kSm90Mma}}},
    {"wgmma bf16", "WgmmaBf16", MatrixFormat::kBf16, {{"16 terms, 25 bits", emulator::kSm90Mma}}},
    {"wgmma e4m3",
     "WgmmaE4m3",
     MatrixFormat::kE4m3,
     {{"32 terms, 13 bits", emulator::kSm90WgmmaFp8}, {"32 terms, 25 bits", kOneSum}}}};

// Returns D of all cases.
Result<std::vector<float>> RunCases(ProbeDevice& device, const char* kernel, const Cases& cases) {
  Arguments arguments;
  const auto upload = [&](auto*& address, const auto& from) {
    using Pointer = std::remove_reference_t<decltype(address)>;
    const auto bytes = std::as_bytes(std::span(from));
    void* const memory = device.Allocate(std::ssize(bytes));
    device.Upload(memory, bytes);
    address = static_cast<Pointer>(memory);
  };
  std::vector<float> d(cases.c.size());
  upload(arguments.a, cases.a);
  upload(arguments.b, cases.b);
  upload(arguments.c, cases.c);
  upload(arguments.d, d);
  device.Launch(kernel, {.x = cases.n, .threads = kCaseThreads}, arguments);
  device.Download(std::as_writable_bytes(std::span(d)), arguments.d);
  device.FreeMemory();
  if (!device.status()) return Unexpected(device.status().error());
  return d;
}

// NaNs count as equal: their bits say nothing about sums.
bool SameBits(float x, float y) {
  return (x != x && y != y) || std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
}

// Calls visit(case, row, column) for every dot product.
void ForEachDot(std::int64_t n, const std::function<void(std::int64_t, int, int)>& visit) {
  for (std::int64_t i = 0; i < n; ++i) {
    for (int row = 0; row < kRows; ++row) {
      for (int column = 0; column < kColumns; ++column) visit(i, row, column);
    }
  }
}

// How many dot products of the device are those of a model, and the first that is not.
struct Comparison {
  std::int64_t n_equal = 0;
  std::string mismatch;
};
Comparison Compare(const Instruction& instruction, const MatrixUnit& unit, const Cases& cases,
                   const std::vector<float>& found) {
  Comparison result;
  std::vector<std::vector<MatrixNumber>> columns(kColumns);
  std::vector<MatrixNumber> row_numbers;
  ForEachDot(cases.n, [&](std::int64_t i, int row, int column) {
    if (row == 0)
      columns[static_cast<std::size_t>(column)] = cases.Column(instruction.format, i, column);
    if (column == 0) row_numbers = cases.Row(instruction.format, i, row);
    const auto at = static_cast<std::size_t>(SumAt(i, row, column));
    const float expected =
        MultiplyAdd(unit, row_numbers, columns[static_cast<std::size_t>(column)], cases.c[at]);
    if (SameBits(expected, found[at])) {
      ++result.n_equal;
    } else if (result.mismatch.empty()) {
      result.mismatch = fmt::format(
          "case {}, row {}, column {}: expected {} ({:08x}), found {} ({:08x}), from {}", i, row,
          column, expected, std::bit_cast<std::uint32_t>(expected), found[at],
          std::bit_cast<std::uint32_t>(found[at]), cases.c[at]);
    }
  });
  return result;
}

// How many dot products have the same bits elsewhere in the matrix.
std::int64_t CountMoved(std::int64_t n, const std::vector<float>& d,
                        const std::vector<float>& moved) {
  std::int64_t n_equal = 0;
  ForEachDot(n, [&](std::int64_t i, int row, int column) {
    const std::int64_t to = SumAt(i, (row + kRowMove) % kRows, (column + kColumnMove) % kColumns);
    n_equal += SameBits(d[static_cast<std::size_t>(SumAt(i, row, column))],
                        moved[static_cast<std::size_t>(to)])
                   ? 1
                   : 0;
  });
  return n_equal;
}

// How many of the first columns' dot products have the same bits with the operands exchanged.
std::int64_t CountSwapped(std::int64_t n, const std::vector<float>& d,
                          const std::vector<float>& swapped) {
  std::int64_t n_equal = 0;
  ForEachDot(n, [&](std::int64_t i, int row, int column) {
    if (row >= kColumns) return;
    n_equal += SameBits(d[static_cast<std::size_t>(SumAt(i, row, column))],
                        swapped[static_cast<std::size_t>(SumAt(i, column, row))])
                   ? 1
                   : 0;
  });
  return n_equal;
}

// A line about one instruction.
Result<std::string> Report(ProbeDevice& device, const Instruction& instruction,
                           std::int64_t n_cases) {
  const Cases cases = MakeCases(instruction.format, n_cases, 1);
  const Result<std::vector<float>> d = RunCases(device, instruction.kernel, cases);
  if (!d) return Unexpected(d.error());
  const Result<std::vector<float>> moved = RunCases(device, instruction.kernel, Moved(cases));
  if (!moved) return Unexpected(moved.error());
  const Result<std::vector<float>> swapped = RunCases(device, instruction.kernel, Swapped(cases));
  if (!swapped) return Unexpected(swapped.error());
  const std::int64_t n_dots = std::ssize(*d);
  const std::int64_t n_exchanged = n_cases * kColumns * kColumns;
  std::string models;
  std::string mismatch;
  for (const SumModel& model : instruction.models) {
    const Comparison compared = Compare(instruction, model.unit, cases, *d);
    models += fmt::format("{}\"{}\": {}", models.empty() ? "" : ", ", model.name, compared.n_equal);
    if (&model == &instruction.models.front()) mismatch = compared.mismatch;
  }
  const std::int64_t n_moved = CountMoved(n_cases, *d, *moved);
  const std::int64_t n_swapped = CountSwapped(n_cases, *d, *swapped);
  if (mismatch.empty() && n_moved != n_dots) mismatch = "bits depend on the place in the matrix";
  if (mismatch.empty() && n_swapped != n_exchanged) {
    mismatch = "bits depend on which operand is A";
  }
  return fmt::format(
      "{{\"name\": \"{}\", \"dots\": {}, \"equal\": {{{}}}, \"same_elsewhere\": {}, "
      "\"same_with_operands_exchanged\": {}, \"exchanged\": {}{}}}",
      instruction.name, n_dots, models, n_moved, n_swapped, n_exchanged,
      mismatch.empty() ? "" : fmt::format(", \"mismatch\": \"{}\"", mismatch));
}

Status Run(int number, std::int64_t n_cases) {
  ProbeDevice device;
  if (Status opened = device.Open(number, ArithmeticFatbins()); !opened) return opened;
  for (const Instruction& instruction : kInstructions) {
    if (device.FindKernel(instruction.kernel) == nullptr) continue;  // of sm_90a alone
    const Result<std::string> line = Report(device, instruction, n_cases);
    if (!line) return Unexpected(line.error());
    fmt::print("{}\n", *line);
    std::fflush(stdout);
  }
  return {};
}

// The number behind an option.
std::optional<int> Option(int argc, char** argv, std::string_view name) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (argv[i] == name) return std::atoi(argv[i + 1]);
  }
  return std::nullopt;
}

}  // namespace
}  // namespace fathom::probe

int main(int argc, char** argv) {
  using fathom::probe::Option;
  constexpr int kDefaultCases = 2048;  // a million dot products
  const fathom::Status ran =
      fathom::probe::Run(Option(argc, argv, "--device").value_or(0),
                         Option(argc, argv, "--cases").value_or(kDefaultCases));
  if (ran) return 0;
  fmt::print(stderr, "arithmetic_probe: {}\n", ran.error().message);
  return 1;
}
