#include "fuzz/plan_file_check.h"

#include <cmath>

#include "measure/plan/expert_load.h"
#include "measure/plan/hardware.h"

namespace fathom::fuzz {
namespace {

std::string WrongError(const Error& error) {
  if (!error.message.starts_with("file: ")) return "an error that does not name the file";
  return error.code == ErrorCode::kInvalidData ? "" : "an error that is not of the data";
}

std::string WrongLink(const plan::Link& link) {
  const bool is_used = link.bytes_per_second > 0;
  return std::isfinite(link.bytes_per_second) && link.latency >= 0 && link.per_message >= 0 &&
                 (is_used || link.latency == 0)
             ? ""
             : "a link without a speed";
}

std::string CheckHardware(std::string_view input) {
  const Result<plan::Hardware> hardware = plan::ParseHardware(input, "file");
  if (!hardware) return WrongError(hardware.error());
  const plan::Device& device = hardware->device;
  if (hardware->n_nodes < 1 || hardware->devices_per_node < 1) return "no devices";
  if (!(device.memory_bytes > 0) || device.reserved_bytes > device.memory_bytes) {
    return "memory that is not there";
  }
  if (!(device.bytes_per_second > 0) || !(device.fp4_flops > 0) || !(device.fp8_flops > 0) ||
      !(device.bf16_flops > 0)) {
    return "a device that does nothing";
  }
  if (hardware->devices_per_node > 1 && !(hardware->node.bytes_per_second > 0)) return "no links";
  if (hardware->n_nodes > 1 && !(hardware->network.bytes_per_second > 0)) return "no network";
  const std::string wrong = WrongLink(hardware->node);
  return wrong.empty() ? WrongLink(hardware->network) : wrong;
}

std::string CheckTrace(std::string_view input) {
  ModelConfig config;
  config.num_hidden_layers = 2;
  config.n_routed_experts = 4;
  config.num_experts_per_tok = 2;
  const Result<plan::ExpertLoad> load = plan::ParseExpertTrace(input, "file", config);
  if (!load) return WrongError(load.error());
  if (load->size() != 2) return "as many layers as the model has not";
  for (const std::vector<double>& layer : *load) {
    double sum = 0;
    for (const double share : layer) {
      if (!(share >= 0 && share <= 1)) return "an expert that is chosen twice";
      sum += share;
    }
    if (layer.size() != 4 || std::fabs(sum - 2) > 1e-9) return "shares that do not add up";
  }
  return "";
}

}  // namespace

std::string CheckPlanFile(std::string_view input) {
  const std::string wrong = CheckHardware(input);
  return wrong.empty() ? CheckTrace(input) : wrong;
}

}  // namespace fathom::fuzz
