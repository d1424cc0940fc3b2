#include "measure/bench/row_spec.h"

#include <algorithm>
#include <optional>

#include "base/parse_text.h"

namespace fathom::measure::bench {
namespace {

constexpr std::int64_t kMaxNumber = std::int64_t{1} << 40;  // two of them can be added

// Removes a number of 1 to kMaxNumber from the front of `text`.
std::optional<std::int64_t> TakeCount(std::string_view& text) {
  if (text.starts_with('0')) return std::nullopt;
  const std::optional<std::int64_t> number = TakeNumber<std::int64_t>(text);
  return number && *number >= 1 && *number <= kMaxNumber ? number : std::nullopt;
}

std::optional<RowSpec> Parse(std::string_view text) {
  RowSpec row;
  if (TakePrefix(text, "pp")) {
    row.kind = RowSpec::Kind::kPrefill;
  } else if (!TakePrefix(text, "tg")) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> n_tokens = TakeCount(text);
  const std::optional<std::int64_t> depth = TakePrefix(text, "@") ? TakeCount(text) : 0;
  const std::optional<std::int64_t> n_sequences = TakePrefix(text, "x") ? TakeCount(text) : 1;
  if (!n_tokens || !depth || !n_sequences || !text.empty() || *n_sequences > kMaxSequences ||
      (row.kind == RowSpec::Kind::kPrefill && *n_sequences != 1)) {
    return std::nullopt;
  }
  row.n_tokens = *n_tokens;
  row.depth = *depth;
  row.n_sequences = *n_sequences;
  return row;
}

}  // namespace

std::string Name(const RowSpec& row) {
  std::string name =
      fmt::format("{}{}", row.kind == RowSpec::Kind::kPrefill ? "pp" : "tg", row.n_tokens);
  if (row.depth > 0) {
    name += fmt::format("@{}", row.depth);
  }
  if (row.n_sequences > 1) {
    name += fmt::format("x{}", row.n_sequences);
  }
  return name;
}

Result<RowSpec> ParseRow(std::string_view name) {
  const std::optional<RowSpec> row = Parse(name);
  if (!row) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "row \"{}\": expected ppN, tgN, ppN@DEPTH, tgN@DEPTH, tgNxB or tgN@DEPTHxB "
                     "with whole numbers of at least 1 and B of at most {}",
                     name, kMaxSequences);
  }
  return *row;
}

Result<std::vector<RowSpec>> ParseRows(std::string_view names) {
  std::vector<RowSpec> rows;
  for (;;) {
    const std::size_t comma = names.find(',');
    const Result<RowSpec> row = ParseRow(names.substr(0, comma));
    if (!row) return Unexpected(row.error());
    if (std::find(rows.begin(), rows.end(), *row) != rows.end()) {
      return MakeError(ErrorCode::kInvalidArgument, "row \"{}\": expected once, found twice",
                       Name(*row));
    }
    rows.push_back(*row);
    if (comma == std::string_view::npos) return rows;
    names.remove_prefix(comma + 1);
  }
}

Status CheckRows(const std::vector<RowSpec>& rows, std::int64_t max_positions) {
  for (const RowSpec& row : rows) {
    if (row.n_positions() > max_positions) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "row \"{}\": expected at most {} positions, those of this model, found {}",
                       Name(row), max_positions, row.n_positions());
    }
  }
  return {};
}

std::vector<RowSpec> DefaultRows(std::int64_t max_positions) {
  using enum RowSpec::Kind;
  std::vector<RowSpec> rows = {
      {kPrefill, 512, 0, 1},   {kPrefill, 2048, 0, 1},   {kDecode, 128, 0, 1},
      {kDecode, 128, 4096, 1}, {kDecode, 128, 16384, 1}, {kDecode, 128, 65536, 1},
      {kDecode, 128, 0, 2},    {kDecode, 128, 0, 4},     {kDecode, 128, 0, 8}};
  std::erase_if(rows, [&](const RowSpec& row) { return row.n_positions() > max_positions; });
  if (rows.empty()) {
    rows.push_back({kDecode, 1, 0, 1});
  }
  return rows;
}

}  // namespace fathom::measure::bench
