// The numeric sampling parameters, each declared once: the command line, JSON bodies, validation
// and the OpenAPI document read this table. A new parameter is a member of SamplingParameters, a
// row here and its effect in the sampler; where devices do not have the effect, NeedsLogits
// (step_runner.cc) brings the logits to the host.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/request.h"

namespace fathom::engine {

// A number, or a number of tokens: a whole number, 0 (off) to the vocabulary size.
struct SamplingField {
  std::string_view name;  // name in JSON and errors; the option is --top-p for "top_p"
  double SamplingParameters::*number = nullptr;
  std::int64_t SamplingParameters::*n_tokens = nullptr;  // instead of `number`
  double low = 0;
  double high = 0;         // range of `number`
  std::string_view value;  // name of the value in --help
  std::string_view help;

  void Set(double to, SamplingParameters& parameters) const {
    if (number != nullptr) {
      parameters.*number = to;
    } else {
      parameters.*n_tokens = static_cast<std::int64_t>(std::min(to, 0x1p53));
    }
  }
  // Errors name the field, the allowed values and the value found. NaN fails every range.
  Status Check(const SamplingParameters& parameters, std::int64_t vocab_size) const;
};

// Returns the fields in the order of --help.
std::span<const SamplingField> SamplingFields();

}  // namespace fathom::engine
