#include "kernels/cpu/vector/isa_functions.h"
#include "kernels/cpu/vector/simd.h"

namespace fathom::kernels::KERNEL_ISA {

const cpu::Kernels& Table() {
  static constexpr cpu::Kernels kTable = {
      .prepare = Prepare,
      .sharing_columns = kOperandColumns == 1 ? cpu::kProductBlock : 1,  // product_folded.h
      .product = MultiplyRows,
      .rms_norm = RmsNormRow,
      .swiglu = SwiGluRow,
      .query_head = QueryHead,
      .rotate = Rotate,
      .simulate_fp8 = SimulateFp8,
      .pack_key = PackKey,
      .pack_index = PackIndex,
      .add = AddRow,
      .add_bf16 = AddBf16Row,
      .add_rows = AddRows,
      .mean_of_streams = MeanRow,
      .combine = CombineRow,
      .router_scores = RouterScores,
      .hyper_chains = HyperChains,
      .hyper_pre = HyperPre,
      .hyper_post = HyperPost,
      .attention = Attend,
      .pool = Pool,
      .index_scores = IndexScores,
      .count_at_least = CountAtLeast,
      .read_memory = ReadMemory,
      .multiply_adds = MultiplyAdds,
      .operand_multiply_adds = OperandMultiplyAdds,
  };
  return kTable;
}

}  // namespace fathom::kernels::KERNEL_ISA
