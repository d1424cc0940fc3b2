#include "measure/plan/hardware.h"

#include <optional>

#include "json/field_reader.h"
#include "json/json_value.h"

namespace fathom::measure::plan {
namespace {

constexpr double kMicro = 1e-6;
constexpr NumberRange kRate = {1e-6, 1e12};  // in units of 1e9 per second
constexpr NumberRange kTime = {0, 1e9};      // microseconds
constexpr IntegerRange kCount = {1, 4096};

// Reads the file from the top; keeps the first error.
class HardwareReader {
 public:
  Result<Hardware> Read(const JsonValue& file) {
    FieldReader reader(file, "",
                       {"name", "source", "nodes", "devices_per_node", "device", "efficiency",
                        "links", "step_us", "layer_us"});
    reader.ReadString("name", &hardware_.name);
    static_cast<void>(reader.Text("source"));  // a comment
    reader.ReadInteger("nodes", kCount, &hardware_.n_nodes);
    reader.ReadInteger("devices_per_node", kCount, &hardware_.devices_per_node);
    hardware_.step_seconds = Microseconds(reader, "step_us");
    hardware_.layer_seconds = Microseconds(reader, "layer_us");
    reader.Require("device");
    if (const JsonValue* device = reader.FindObject("device")) ReadDevice(*device);
    if (const JsonValue* efficiency = reader.FindObject("efficiency")) ReadEfficiency(*efficiency);
    const bool has_links = hardware_.n_devices() > 1;
    const JsonValue* links = reader.FindObject("links");
    if (has_links && !reader.error()) reader.Require("links");
    if (links != nullptr) ReadLinks(*links);
    Keep(reader);
    if (error_) return Unexpected(*error_);
    return hardware_;
  }

 private:
  void Keep(const FieldReader& reader) {
    if (!error_) error_ = reader.error();
  }

  static double Microseconds(FieldReader& reader, std::string_view key) {
    double microseconds = 0;
    reader.ReadNumber(key, kTime, &microseconds);
    return microseconds * kMicro;
  }

  void ReadDevice(const JsonValue& json) {
    FieldReader fields(json, "device",
                       {"memory_bytes", "reserved_bytes", "memory_gb_s", "gflop_s"});
    Device& device = hardware_.device;
    fields.RequireNumber("memory_bytes", {1, 1e18}, &device.memory_bytes);
    fields.ReadNumber("reserved_bytes", {0, device.memory_bytes}, &device.reserved_bytes);
    fields.RequireNumber("memory_gb_s", kRate, &device.bytes_per_second);
    device.bytes_per_second *= kGiga;
    if (const JsonValue* rates = fields.Require("gflop_s")) ReadRates(*rates, fields);
    Keep(fields);
  }

  // Reads one number for all formats, or one for each.
  void ReadRates(const JsonValue& json, FieldReader& device) {
    double fp4 = 0, fp8 = 0, bf16 = 0;
    if (json.IsObject()) {
      FieldReader fields(json, "device.gflop_s", {"fp4", "fp8", "bf16"});
      fields.RequireNumber("bf16", kRate, &bf16);
      fp8 = bf16;
      fields.ReadNumber("fp8", kRate, &fp8);
      fp4 = fp8;
      fields.ReadNumber("fp4", kRate, &fp4);
      Keep(fields);
    } else {
      bf16 = device.ToNumber(json, "gflop_s", kRate).value_or(0);
      fp4 = fp8 = bf16;
    }
    hardware_.device.fp4_flops = fp4 * kGiga;
    hardware_.device.fp8_flops = fp8 * kGiga;
    hardware_.device.bf16_flops = bf16 * kGiga;
  }

  void ReadEfficiency(const JsonValue& json) {
    FieldReader fields(json, "efficiency", {"memory", "compute"});
    constexpr NumberRange kShare = {0.001, 10};  // products of FP4 can exceed an fp32 peak
    fields.ReadNumber("memory", kShare, &hardware_.memory_efficiency);
    fields.ReadNumber("compute", kShare, &hardware_.compute_efficiency);
    Keep(fields);
  }

  void ReadLinks(const JsonValue& json) {
    FieldReader fields(json, "links", {"node", "network"});
    if (hardware_.devices_per_node > 1) fields.Require("node");
    if (hardware_.n_nodes > 1) fields.Require("network");
    for (const std::string_view key : {"node", "network"}) {
      if (const JsonValue* link = fields.FindObject(key)) {
        (key == "node" ? hardware_.node : hardware_.network) =
            ReadLink(*link, "links." + std::string(key));
      }
    }
    Keep(fields);
  }

  Link ReadLink(const JsonValue& json, const std::string& path) {
    FieldReader fields(json, path, {"gb_s", "latency_us", "message_us"});
    Link link;
    fields.RequireNumber("gb_s", kRate, &link.bytes_per_second);
    link.bytes_per_second *= kGiga;
    double latency = 0;
    fields.RequireNumber("latency_us", kTime, &latency);
    link.latency = latency * kMicro;
    link.per_message = Microseconds(fields, "message_us");
    Keep(fields);
    return link;
  }

  Hardware hardware_;
  std::optional<Error> error_;
};

}  // namespace

Result<Hardware> ParseHardware(std::string_view text, std::string_view file_name) {
  const Result<JsonValue> json = ParseJsonObject(text, file_name);
  if (!json) return Unexpected(json.error());
  Result<Hardware> hardware = HardwareReader().Read(*json);
  if (!hardware) {
    return MakeError(ErrorCode::kInvalidData, "{}: {}", file_name, hardware.error().message);
  }
  return hardware;
}

}  // namespace fathom::measure::plan
