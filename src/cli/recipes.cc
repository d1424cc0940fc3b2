#include "cli/recipes.h"

#include <fmt/format.h>

#include <string_view>

namespace fathom::cli {
namespace {

// A models file without instructions leaves Codex without any, because it replaces Codex' own.
constexpr std::string_view kCodexInstructions =
    "You are a coding agent in the terminal of the user, and work in the folder that the "
    "environment names. Go on until the task is done: read the files that matter, change them by "
    "commands, and run what shows that the change works. Follow every AGENTS.md. Make small "
    "changes in the style of the code, and leave changes that are not yours alone. Ask before you "
    "delete or publish anything. End with a short account of what you did and what you could not "
    "check.";

// docs/serve.md, "With agents and other programs", has this text with the numbers of an example.
constexpr std::string_view kRecipes = R"(# Claude Code
ANTHROPIC_BASE_URL={url} ANTHROPIC_AUTH_TOKEN={key} \
ANTHROPIC_MODEL={model} ANTHROPIC_SMALL_FAST_MODEL={model} \
CLAUDE_CODE_MAX_CONTEXT_TOKENS={context} \
claude --permission-mode default --disallowedTools WebSearch

# Codex: ~/.codex/fathom.json
{{"models": [{{"slug": "{model}", "display_name": "{model}", "description": "Fathom",
  "context_window": {context}, "input_modalities": ["text"], "shell_type": "default",
  "supports_parallel_tool_calls": true, "experimental_supported_tools": [],
  "supports_reasoning_summaries": true, "supported_reasoning_levels": [
    {{"effort": "none", "description": "no reasoning"}}, {{"effort": "low", "description": "short"}},
    {{"effort": "high", "description": "long"}}, {{"effort": "max", "description": "longest"}}],
  "support_verbosity": false, "truncation_policy": {{"mode": "tokens", "limit": 10000}},
  "visibility": "list", "supported_in_api": true, "priority": 1,
  "base_instructions": "{instructions}"}}]}}

# Codex: ~/.codex/config.toml
model = "{model}"
model_provider = "fathom"
model_catalog_json = "fathom.json"
model_context_window = {context}

[model_providers.fathom]
name = "Fathom"
base_url = "{url}/v1"
wire_api = "responses"{codex_key}

# Open WebUI
OPENAI_API_BASE_URL={url}/v1 OPENAI_API_KEY={key} ENABLE_OLLAMA_API=false open-webui serve

# aider
OPENAI_API_BASE={url}/v1 OPENAI_API_KEY={key} aider --model openai/{model}

# LiteLLM
litellm --model hosted_vllm/{model} --api_base {url}/v1

# llm: extra-openai-models.yaml in the folder of llm logs path
- model_id: {model}
  model_name: {model}
  api_base: {url}/v1
  supports_tools: true
  supports_schema: true

# LangChain
ChatOpenAI(model="{model}", base_url="{url}/v1", api_key="{key}")

# opencode: opencode.json
{{"provider": {{"fathom": {{"npm": "@ai-sdk/openai-compatible",
  "options": {{"baseURL": "{url}/v1", "apiKey": "{key}"}},
  "models": {{"{model}": {{"limit": {{"context": {context}, "output": {output}}}}}}}}}}}}}

# Continue: ~/.continue/config.yaml
models:
  - {{name: Fathom, provider: openai, model: {model}, apiBase: "{url}/v1", apiKey: {key},
     defaultCompletionOptions: {{contextLength: {context}}}}}

# Cline, Roo Code: provider "OpenAI Compatible"
base URL {url}/v1, API key {key}, model ID {model}, context window {context}
)";

}  // namespace

std::string Recipes(const RecipeFacts& facts) {
  using fmt::arg;
  constexpr std::int64_t kOutputShare = 4;  // context / this: the limit where programs need one
  return fmt::format(kRecipes, arg("url", facts.url), arg("model", facts.model),
                     arg("key", facts.has_keys ? "KEY" : "none"),
                     arg("codex_key", facts.has_keys ? "\nenv_key = \"FATHOM_API_KEY\"" : ""),
                     arg("instructions", kCodexInstructions), arg("context", facts.n_context),
                     arg("output", facts.n_context / kOutputShare));
}

}  // namespace fathom::cli
