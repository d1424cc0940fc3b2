#include "cli/options/foreign_options.h"

#include <algorithm>
#include <iterator>

namespace fathom::cli {
namespace {

constexpr ForeignOption kForeignOptions[] = {
    {"--max-model-len", "--context", true},
    {"--context-length", "--context", true},
    {"--ctx", "--context", true},
    {"--ctx-size", "--context"},
    {"-c", "--context"},
    {"--max-num-seqs", "--max-sequences", true},
    {"--max-seqs", "--max-sequences", true},
    {"--max-running-requests", "--max-sequences"},
    {"--parallel", "--max-sequences"},
    {"-np", "--max-sequences"},
    {"--max-num-batched-tokens", "--max-batch-tokens", true},
    {"--chunked-prefill-size", "--max-batch-tokens", true},
    {"--batch-size", "--max-batch-tokens"},
    {"-b", "--max-batch-tokens"},
    {"--ubatch-size", "--max-batch-tokens"},
    {"-ub", "--max-batch-tokens"},
    {"--gpu-memory-utilization", "--kv-memory"},
    {"--mem-fraction-static", "--kv-memory"},
    {"--max-total-tokens", "--kv-memory"},
    {"--no-enable-prefix-caching", "--prefix-cache"},
    {"--disable-radix-cache", "--prefix-cache"},
    {"--num-speculative-tokens", "--draft"},
    {"--speculative-num-steps", "--draft"},
    {"--draft-max", "--draft"},
    {"--tensor-parallel-size", "--tp", true},
    {"--tp-size", "--tp"},
    {"-tp", "--tp"},
    {"--pipeline-parallel-size", "--pp", true},
    {"--pp-size", "--pp"},
    {"-pp", "--pp"},
    {"--ep-size", "--ep"},
    {"--enable-dp-attention", "--dp-attention"},
    {"--allowed-origins", "--cors-origins", true},
    {"--max-queue", "--max-waiting", true},
    {"--timeout", "--request-timeout"},
    {"--alias", "--served-model-name"},
    {"-a", "--served-model-name"},
    {"--model-path", "--model"},
    {"-m", "--model"},
    {"-t", "--threads"},
    {"--mlock", "--lock"},
    {"--n-predict", "--max-tokens"},
    {"--predict", "--max-tokens"},
    {"--temp", "--temperature"},
    {"--repeat-penalty", "--repetition-penalty"},
    {"-s", "--seed"},
    {"--n-gpu-layers", ""},
    {"--gpu-layers", ""},
    {"-ngl", ""},
    {"--dtype", ""},
    {"--quantization", ""},
    {"-q", ""},
    {"--tokenizer", ""},
    {"--swap-space", ""},
};

}  // namespace

const ForeignOption* FindForeignOption(std::string_view name) {
  const auto* found = std::ranges::find(kForeignOptions, name, &ForeignOption::theirs);
  return found == std::end(kForeignOptions) ? nullptr : found;
}

}  // namespace fathom::cli
