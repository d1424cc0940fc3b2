// Streams the embedded model's continuation of a text: what a program needs that links
// fathom_runtime.
//
//   stream ["Once upon a time"]
#include <cstdio>
#include <string>

#include "runtime/runtime.h"

namespace {

int Fail(const fathom::Error& error) {
  std::fprintf(stderr, "stream: %s\n", error.message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  // Everything but the weights: no path is the embedded model.
  const fathom::Result<fathom::runtime::ModelFiles> files = fathom::runtime::ModelFiles::Read("");
  if (!files) return Fail(files.error());
  fathom::Result<std::vector<fathom::Token>> prompt = files->tokenizer.Encode(
      argc > 1 ? argv[1] : "Once upon a time", fathom::tokenizer::SpecialTokens::kPlainText);
  if (!prompt) return Fail(prompt.error());
  prompt->insert(prompt->begin(), static_cast<fathom::Token>(files->config.bos_token_id));

  const fathom::Result<std::unique_ptr<fathom::runtime::Runtime>> runtime =
      fathom::runtime::Runtime::Load(*files, {.run = {.n_threads = 2}});
  if (!runtime) return Fail(runtime.error());

  const fathom::engine::SamplingParameters sampling = {.temperature = files->generation.temperature,
                                                       .top_p = files->generation.top_p,
                                                       .seed = 1,
                                                       .max_tokens = 40};
  fathom::Result<fathom::engine::TokenStream> stream =
      (*runtime)->engine().Submit({.prompt = *prompt, .sampling = sampling});
  if (!stream) return Fail(stream.error());
  for (fathom::engine::StreamEvent event; stream->Next(event);) {
    if (event.error) return Fail(*event.error);
    std::fputs(event.text.c_str(), stdout);
    std::fflush(stdout);
  }
  std::puts("");
  return 0;
}
