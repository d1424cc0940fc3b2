// What a benchmark has measured, for people, programs and spreadsheets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/roofline.h"
#include "measure/bench/runner.h"

namespace fathom::benchmark {

struct Report {
  std::string model;  // its directory, without those above it
  double weight_gb = 0;
  std::string isa;
  int n_ranks = 1;
  int n_threads = 1;               // of each rank
  std::int64_t page_bytes = 4096;  // of what the read bandwidth was measured on
  std::int64_t chunk = 0;          // most tokens of a prefill step
  int n_repetitions = 0;
  Roofline roofline;       // the median of all measurements of this run; of all ranks together
  Roofline best_roofline;  // the best of them
  int n_rooflines = 0;
  std::vector<RowResult> rows;
};

// Bytes read per second as percentage of the measured bandwidth, operations as that of the
// multiply-add peak.
double PercentRead(const Report& report, const RowResult& row);
double PercentFma(const Report& report, const RowResult& row);

// A heading and one line per row, of at most 100 columns but for long names.
std::string ToTable(const Report& report);
// One object with a newline at the end: model, ranks, threads, isa, page_bytes, roofline
// {read_gb_s, fma_gflop_s}, ..., rows [{name, tok_s {min, median, max}, gb_s, gflop_s,
// percent_read, percent_fma, roofline, ...}].
std::string ToJson(const Report& report);
// One line of names, then one per row; what belongs to the run is repeated in each.
std::string ToCsv(const Report& report);

}  // namespace fathom::benchmark
