// The kernels of one instruction set, collected by table.cc. Contracts: kernels.h.
#pragma once

#include "kernels/cpu/kernels.h"

namespace fathom::kernels::KERNEL_ISA {

// prepare.cc
void Prepare(cpu::ProductFormat format, const uint16_t* x, int64_t k, float* out, float* scales);
// product.cc
void MultiplyRows(const cpu::Product& product, int64_t first, int64_t end);
// elementwise.cc
void SwiGluRow(const uint16_t* gate, const uint16_t* up, float clamp, const float* factor,
               int64_t n, uint16_t* out);
void AddRow(const float* a, int64_t n, float* sum);
void AddBf16Row(const uint16_t* a, int64_t n, uint16_t* sum);
void AddRows(const float* x, const float* y, int64_t n, float* out);
void MeanRow(const uint16_t* streams, int64_t d, uint16_t* mean);
void CombineRow(const uint16_t* rows, int64_t count, const uint16_t* shared, int64_t d,
                uint16_t* out);
void RouterScores(const float* logits, int64_t n, float* scores);
// norm_rope.cc
void RmsNormRow(const uint16_t* x, const uint16_t* weight, float eps, int64_t d, uint16_t* out);
void QueryHead(uint16_t* q, int64_t head_dim, float eps, const cpu::RotaryRow& rope);
void Rotate(uint16_t* x, const cpu::RotaryRow& rope);
void SimulateFp8(uint16_t* x, int64_t n);
void PackKey(const uint16_t* x, const KeyLayout& layout, uint8_t* packed);
void PackIndex(const uint16_t* x, uint8_t* packed);
// hyper_connection.cc
void HyperChains(const cpu::HyperWeights& w, const cpu::HyperRows& rows, int64_t first,
                 int64_t end);
void HyperPre(const cpu::HyperWeights& w, const cpu::HyperRows& rows, int64_t first, int64_t end);
void HyperPost(const uint16_t* y, const float* post, const float* comb, int64_t d,
               uint16_t* streams);
// attention.cc
void Attend(const cpu::AttentionTask& task);
// compressor.cc
void Pool(const cpu::PoolTask& task);
// indexer.cc
void IndexScores(const cpu::IndexTask& task);
int64_t CountAtLeast(const float* x, int64_t n, float threshold);
// roofline.cc
int32_t ReadMemory(const void* data, int64_t bytes, const cpu::ReadPattern& pattern);
float MultiplyAdds(int64_t count);
float OperandMultiplyAdds(int64_t count);

}  // namespace fathom::kernels::KERNEL_ISA
