// The tensors of draft heads, as data: the code that binds them, and the code that writes and
// measures them without a checkpoint, work for every head.
#pragma once

#include <cstdint>
#include <string>

namespace fathom {

class WeightScope;
struct DrafterKind;
struct DraftWeights;
struct ModelConfig;

// A tensor of a head that is neither in its blocks nor in the hyper-connection head ("hc_head") of
// its last stage.
struct DraftTensor {
  enum class Kind {
    kVector,  // BF16 [rows]: a norm
    kFp8,     // matrix [rows, cols] with scales
    kBf16,    // matrix [rows, cols]
    kTable,   // BF16 [rows, cols], of which a pass reads some rows
  };
  std::int64_t stage = 0;
  std::string name;  // without ".weight"
  Kind kind = Kind::kVector;
  std::int64_t rows = 0;
  std::int64_t cols = 1;
  // True: a rank has the rows of the tokens whose rows of the head it has.
  bool is_by_vocabulary = false;
  std::int64_t products_per_token = 1;  // products with the matrix per token
};

// Binds the weights of a drafter: its tensors in their order, as DraftWeights::vectors and
// matrices. root: the scope of the whole checkpoint.
DraftWeights BindDraft(const WeightScope& root, const ModelConfig& config,
                       const DrafterKind& drafter);

}  // namespace fathom
