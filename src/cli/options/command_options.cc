#include "cli/options/command_options.h"

#include <fmt/format.h>

#include "cli/options/option_values.h"
#include "measure/bench/row_spec.h"
#include "measure/slice/shapes.h"
#include "measure/slice/tokenizer_json.h"
#include "model/draft/drafters.h"

namespace fathom::cli {
namespace {

void AddCommand(Command& root, GenerateCommand& options) {
  Command command = root.AddCommand(options.kName, "Continue a text as it is");
  command.Require("prompt", "TEXT", "The text, or - for standard input", Text(options.prompt));
  command.AddFlag("--no-bos", options.no_bos, "Do not add the begin token to a text without one");
  command.AddFlag("--json", options.json, "One JSON object instead of a stream of text");
  AddForm(command, options.form);
  AddEngine(command, options);
  command.Add({"--logprobs", "N", "With --json: log probabilities of each token and of the N best",
               Integer(0, 20, options.sampling.top_logprobs)});
  command.Footer(
      "Examples:\n"
      "  fathom generate \"Once upon a time\"\n"
      "  fathom generate --seed 7 --temperature 0.8 -n 100 \"The old witch\"\n"
      "  fathom generate --schema tale.schema.json \"A tale as JSON: \"\n"
      "  echo \"Far away in the land\" | fathom generate --json --logprobs 3 -");
}

void AddCommand(Command& root, ChatCommand& options) {
  Command command = root.AddCommand(options.kName, "Talk with the model");
  command.Add({"--system", "TEXT", "System prompt", Text(options.system)});
  command.Add({"--think", "MODE",
               "Reasoning before the answer: off, high or max (default: as the checkpoint has "
               "learned)",
               OneOf(kThinkNames, options.think)});
  AddDefaultEffort(command, options.default_effort);
  command.Add({"--history", "FILE",
               "What was typed at the terminal, for the next start; off: nowhere (default: "
               "fathom/chat_history in XDG_STATE_HOME or ~/.local/state)",
               [&options](const std::string& text) {
                 options.history = text == "off" ? "" : text;
                 return Status();
               }});
  AddProfile(command, options.profile);
  AddForm(command, options.form);
  AddEngine(command, options);
  AddModelArgument(command, options.run.model);
  command.Footer(
      "Type /help for what can be said besides messages. Ctrl-C stops an answer, Ctrl-D leaves.\n"
      "Examples:\n"
      "  fathom chat\n"
      "  fathom chat DIR --think high --system \"Answer in one sentence.\"\n"
      "  echo \"Tell me a story.\" | fathom chat --seed 1");
}

void AddCommand(Command& root, DevicesCommand&) {
  Command command = root.AddCommand(DevicesCommand::kName,
                                    "List the processor and the GPUs, and why one is not used");
  command.Footer(
      "GPUs are numbered as --device takes them.\n"
      "Examples:\n"
      "  fathom devices");
}

void AddCommand(Command& root, InspectCommand& options) {
  Command command =
      root.AddCommand(options.kName, "Describe a checkpoint: contents, memory, faults");
  command.Add(
      {"model", "DIR", "Directory of the checkpoint (default: as --model)", Text(options.model)});
  command.AddFlag("--json", options.json, "One JSON object");
  command.AddFlag("--deep", options.deep, "Also read the scales of the routed experts");
  command.Add({"--device-memory", "SIZE",
               "Plan this much free memory of a GPU, like 24G, for a sequence of 8192 tokens",
               MemorySize(options.device_memory)});
  AddHostExperts(command, options.experts);
  command.Add({"--memory", "SIZE",
               "Plan this much memory of a host, like 32G, for a sequence of 8192 tokens: what "
               "stays in it, and the speed with the rest on disk (docs/memory.md)",
               MemorySize(options.memory)});
  AddHostSpeeds(command, options.speeds);
  AddPlannedRanks(command, options.n_ranks, options.ranks);
  AddRankWays(command, options.ranks);
  command.Footer(
      "Exit code 1 if anything is wrong with the files; all problems are listed.\n"
      "Examples:\n"
      "  fathom inspect DIR\n"
      "  fathom inspect --deep --json DIR\n"
      "  fathom inspect --device-memory 80G DIR\n"
      "  fathom inspect --memory 32G --disk-gb-s 5 DIR\n"
      "  fathom inspect --memory 32G --ranks 2 DIR");
}

void AddCommand(Command& root, TokenizeCommand& options) {
  Command command = root.AddCommand(options.kName, "Text to token ids and back");
  Command input = command.AddGroup("Input", 1);
  input.Add({"text", "TEXT", "The text, or - for standard input", Text(options.text)});
  input.Add({"--decode", "IDS|FILE", "Print the text of these ids, or of a file of ids",
             Text(options.decode)});
  command.AddFlag("--ids", options.ids_only, "Only the ids, on one line");
  command.AddFlag("--plain-text", options.plain_text, "Treat special tokens in the text as text");
  AddModel(command, options.model);
  command.Footer(
      "Examples:\n"
      "  fathom tokenize \"Once upon a time\"\n"
      "  fathom tokenize --ids - < tale.txt\n"
      "  fathom tokenize --decode \"0, 17, 42\"");
}

void AddCommand(Command& root, EncodeCommand& options) {
  Command command = root.AddCommand(options.kName, "Chat messages to the prompt the model reads");
  command.Require("messages", "FILE",
                  "A JSON file of messages or of a request with messages and tools; - for "
                  "standard input",
                  Text(options.messages));
  command.AddFlag("--ids", options.ids, "Token ids instead of text");
  command.Add({"--thinking", "MODE", "Reasoning before the answer: on or off (default: on)",
               OnOff(options.thinking)});
  command.Add(
      {"--effort", "NAME", "Reasoning effort, a name of the profile", Text(options.effort)});
  command.Add(
      {"--tools", "FILE", "A JSON file of tools, in place of the request's", Text(options.tools)});
  AddProfile(command, options.profile);
  command.AddFlag("--no-bos", options.no_bos, "Do not begin with the begin token");
  command.AddFlag("--keep-reasoning", options.keep_reasoning,
                  "Keep the reasoning of earlier turns");
  command.AddFlag("--native-developer", options.native_developer,
                  "Render the role developer as the official encoder does, not as a system "
                  "message");
  command.AddFlag("--trust-special", options.trust_client_text,
                  "Treat special tokens inside messages as tokens");
  AddModel(command, options.model);
  command.Footer(
      "Examples:\n"
      "  fathom encode messages.json\n"
      "  fathom encode --thinking off --ids messages.json\n"
      "  echo '[{\"role\": \"user\", \"content\": \"Hi\"}]' | fathom encode -");
}

void AddCommand(Command& root, ParseCommand& options) {
  Command command = root.AddCommand(options.kName,
                                    "An answer's text to reasoning, content and tool calls (JSON)");
  command.Require("answer", "FILE", "A file, or - for standard input", Text(options.answer));
  command.AddFlag("--thinking", options.thinking, "The answer begins inside the reasoning");
  command.AddFlag("--truncated", options.truncated, "The answer was cut off for its length");
  command.Add({"--tools", "FILE", "A JSON file of the tools that the model was offered",
               Text(options.tools)});
  command.AddFlag("--strict", options.strict, "Refuse what the official parser refuses", "--tools");
  command.Footer(
      "Examples:\n"
      "  fathom parse answer.txt\n"
      "  fathom parse --thinking --strict - < answer.txt");
}

void AddCommand(Command& root, ConstrainCommand& options) {
  Command command =
      root.AddCommand(options.kName, "Check a schema, a regular expression or a grammar");
  Command source = command.AddGroup("Constraint", 1);
  source.Add({"--schema", "FILE", "A JSON schema", Text(options.schema)});
  source.Add({"--regex", "RE", "A regular expression", Text(options.regex)});
  source.Add({"--grammar", "FILE", "A grammar in GBNF", Text(options.grammar)});
  source.Add(
      {"--bench", "DIR", "Measure every schema of a folder with its tests", Text(options.bench)});
  command.AddFlag("--check", options.check, "Only say whether it can be enforced");
  command.Add({"--test", "FILE", "Test each line of a file as an answer", Text(options.test)});
  command.AddFlag("--strict", options.strict,
                  "Refuse a schema of which not every keyword can be enforced");
  command.AddFlag("--json", options.json, "One JSON object; with --bench one per file");
  AddModel(command, options.model);
  command.Footer(
      "Exit code 1 if the constraint is refused.\n"
      "Examples:\n"
      "  fathom constrain --schema person.json --check\n"
      "  fathom constrain --schema person.json --test answers.jsonl --json\n"
      "  fathom constrain --bench schemas --strict");
}

void AddCommand(Command& root, LogitsCommand& options) {
  Command command =
      root.AddCommand(options.kName, "Write the logits after every position to a safetensors file");
  command.Require("--tokens", "IDS|FILE",
                  "Token ids separated by commas or blanks, or a file of them",
                  Text(options.tokens));
  Command files = command.AddGroup("Files", 0);
  files.Add(
      {"--out", "FILE", "The file to write: logits, F32 [tokens, vocabulary]", Text(options.out)});
  files.Add({"--draft-trace", "FILE",
             "The file for the drafts of --draft-at and what they were computed from",
             Text(options.draft_trace)});
  command.Add({"--prefill", "N",
               "The first N tokens in chunks, the others one by one (default: all in chunks)",
               AtLeast(0, options.n_prefill)});
  command.Add({"--chunk", "C", "Tokens of a chunk (default: all at once; 256 with --pp)",
               AtLeast(1, options.chunk)});
  command.AddFlag("--mtp", options.mtp,
                  "Also mtp_logits, F32 [tokens - 1, vocabulary], of the MTP head");
  command.Add(
      {"--draft-at", "P1,P2", "Draft with DSpark behind these positions", Text(options.draft_at)});
  AddModel(command, options.run.model);
  AddMachine(command, options.run);
  AddRanks(command, options.run.ranks);
  command.Footer(
      "Examples:\n"
      "  fathom logits --tokens \"0 17 42 99\" --out logits.safetensors\n"
      "  fathom logits --model DIR --tokens ids.txt --prefill 64 --chunk 16 --mtp --out "
      "l.safetensors");
}

void AddCommand(Command& root, LaunchCommand& options) {
  Command command = root.AddCommand(
      options.kName, "launch [-n N] COMMAND ...: run a command on several ranks of this machine");
  command.Add({"-n,--ranks", "N", "Number of ranks (default: 2)", AtLeast(1, options.n_ranks)});
  command.Footer(
      "All ranks stop when one fails. A machine of several NUMA nodes wants a rank on each;\n"
      "between machines the ranks are mpirun's: docs/cluster.md.\n"
      "Examples:\n"
      "  fathom launch -n 2 serve\n"
      "  fathom launch -n 4 logits --tp 2 --pp 2 --tokens \"0 17 42\" --out l.safetensors");
}

// Returns ", mtp, dspark".
std::string DraftHeadOptions() {
  std::string text;
  for (const DrafterKind* kind : Drafters()) text += fmt::format(", {}", kind->option);
  return text;
}

void AddCommand(Command& root, MakeSliceCommand& options) {
  const ModelConfig flash = FlashConfig();
  Command command = root.AddCommand(
      options.kName, "Write a checkpoint of random weights with layers of the true shapes");
  command.Require("--shape", "NAME", "Model whose sizes are used: flash or pro",
                  TrueFor("pro", {"flash", "pro"}, options.pro));
  command.Require("--layers", "RATIOS",
                  "Compression ratio of each layer, separated by commas: 0 (window only), 4 "
                  "(with indexer) or 128",
                  Ratios(options.sizes.ratios));
  command.Add(
      {"--experts", "N",
       fmt::format("Routed experts of a layer, at least the {} of a token (default: {} for "
                   "flash, {} for pro)",
                   flash.num_experts_per_tok, flash.n_routed_experts, ProConfig().n_routed_experts),
       AtLeast(flash.num_experts_per_tok, options.sizes.n_experts)});
  command.Add(
      {"--vocab", "V",
       fmt::format("Tokens, {} to {} (default: 1024)", SmallestVocabulary(), LargestVocabulary()),
       Integer(SmallestVocabulary(), LargestVocabulary(), options.sizes.vocab_size)});
  command.Add({"--hash-layers", "N",
               "First layers that choose experts by the token, as the first 3 of flash and pro do "
               "(default: 0)",
               AtLeast(0, options.sizes.n_hash_layers)});
  command.Add({"--draft", "HEAD",
               fmt::format("The head that drafts: none{} (default: none)", DraftHeadOptions()),
               DraftHeadName(options.sizes.draft)});
  command.Add({"--seed", "N", "Same seed, same bytes (default: 0)", Seed(options.seed)});
  command.Require("--out", "DIR", "The directory to write: empty or not there yet",
                  Text(options.out));
  AddThreads(command, options.n_threads);
  command.Footer(
      "Examples:\n"
      "  fathom make-slice --shape flash --layers 4,128 --out DIR\n"
      "  fathom make-slice --shape pro --layers 0,4,128 --experts 16 --vocab 4096 --draft mtp "
      "--seed 7 --out DIR");
}

void AddCommand(Command& root, BenchCommand& options) {
  Command command = root.AddCommand(
      options.kName, "Measure the speed of a model beside the limits of the machine");
  command.Add(
      {"--rows", "ROW,...",
       "Rows to measure: ppN (prefill of N tokens), tgN (decoding), tgN@D (with D tokens "
       "before), tgNxB (B sequences at once), tgN@DxB, ppN@D (default: pp512, pp2048, tg128 at "
       "depth 0, 4096, 16384, 65536, tg128x2, x4, x8)",
       Parsed(bench::ParseRows, options.plan.rows)});
  command.Add({"--reps", "R", "Repetitions of each row, after a warm-up (default: 5)",
               Integer(1, 10000, options.plan.n_repetitions)});
  command.Add({"--chunk", "C", "Tokens of a prefill step (default: 512)",
               Integer(1, 65536, options.plan.chunk)});
  command.Add({"--bandwidth-mib", "N",
               "MiB of memory to measure the read bandwidth with (default: 1024)",
               Integer(1, 1 << 20, options.bandwidth_mib)});
  command.AddFlag("--profile", options.profile,
                  "Also run each row once more and show the time of each operation or kernel by "
                  "kind of layer, beside the limits");
  command.Add({.names = "--trace",
               .value = "FILE",
               .help = "Write the profile as a trace, for chrome://tracing or ui.perfetto.dev",
               .read = Text(options.trace),
               .needs = "--profile"});
  command.AddFlag("--json", options.json, "One JSON object");
  command.AddFlag("--csv", options.csv, "Comma-separated values", "--json");
  command.Add({"--plot", "FILE", "Also draw throughput against depth, as SVG", Text(options.plot)});
  AddModel(command, options.run.model);
  AddMachine(command, options.run);
  AddRanks(command, options.run.ranks);
  command.Footer(
      "Read GB/s is compared with the read bandwidth of the machine, GFLOP/s with its fp32\n"
      "multiply-adds, both measured in the same run with the same threads.\n"
      "Examples:\n"
      "  fathom bench\n"
      "  fathom bench --model DIR --threads 2 --rows pp512,tg128,tg128@16384 --reps 5 --json\n"
      "  fathom bench --model DIR --rows tg128,tg128x2,tg128x4,tg128@4096x4 --plot speed.svg");
}

void AddCommand(Command& root, BenchServeCommand& options) {
  Command bench = root.Find(BenchCommand::kName);
  AddBenchServe(bench, options);
}

}  // namespace

void AddCommand(Command& root, BatchCommand& options) {
  Command command =
      root.AddCommand(options.kName, "Answer a file of OpenAI requests, many at once");
  command.Require("input", "IN",
                  "A file of requests, one JSON object a line, or - for standard input",
                  Text(options.input));
  command.Require("output", "OUT",
                  "The file of answers, or - for standard output; continues the answers of "
                  "a stopped run",
                  Text(options.output));
  AddChats(command, options);
  AddForm(command, options.form);
  AddEngine(command, options);
  command.Footer(
      "Sampling options and forms hold for requests that do not say otherwise. Ctrl-C stops; the\n"
      "same command goes on. docs/batch.md has the format.\n"
      "Examples:\n"
      "  fathom batch requests.jsonl answers.jsonl\n"
      "  fathom batch --model DIR --max-sequences 32 --thinking off requests.jsonl answers.jsonl\n"
      "  fathom batch - - < requests.jsonl > answers.jsonl");
}

void AddCommands(Command root, ParsedCommands& commands) {
  root.Add({"--log-level", "LEVEL",
            "Log level on standard error: trace, debug, info, warn, error or off (default: "
            "warn; for serve: info)",
            OneOf({std::begin(kLogLevelNames), std::end(kLogLevelNames)}, commands.log_level)});
  root.Add({"--log-format", "FORMAT",
            "Log format: text, or json for one object a line (default: text)",
            OneOf(kLogFormatNames, commands.log_format)});
  std::apply([&](auto&... command) { (AddCommand(root, command), ...); }, commands.all);
}

}  // namespace fathom::cli
