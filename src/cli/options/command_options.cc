#include "cli/options/command_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iterator>
#include <span>

#include "cli/options/batch_options.h"
#include "cli/options/bench_serve_options.h"
#include "cli/options/option_checks.h"
#include "cli/options/option_groups.h"
#include "cli/options/plan_options.h"
#include "cli/options/serve_options.h"
#include "measure/slice/shapes.h"
#include "measure/slice/tokenizer_json.h"

namespace fathom::cli {
namespace {

std::vector<std::string> Names(std::span<const std::string_view> names) {
  return {names.begin(), names.end()};
}

void AddGenerate(CLI::App& app, GenerateCommand& options) {
  CLI::App* command = app.add_subcommand("generate", "Continue a text as it is");
  command->add_option("prompt", options.prompt, "The text, or - for standard input")
      ->type_name("TEXT")
      ->required();
  command->add_flag_callback(
      "--no-bos", [&options] { options.add_bos = false; },
      "Do not put the begin token before a text that has none");
  command->add_flag("--json", options.json, "One JSON object instead of a stream of text");
  AddRun(command, options.run);
  AddEngine(command, options.engine);
  AddAllSampling(command, options.sampling);
  command
      ->add_option("--logprobs", options.sampling.n_logprobs,
                   "With --json: log probabilities of each token and of the N best")
      ->type_name("N")
      ->check(Integer(0, 20))
      ->group(kSamplingGroup);
  command->footer(
      "Examples:\n"
      "  fathom generate \"Once upon a time\"\n"
      "  fathom generate --seed 7 --temperature 0.8 -n 100 \"The old witch\"\n"
      "  echo \"Far away in the land\" | fathom generate --json --logprobs 3 -");
}

void AddChat(CLI::App& app, ChatCommand& options) {
  CLI::App* command = app.add_subcommand("chat", "Talk with the model");
  command->add_option("--system", options.system, "System prompt")->type_name("TEXT");
  command
      ->add_option_function<std::string>(
          "--think",
          [&options](const std::string& name) {
            for (std::size_t i = 0; i < std::size(kThinkNames); ++i) {
              options.think = name == kThinkNames[i] ? static_cast<Think>(i) : options.think;
            }
          },
          "Reasoning before the answer: off, high or max (default: off)")
      ->type_name("MODE")
      ->check(OneOf(Names(kThinkNames)));
  AddProfile(command, options.profile);
  AddRun(command, options.run);
  AddEngine(command, options.engine);
  AddAllSampling(command, options.sampling);
  command->footer(
      "Type /help for what can be said besides messages. Ctrl-C stops an answer, Ctrl-D leaves.\n"
      "Examples:\n"
      "  fathom chat\n"
      "  fathom chat --model DIR --think high --system \"Answer in one sentence.\"\n"
      "  echo \"Tell me a story.\" | fathom chat --seed 1");
}

void AddInspect(CLI::App& app, InspectCommand& options) {
  CLI::App* command = app.add_subcommand(
      "inspect", "Say what a checkpoint holds, needs, and what is wrong with it");
  command->add_option("model", options.model, "Directory of the checkpoint (default: as --model)")
      ->type_name("DIR");
  command->add_flag("--json", options.json, "One JSON object");
  command->add_flag("--deep", options.deep, "Also read the scales and the expert tables");
  command->footer(
      "Exit code 1 if anything is wrong with the files; all problems are listed.\n"
      "Examples:\n"
      "  fathom inspect DIR\n"
      "  fathom inspect --deep --json DIR");
}

void AddTokenize(CLI::App& app, TokenizeCommand& options) {
  CLI::App* command = app.add_subcommand("tokenize", "Text to token ids and back");
  CLI::App* input = command->add_option_group("Input")->require_option(1);
  input->add_option("text", options.text, "The text, or - for standard input")->type_name("TEXT");
  input->add_option("--decode", options.decode, "The text of these ids, or of a file of ids")
      ->type_name("IDS|FILE");
  command->add_flag("--ids", options.ids_only, "Only the ids, on one line");
  command->add_flag("--plain-text", options.plain_text,
                    "Special tokens written in the text are text");
  AddModel(command, options.model);
  command->footer(
      "Examples:\n"
      "  fathom tokenize \"Once upon a time\"\n"
      "  fathom tokenize --ids - < tale.txt\n"
      "  fathom tokenize --decode \"0, 17, 42\"");
}

void AddEncode(CLI::App& app, EncodeCommand& options) {
  CLI::App* command = app.add_subcommand("encode", "Chat messages to the prompt the model reads");
  command
      ->add_option(
          "messages", options.messages,
          "A JSON file of messages or of a request with messages and tools; - for standard "
          "input")
      ->type_name("FILE")
      ->required();
  command->add_flag("--ids", options.ids, "Token ids instead of text");
  command
      ->add_option_function<std::string>(
          "--thinking", [&options](const std::string& name) { options.thinking = name == "on"; },
          "Whether the model may reason first: on or off (default: on)")
      ->type_name("MODE")
      ->check(OneOf({"on", "off"}));
  command->add_option("--effort", options.effort, "Reasoning effort, a name the profile knows")
      ->type_name("NAME");
  command->add_option("--tools", options.tools, "A JSON file of tools, in place of the request's")
      ->type_name("FILE");
  AddProfile(command, options.profile);
  command->add_flag_callback(
      "--no-bos", [&options] { options.add_bos = false; }, "Do not begin with the begin token");
  command->add_flag("--keep-reasoning", options.keep_reasoning,
                    "Keep the reasoning of earlier turns");
  command->add_flag("--native-developer", options.native_developer,
                    "The role developer as the official encoder means it, not as a system message");
  command->add_flag("--trust-special", options.trust_client_text,
                    "Special tokens written inside messages are tokens");
  AddModel(command, options.model);
  command->footer(
      "Examples:\n"
      "  fathom encode messages.json\n"
      "  fathom encode --thinking off --ids messages.json\n"
      "  echo '[{\"role\": \"user\", \"content\": \"Hi\"}]' | fathom encode -");
}

void AddParse(CLI::App& app, ParseCommand& options) {
  CLI::App* command =
      app.add_subcommand("parse", "An answer's text to reasoning, content and tool calls (JSON)");
  command->add_option("answer", options.answer, "A file, or - for standard input")
      ->type_name("FILE")
      ->required();
  command->add_flag("--thinking", options.thinking, "The answer begins inside the reasoning");
  command->add_flag("--truncated", options.truncated, "The answer was cut off for its length");
  CLI::Option* tools = command
                           ->add_option("--tools", options.tools,
                                        "A JSON file of the tools that the model was offered")
                           ->type_name("FILE");
  command->add_flag("--strict", options.strict, "Refuse what the official parser refuses")
      ->excludes(tools);
  command->footer(
      "Examples:\n"
      "  fathom parse answer.txt\n"
      "  fathom parse --thinking --strict - < answer.txt");
}

void AddLogits(CLI::App& app, LogitsCommand& options) {
  CLI::App* command =
      app.add_subcommand("logits", "Write the logits after every position to a safetensors file");
  command
      ->add_option("--tokens", options.tokens,
                   "Token ids separated by commas or blanks, or a file of them")
      ->type_name("IDS|FILE")
      ->required();
  command->add_option("--out", options.out, "The file to write: logits, F32 [tokens, vocabulary]")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--prefill", options.n_prefill,
                   "The first N tokens in chunks, the others one by one (default: all in chunks)")
      ->type_name("N")
      ->check(AtLeast(0));
  command
      ->add_option("--chunk", options.chunk,
                   "Tokens of a chunk (default: all at once; 256 with --pp)")
      ->type_name("C")
      ->check(AtLeast(1));
  command->add_flag("--mtp", options.mtp,
                    "Also mtp_logits, F32 [tokens - 1, vocabulary], of the MTP head");
  AddModel(command, options.run.model);
  AddMachine(command, options.run);
  AddRanks(command, options.run.ranks);
  command->footer(
      "Examples:\n"
      "  fathom logits --tokens \"0 17 42 99\" --out logits.safetensors\n"
      "  fathom logits --model DIR --tokens ids.txt --prefill 64 --chunk 16 --mtp --out "
      "l.safetensors");
}

void AddLaunch(CLI::App& app, LaunchCommand& options) {
  CLI::App* command =
      app.add_subcommand("launch",
                         "launch [-n N] COMMAND ...: a command on several ranks of this "
                         "machine");
  command->add_option("-n,--ranks", options.n_ranks, "How many (default: 2)")
      ->type_name("N")
      ->check(AtLeast(1));
  command->footer(
      "All ranks stop when one fails. A machine of several NUMA nodes wants a rank on each;\n"
      "between machines the ranks are mpirun's: docs/cluster.md.\n"
      "Examples:\n"
      "  fathom launch -n 2 serve\n"
      "  fathom launch -n 4 logits --tp 2 --pp 2 --tokens \"0 17 42\" --out l.safetensors");
}

void AddMakeSlice(CLI::App& app, MakeSliceCommand& options) {
  const ModelConfig flash = FlashConfig();
  CLI::App* command = app.add_subcommand(
      "make-slice", "Write a checkpoint of random weights with layers of the true shapes");
  command
      ->add_option_function<std::string>(
          "--shape", [&options](const std::string& name) { options.pro = name == "pro"; },
          "Sizes of which model: flash or pro")
      ->type_name("NAME")
      ->check(OneOf({"flash", "pro"}))
      ->required();
  command
      ->add_option_function<std::string>(
          "--layers", [&options](const std::string& text) { options.ratios = RatiosOf(text); },
          "Compression ratio of each layer, separated by commas: 0 (window only), 4 (with "
          "indexer) or 128")
      ->type_name("RATIOS")
      ->check(Ratios())
      ->required();
  command
      ->add_option(
          "--experts", options.n_experts,
          fmt::format("Routed experts of a layer, at least the {} of a token (default: {} for "
                      "flash, {} for pro)",
                      flash.num_experts_per_tok, flash.n_routed_experts,
                      ProConfig().n_routed_experts))
      ->type_name("N")
      ->check(AtLeast(flash.num_experts_per_tok));
  command
      ->add_option("--vocab", options.vocab_size,
                   fmt::format("Tokens, {} to {} (default: 1024)", SmallestVocabulary(),
                               LargestVocabulary()))
      ->type_name("V")
      ->check(Integer(SmallestVocabulary(), LargestVocabulary()));
  command->add_flag("--draft", options.draft, "With the MTP head");
  command->add_option("--seed", options.seed, "Same seed, same bytes (default: 0)")
      ->type_name("N")
      ->check(Seed());
  command->add_option("--out", options.out, "The directory to write: empty or not there yet")
      ->type_name("DIR")
      ->required();
  AddThreads(command, options.n_threads);
  command->footer(
      "Examples:\n"
      "  fathom make-slice --shape flash --layers 4,128 --out DIR\n"
      "  fathom make-slice --shape pro --layers 0,4,128 --experts 16 --vocab 4096 --draft --seed 7 "
      "--out DIR");
}

CLI::App* AddBench(CLI::App& app, BenchCommand& options) {
  CLI::App* command =
      app.add_subcommand("bench", "Measure the speed of a model beside the limits of the machine");
  command
      ->add_option("--rows", options.rows,
                   "What is measured: ppN (prefill of N tokens), tgN (decoding), tgN@D (with D "
                   "tokens before), tgNxB (B sequences at once), tgN@DxB, ppN@D (default: pp512, "
                   "pp2048, tg128 at depth 0, 4096, 16384, 65536, tg128x2, x4, x8)")
      ->type_name("ROW,...")
      ->check(BenchRows());
  command
      ->add_option("--reps", options.n_repetitions,
                   "Repetitions of each row, after a warm-up (default: 5)")
      ->type_name("R")
      ->check(Integer(1, 10000));
  command->add_option("--chunk", options.chunk, "Tokens of a prefill step (default: 512)")
      ->type_name("C")
      ->check(Integer(1, 65536));
  command
      ->add_option("--bandwidth-mib", options.bandwidth_mib,
                   "MiB of memory the read bandwidth is measured with (default: 1024)")
      ->type_name("N")
      ->check(Integer(1, 1 << 20));
  CLI::Option* json = command->add_flag_callback(
      "--json", [&options] { options.format = BenchFormat::kJson; }, "One JSON object");
  command
      ->add_flag_callback(
          "--csv", [&options] { options.format = BenchFormat::kCsv; }, "Comma-separated values")
      ->excludes(json);
  command->add_option("--plot", options.plot, "Also draw throughput against depth, as SVG")
      ->type_name("FILE");
  AddModel(command, options.run.model);
  AddMachine(command, options.run);
  AddRanks(command, options.run.ranks);
  command->footer(
      "Read GB/s is compared with the read bandwidth of the machine, GFLOP/s with its fp32\n"
      "multiply-adds, both measured in the same run with the same threads.\n"
      "Examples:\n"
      "  fathom bench\n"
      "  fathom bench --model DIR --threads 2 --rows pp512,tg128,tg128@16384 --reps 5 --json\n"
      "  fathom bench --model DIR --rows tg128,tg128x2,tg128x4,tg128@4096x4 --plot speed.svg");
  return command;
}

}  // namespace

void AddCommands(CLI::App& app, ParsedCommands& commands) {
  app.add_option("--log-level", commands.log_level,
                 "What is told on standard error: trace, debug, info, warn, error or off (default: "
                 "warn; of serve: info)")
      ->type_name("LEVEL")
      ->check(OneOf(Names(kLogLevelNames)));
  app.add_option("--log-format", commands.log_format,
                 "How it is told: text, or json for one object a line (default: text)")
      ->type_name("FORMAT")
      ->check(OneOf(Names(kLogFormatNames)));
  AddGenerate(app, commands.generate);
  AddChat(app, commands.chat);
  AddServe(app, commands.serve);
  AddBatch(app, commands.batch);
  AddInspect(app, commands.inspect);
  AddTokenize(app, commands.tokenize);
  AddEncode(app, commands.encode);
  AddParse(app, commands.parse);
  AddLogits(app, commands.logits);
  AddLaunch(app, commands.launch);
  AddPlan(app, commands.plan);
  AddMakeSlice(app, commands.make_slice);
  AddBenchServe(*AddBench(app, commands.bench), commands.bench_serve);
}

}  // namespace fathom::cli
