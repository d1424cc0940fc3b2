"""`fathom serve --recipes`: the settings that it prints are those of docs/serve.md, and well formed;
and so is deploy/compose.yaml."""

import json
import re
import subprocess
import tomllib
import unittest

import yaml

from server_process import BUILD, PROJECT, FathomServer

CONTEXT = 131072


def recipes(text):
    """{program: settings} of what is printed."""
    parts = re.split(r"^# (.*)\n", text, flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2]))


class RecipesTest(unittest.TestCase):
    def printed(self, *arguments):
        server = subprocess.Popen(
            [BUILD / "fathom", "serve", "--port", "0", "--recipes", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.kill)
        lines = []
        for line in server.stdout:
            lines.append(line)
            if line.startswith("base URL"):
                break
        server.terminate()
        self.assertEqual(server.wait(timeout=60), 0)
        return "".join(lines)

    def test_the_document_has_what_is_printed(self):
        text = self.printed("--served-model-name", "deepseek-v4-flash", "--context", "65536")
        [url] = set(re.findall(r"http://127\.0\.0\.1:\d+", text))
        document = (PROJECT / "docs/serve.md").read_text()
        example = (text.replace(url, "http://127.0.0.1:8000")
                   .replace("65536", str(CONTEXT)).replace("16384", str(CONTEXT // 4)))
        self.assertTrue(f"```\n{example}```" in document, example)

    def test_settings_are_well_formed(self):
        found = recipes(self.printed("--api-key", "secret", "--host", "0.0.0.0",
                                     "--context", "65536"))
        self.assertNotIn("secret", str(found))
        self.assertEqual(len(found), 11)
        self.assertIn("CLAUDE_CODE_MAX_CONTEXT_TOKENS=65536", found["Claude Code"])
        codex = tomllib.loads(found["Codex: ~/.codex/config.toml"])
        self.assertEqual(codex["model_context_window"], 65536)
        [models_file] = [name for name in found if codex["model_catalog_json"] in name]
        [model] = json.loads(found[models_file])["models"]
        self.assertEqual((model["slug"], model["context_window"]), ("fairy", 65536))
        self.assertEqual(model["input_modalities"], ["text"])
        # Codex has no other instructions for a model of this file, and refuses a file that lacks one
        # of these fields.
        self.assertIn("coding agent", model["base_instructions"])
        self.assertLessEqual({"display_name", "supported_reasoning_levels", "shell_type",
                              "visibility", "supported_in_api", "priority", "support_verbosity",
                              "truncation_policy", "experimental_supported_tools"}, set(model))
        provider = codex["model_providers"]["fathom"]
        self.assertRegex(provider["base_url"], r"^http://127\.0\.0\.1:\d+/v1$")
        self.assertEqual(provider["env_key"], "FATHOM_API_KEY")
        opencode = json.loads(found["opencode: opencode.json"])
        self.assertEqual(opencode["provider"]["fathom"]["models"]["fairy"]["limit"],
                         {"context": 65536, "output": 16384})
        [model] = yaml.safe_load(found["llm: extra-openai-models.yaml in the folder of llm logs path"])
        self.assertEqual(model["model_name"], "fairy")
        self.assertTrue(model["supports_tools"])
        [model] = yaml.safe_load(found["Continue: ~/.continue/config.yaml"])["models"]
        self.assertEqual(model["defaultCompletionOptions"], {"contextLength": 65536})

    def test_nothing_is_printed_unasked(self):
        server = FathomServer()
        self.addCleanup(server.kill)
        self.assertEqual(server.stop(), 0)
        self.assertNotIn("CLAUDE", "\n".join(server.log))


class ComposeTest(unittest.TestCase):
    def test_the_file_is_well_formed(self):
        services = yaml.safe_load((PROJECT / "deploy/compose.yaml").read_text())["services"]
        fathom = services["fathom"]
        self.assertTrue((PROJECT / fathom["build"]["dockerfile"]).is_file())
        self.assertEqual(services["open-webui"]["environment"]["OPENAI_API_BASE_URL"],
                         f"http://{fathom['hostname']}:8000/v1")
        # The image's entry point ends with `serve`: the command is its arguments.
        self.assertEqual(fathom["command"][0], "/model")
        self.assertTrue(fathom["volumes"][0].endswith(":/model:ro"))


if __name__ == "__main__":
    unittest.main()
