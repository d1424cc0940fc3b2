// HostExperts: routed experts that the host computes for a device, while the device computes the
// others.
//
// The inputs of a call are copied to pinned memory of the host, a backend of the host computes the
// rows of its experts, and these rows are copied back: the bits do not depend on the side that
// computes an expert. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/backend.h"
#include "kernels/gpu/driver.h"

namespace fathom::kernels {

class HostExperts {
 public:
  explicit HostExperts(std::unique_ptr<Backend> host) : host_(std::move(host)) {}

  // Makes room for steps of these sizes. Error: kOutOfMemory.
  Status Reserve(GpuDriver& driver, const StepLimits& limits);
  // Sets the experts of a block, by id; is_mine: true for experts that the host computes. They must
  // stay in place as long as the block is computed.
  void Bind(std::int64_t block, std::span<const ExpertWeights> experts,
            std::vector<std::uint8_t> is_mine);
  // Returns true if the host computes any expert of the block.
  bool Has(std::int64_t block) const;

  // Implement Backend::ExpertRows for a block of which the host has experts: Begin, work of the
  // device, End. Begin enqueues the copies of x [t, d] and of the routing to the host. End waits
  // for them, and enqueues the copies of the rows [t * k, d] of the host's experts to the device.
  // Errors: of the device, or a fault of the host's operations.
  void Begin(GpuDriver& driver, Matrix<const Bf16> x, const Routing& routing);
  Status End(GpuDriver& driver, std::int64_t block, float clamp, Matrix<Bf16> rows);

 private:
  struct BlockExperts {
    ExpertSet set;
    std::vector<std::uint8_t> is_mine;  // by id; empty: none
  };

  // Replaces the ids of experts that the host does not have by kRemoteExpert. Returns true if other
  // ids are left.
  bool KeepMine(const std::vector<std::uint8_t>& is_mine);

  std::unique_ptr<Backend> host_;
  std::vector<BlockExperts> blocks_;
  // kShared memory for a call.
  std::unique_ptr<Buffer> x_memory_, ids_memory_, weights_memory_, rows_memory_;
  Matrix<Bf16> x_;   // [t, d]
  Routing routing_;  // [t, k]
  Ticket arrived_;   // the inputs have arrived
};

}  // namespace fathom::kernels
