#!/usr/bin/env python3
"""Drives `fathom serve` with the client programs that others have written, and prints a table.

Each client gets a virtual environment build/clients/NAME, made from an index of Python packages
and kept for the next run, and runs the script NAME_client.py of this folder there, against a server
of the embedded model. Exits with 1 if a check fails or a client cannot be installed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "server"))
from server_process import BUILD, PROJECT, FathomServer, wait_until

ENVIRONMENTS = PROJECT / "build" / "clients"


class Client(NamedTuple):
    packages: str  # what pip installs; the first one has the version in the table
    is_quick: bool = False  # installed within a minute, and not in ./test by another way
    environment: str = ""  # of another client; default: its own
    context: str = "8192"  # of the server; the tales of the model would fill a long one
    max_tokens: str = "32"  # of answers that set no limit
    # strict: for clients whose tools are not strict. Forced calls have their required arguments either
    # way, but a value that is not held to its schema is a tale of the toy, and max_tokens cuts it.
    tool_grammar: str = "auto"


CLIENTS = {
    "openai": Client("openai==3.54.0"),
    "anthropic": Client("anthropic==2.12.0"),
    "litellm": Client("litellm==1.106.2 mcp==2.3.0"),  # it needs mcp for tools and does not say so
    "langchain": Client("langchain-openai==1.7.3", is_quick=True),
    "openai-agents": Client("openai-agents==0.24.0", is_quick=True),
    "pydantic-ai": Client("pydantic-ai-slim[openai,anthropic]==2.68.0", is_quick=True),
    "instructor": Client("instructor==1.17.0"),
    "smolagents": Client("smolagents[openai]==1.26.0"),
    "dspy": Client("dspy==3.4.1"),
    "aider": Client("aider-chat==0.86.2"),
    "llm": Client("llm==0.36", is_quick=True),
    "ollama": Client("ollama==0.6.3", is_quick=True),
    "lm-eval": Client("lm-eval[api]==0.4.13"),
    "lm-eval loglikelihood": Client("lm-eval[api]==0.4.13", environment="lm-eval"),
    "claude-code": Client("claude-agent-sdk==0.2.189", context="65536", max_tokens="2048"),
    "codex": Client("openai-codex-cli-bin==0.163.0", context="65536", max_tokens="2048"),
    "haystack": Client("haystack-ai==3.4.1"),
    "llama-index": Client("llama-index-llms-openai-like==0.8.1", tool_grammar="strict"),
    "semantic-kernel": Client("semantic-kernel==1.45.0"),
    "agno": Client("agno==3.1.10 openai==3.57.0", is_quick=True,
                   tool_grammar="strict"),
    "autogen": Client("autogen-agentchat==0.7.5 autogen-ext[openai]==0.7.5", tool_grammar="strict"),
    "strands": Client("strands-agents[openai]==1.62.0", tool_grammar="strict"),
    "deepagents": Client("deepagents==0.7.32 langchain-openai==1.7.4"),
    "crewai": Client("crewai==1.15.30"),
    "google-adk": Client("google-adk==2.13.0 litellm==1.110.2"),
    "mini-swe-agent": Client("mini-swe-agent==2.4.6"),
    "inspect-ai": Client("inspect-ai==0.3.285 openai==3.57.0", tool_grammar="strict"),
    "deepeval": Client("deepeval==4.3.1"),
    "llama-benchy": Client("llama-benchy==0.4.0"),
    "aiperf": Client("aiperf==0.13.0"),
    "genai-bench": Client("genai-bench==0.0.5"),
    "guidellm": Client("guidellm==0.8.1"),  # with all of torch: 6 GB
}


def install(name):
    """Makes the environment of a client unless it is there, and returns its folder."""
    packages = CLIENTS[name].packages
    folder = ENVIRONMENTS / (CLIENTS[name].environment or name)
    installed = folder / "installed.txt"
    if installed.exists() and installed.read_text() == packages:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [folder / "bin" / "pip", "--quiet", "--disable-pip-version-check", "install",
           "--no-compile"]
    if subprocess.run([*pip, *packages.split()], check=False).returncode != 0:
        raise RuntimeError(f"pip could not install {packages}. It needs an index of Python "
                           "packages: that of PyPI, or another named by PIP_INDEX_URL.")
    installed.write_text(packages)
    return folder


def run(name, program):
    """Runs the script of a client. Returns what it checked and whether all of it passed."""
    folder = install(name)
    script = FOLDER / (name.replace("-", "_").replace(" ", "_") + "_client.py")
    printed = folder / "recipes.txt"
    # A server of its own, so that what a client does to it is seen in its row.
    with open(printed, "w") as output:
        server = FathomServer("--model", str(PROJECT / "models" / "fairy"), "--context",
                              CLIENTS[name].context, "--max-tokens", CLIENTS[name].max_tokens,
                              "--tool-grammar", CLIENTS[name].tool_grammar, "--recipes",
                              launch=(program,), stdout=output)
    try:
        recipes = wait_until(printed.read_text)
        ran = subprocess.run([folder / "bin" / "python", script], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, timeout=900, check=False,
                             env={**os.environ, "FATHOM_URL": server.url, "FATHOM_RECIPES": recipes})
        code = server.stop()
    finally:
        server.kill()
    lines = [line for line in ran.stdout.splitlines() if line.startswith(("ok: ", "FAILED: "))]
    passed = ran.returncode == 0 and code == 0 and bool(lines)
    print(ran.stdout if not passed else "\n".join(lines), flush=True)
    if code != 0:
        print(f"fathom serve ended with {code}")
    errors = [event for event in server.events() if event.get("status", 0) >= 500]
    if errors:
        print(f"the server failed: {errors}")
    checked = ", ".join(line.removeprefix("ok: ").rsplit(" (", 1)[0] for line in lines)
    return checked, passed and not errors


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true", help="list the clients and end")
    parser.add_argument("--only", metavar="NAME", action="append", choices=CLIENTS,
                        help="run this client; may be repeated (default: all)")
    parser.add_argument("--quick", action="store_true",
                        help="run the clients that ./test runs")
    parser.add_argument("--program", type=Path, default=BUILD / "fathom",
                        help="the program to test (default: %(default)s)")
    arguments = parser.parse_args()
    names = arguments.only or [name for name, client in CLIENTS.items()
                               if client.is_quick or not arguments.quick]
    if arguments.list:
        for name in names:
            print(f"{name}: {CLIENTS[name].packages}")
        return 0
    rows = []
    for name in names:
        print(f"-- {name}", flush=True)
        start = time.monotonic()
        try:
            checked, passed = run(name, arguments.program.resolve())
        except (RuntimeError, AssertionError, OSError, subprocess.SubprocessError) as error:
            checked, passed = str(error), False
        version = CLIENTS[name].packages.split()[0].split("==")[1]
        rows.append((name, version, checked, "ok" if passed else "FAILED",
                     f"{time.monotonic() - start:.0f}"))
    print("\n| client | version | checked | result | seconds |\n|---|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    return 0 if all(row[3] == "ok" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
