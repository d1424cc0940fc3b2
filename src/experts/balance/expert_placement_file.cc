#include "experts/balance/expert_placement_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "checkpoint/config_fields.h"

namespace fathom::experts {
namespace {

constexpr std::string_view kFormat = "fathom experts 1";

void RequireText(ConfigFields& fields, std::string_view name, std::string_view expected) {
  if (fields.Text(name) != expected) {
    fields.AddProblem(name, fmt::format("'{}'", expected), fields.Describe(name));
  }
}

Status FirstProblem(const ConfigFields& fields, std::string_view file) {
  if (fields.problems().empty()) return {};
  return MakeError(ErrorCode::kInvalidData, "{}: {}", file, fields.problems().front().message);
}

}  // namespace

std::string PlacementText(const BlockPlacements& placements, const PlacementOwner& owner) {
  std::string text = fmt::format(
      "{{\"format\": \"{}\", \"model\": \"{}\",\n \"routed_experts\": {}, \"physical_experts\": "
      "{}, "
      "\"expert_ranks\": {}, \"blocks\": {},\n \"placement\": {{",
      kFormat, owner.model, owner.counts.n_logical, owner.counts.n_physical, owner.counts.n_ranks,
      owner.n_blocks);
  for (std::size_t block = 0; block < placements.size(); ++block) {
    text += fmt::format("{}\n  \"{}\": [{}]", block == 0 ? "" : ",", block,
                        fmt::join(placements[block], ", "));
  }
  return text + "}}\n";
}

Result<BlockPlacements> ParsePlacement(std::string_view text, std::string_view file,
                                       const PlacementOwner& owner) {
  Result<ConfigFields> parsed = ConfigFields::Parse(text, file);
  if (!parsed) return Unexpected(parsed.error());
  ConfigFields& fields = *parsed;
  const auto require = [&](std::string_view name, std::int64_t value) {
    fields.Integer(name, {value, value});
  };
  RequireText(fields, "format", kFormat);
  RequireText(fields, "model", owner.model);
  require("routed_experts", owner.counts.n_logical);
  require("physical_experts", owner.counts.n_physical);
  require("expert_ranks", owner.counts.n_ranks);
  require("blocks", owner.n_blocks);
  if (Status status = FirstProblem(fields, file); !status) return Unexpected(status.error());
  BlockPlacements placements;
  for (std::int64_t block = 0; block < owner.n_blocks; ++block) {
    const std::vector<std::int64_t> row =
        fields.Integers(fmt::format("placement.{}", block), {0, owner.counts.n_logical - 1},
                        owner.counts.n_physical);
    placements.emplace_back(row.begin(), row.end());
  }
  if (Status status = FirstProblem(fields, file); !status) return Unexpected(status.error());
  if (Status status = CheckPlacements(placements, owner.n_blocks, owner.counts); !status) {
    return MakeError(status.error().code, "{}: {}", file, status.error().message);
  }
  return placements;
}

}  // namespace fathom::experts
