#include "measure/plan/hardware.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/testing/shared_data.h"

namespace fathom::measure::plan {
namespace {

constexpr const char* kDevice =
    R"("device": {"memory_bytes": 64e9, "memory_gb_s": 40, "gflop_s": 300})";

std::string HardwareError(const std::string& text) {
  const Result<Hardware> hardware = ParseHardware(text, "h.json");
  return hardware ? "" : hardware.error().message;
}

TEST(HardwareTest, ReadsWhatIsThereInBytesAndSeconds) {
  const Result<Hardware> hardware = ParseHardware(
      R"({"name": "x", "source": "y", "nodes": 2, "devices_per_node": 4,
          "device": {"memory_bytes": 64e9, "reserved_bytes": 1e9, "memory_gb_s": 40,
                     "gflop_s": {"fp4": 600, "fp8": 500, "bf16": 300}},
          "efficiency": {"memory": 0.5, "compute": 0.25},
          "links": {"node": {"gb_s": 8, "latency_us": 3},
                    "network": {"gb_s": 2, "latency_us": 20, "message_us": 4}},
          "step_us": 7, "layer_us": 2})",
      "h.json");
  ASSERT_TRUE(hardware.has_value()) << hardware.error().message;
  EXPECT_EQ(hardware->name, "x");
  EXPECT_EQ(hardware->n_devices(), 8);
  EXPECT_DOUBLE_EQ(hardware->device.memory_bytes, 64e9);
  EXPECT_DOUBLE_EQ(hardware->device.reserved_bytes, 1e9);
  EXPECT_DOUBLE_EQ(hardware->device.bytes_per_second, 40e9);
  EXPECT_DOUBLE_EQ(hardware->device.fp4_flops, 600e9);
  EXPECT_DOUBLE_EQ(hardware->device.fp8_flops, 500e9);
  EXPECT_DOUBLE_EQ(hardware->device.bf16_flops, 300e9);
  EXPECT_DOUBLE_EQ(hardware->memory_efficiency, 0.5);
  EXPECT_DOUBLE_EQ(hardware->compute_efficiency, 0.25);
  EXPECT_DOUBLE_EQ(hardware->node.bytes_per_second, 8e9);
  EXPECT_DOUBLE_EQ(hardware->node.latency, 3e-6);
  EXPECT_DOUBLE_EQ(hardware->network.per_message, 4e-6);
  EXPECT_DOUBLE_EQ(hardware->step_seconds, 7e-6);
  EXPECT_DOUBLE_EQ(hardware->layer_seconds, 2e-6);
}

TEST(HardwareTest, OneDeviceNeedsNoLinksAndOneNumberIsEnough) {
  const Result<Hardware> hardware = ParseHardware(std::string("{") + kDevice + "}", "h.json");
  ASSERT_TRUE(hardware.has_value()) << hardware.error().message;
  EXPECT_EQ(hardware->n_devices(), 1);
  EXPECT_DOUBLE_EQ(hardware->device.fp4_flops, 300e9);
  EXPECT_DOUBLE_EQ(hardware->device.fp8_flops, 300e9);
  EXPECT_DOUBLE_EQ(hardware->device.bf16_flops, 300e9);
}

TEST(HardwareTest, WhatADeviceCannotMultiplyRunsAsTheNextWiderFormat) {
  const Result<Hardware> hardware = ParseHardware(
      R"({"device": {"memory_bytes": 1, "memory_gb_s": 1, "gflop_s": {"fp8": 2, "bf16": 1}}})",
      "h.json");
  ASSERT_TRUE(hardware.has_value()) << hardware.error().message;
  EXPECT_DOUBLE_EQ(hardware->device.fp4_flops, 2e9);
}

TEST(HardwareTest, ErrorsNameFileAndField) {
  const std::string device = kDevice;
  EXPECT_EQ(HardwareError("[]").substr(0, 8), "h.json: ");
  EXPECT_EQ(HardwareError("{}"), "h.json: device: expected a value, found nothing");
  EXPECT_EQ(HardwareError(R"({"device": 5})"), "h.json: device: expected an object, found 5");
  EXPECT_EQ(HardwareError(R"({"device": {"memory_gb_s": 40, "gflop_s": 1}})"),
            "h.json: device.memory_bytes: expected a value, found nothing");
  EXPECT_EQ(HardwareError(R"({"device": {"memory_bytes": 1, "memory_gb_s": 0, "gflop_s": 1}})"),
            "h.json: device.memory_gb_s: expected a number from 1e-06 to 1000000000000, found 0");
  EXPECT_EQ(
      HardwareError(R"({"device": {"memory_bytes": 1, "memory_gb_s": 1, "gflop_s": "fast"}})"),
      "h.json: device.gflop_s: expected a number from 1e-06 to 1000000000000, found "
      "\"fast\"");
  EXPECT_EQ(
      HardwareError(R"({"device": {"memory_bytes": 1, "memory_gb_s": 1, "gflop_s": {"fp8": 1}}})"),
      "h.json: device.gflop_s.bf16: expected a value, found nothing");
  EXPECT_EQ(HardwareError("{" + device + R"(, "node": 2})"),
            "h.json: node: expected one of the fields name, source, nodes, devices_per_node, "
            "device, efficiency, links, step_us, layer_us, found \"node\"");
  EXPECT_EQ(HardwareError("{" + device + R"(, "nodes": 0})"),
            "h.json: nodes: expected an integer from 1 to 4096, found 0");
  EXPECT_EQ(HardwareError("{" + device + R"(, "nodes": 2})"),
            "h.json: links: expected a value, found nothing");
  EXPECT_EQ(HardwareError("{" + device + R"(, "nodes": 2, "links": {}})"),
            "h.json: links.network: expected a value, found nothing");
  EXPECT_EQ(
      HardwareError("{" + device + R"(, "devices_per_node": 2, "links": {"node": {"gb_s": 1}}})"),
      "h.json: links.node.latency_us: expected a value, found nothing");
  EXPECT_EQ(HardwareError("{" + device + R"(, "step_us": -1})"),
            "h.json: step_us: expected a number from 0 to 1000000000, found -1");
}

TEST(HardwareTest, TheExamplesAreRight) {
  for (const char* name : {"h200x8", "h200x8x4", "mi300x8", "two_cores"}) {
    const std::string file = std::string(name) + ".json";
    const Result<Hardware> hardware =
        ParseHardware(testing::ReadFile(testing::ProjectPath("docs/hardware/" + file)), file);
    EXPECT_TRUE(hardware.has_value()) << hardware.error().message;
  }
}

}  // namespace
}  // namespace fathom::measure::plan
