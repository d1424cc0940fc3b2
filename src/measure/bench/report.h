// Writes the measurements of a benchmark, for people, programs and spreadsheets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/roofline.h"
#include "measure/bench/runner.h"

namespace fathom::measure::bench {

struct Report {
  std::string model;  // name of its directory
  double weight_gb = 0;
  std::string isa;
  std::string device;  // the GPU that computes; empty: processors compute
  int n_ranks = 1;
  int n_threads = 1;               // threads of each rank
  std::int64_t page_bytes = 4096;  // page size of the measured read bandwidth; 0: a GPU's bandwidth
  std::int64_t chunk = 0;          // the most tokens in a prefill step
  int n_repetitions = 0;
  Roofline roofline;       // median of all measurements of this run, for all ranks together
  Roofline best_roofline;  // best measurement
  int n_rooflines = 0;
  std::vector<RowResult> rows;
};

// Writes a heading and one line per row, with at most 100 columns except for long names. The rows
// of a GPU are compared with its copy bandwidth, and their profiles follow.
std::string ToTable(const Report& report);
// Writes one object with a newline at the end: model, ranks, threads, isa, page_bytes, roofline
// {read_gb_s, fma_gflop_s}, ..., rows [{name, tok_s {min, median, max}, gb_s, gflop_s,
// percent_read, percent_fma, roofline, ...}]. For a GPU it adds device, roofline {copy_gb_s,
// launch_us, graph_launch_us if the driver makes graphs}, rows [{percent_copy, profile}], and omits
// page_bytes.
std::string ToJson(const Report& report);
// Writes one line of names, then one line per row; each repeats the values of the whole run.
std::string ToCsv(const Report& report);

// Draws an SVG file with one panel for decoding and one for prefill, where there are such rows:
// tokens per second over the tokens in the cache. Rows that differ only in depth are one line; a
// point is the median, with a bar from the slowest to the fastest repetition.
std::string ToSvg(const Report& report);

}  // namespace fathom::measure::bench
