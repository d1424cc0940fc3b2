// The kernels of the device sources (kernels/gpu/device): one list for the host, the emulator and
// the code objects.
#pragma once

#include <cstdint>
#include <string_view>

namespace fathom::kernels {

// Calls X(Name) for every kernel. GPU_KERNEL uses this name in the code object.
// clang-format off
#define FATHOM_GPU_KERNELS(X) \
  X(Embed) X(SwiGlu) X(CopyPieces) X(ChangeTables) \
  X(RmsNorm) X(QueryHeads) X(WindowKeys) X(FillRopeRows) \
  X(QuantizeRows) X(LinearFp8Row) X(LinearFp8Rows2) X(LinearFp8Rows4) X(LinearFp8Rows8) \
  X(LinearFp4Row) X(LinearFp4Rows2) X(LinearFp4Rows4) X(LinearFp4Rows8) \
  X(LinearFp8) X(LinearFp4) X(LinearPlain) X(LinearByBlocks) \
  X(HcChains) X(HcPre) X(HcPost) X(AddToStreams) X(MeanOfStreams) X(Add) \
  X(AddPositionScores) X(CompressRows) X(KeepInputs) \
  X(IndexQueries) X(IndexScores) X(ChooseRows) \
  X(AttentionScores) X(WideAttentionScores) X(BlockAttentionScores) X(AttentionWeights) \
  X(AttentionValues) X(WideAttentionValues) X(AppendWindow) X(CopyRows) \
  X(Route) X(RouteByToken) X(ExpertHidden) X(ExpertOutput) X(CombineExperts) \
  X(ScanLogits) X(ChangeLogits) X(OrderTokens) X(KeepTopK) X(WeighTokens) X(KeepTopP) \
  X(DrawTokens) X(TakeTokens) \
  X(ReadMemory) X(CopyMemory) X(MultiplyAdds)
// clang-format on

enum class GpuKernel : std::uint8_t {
#define FATHOM_ENUMERATOR(Name) k##Name,
  FATHOM_GPU_KERNELS(FATHOM_ENUMERATOR)
#undef FATHOM_ENUMERATOR
};

inline constexpr std::string_view kGpuKernelNames[] = {
#define FATHOM_NAME(Name) #Name,
    FATHOM_GPU_KERNELS(FATHOM_NAME)
#undef FATHOM_NAME
};

}  // namespace fathom::kernels
