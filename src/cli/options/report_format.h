// Writes a report of a benchmark as text.
#pragma once

#include <string>

#include "cli/options/options.h"

namespace fathom::cli {

// Calls ToTable, ToJson or ToCsv from the namespace of the report.
template <class Report>
std::string Render(const Report& report, BenchFormat format) {
  switch (format) {
    case BenchFormat::kTable:
      return ToTable(report);
    case BenchFormat::kJson:
      return ToJson(report);
    case BenchFormat::kCsv:
      return ToCsv(report);
  }
  return {};
}

}  // namespace fathom::cli
