"""AIPerf, the command line program: benchmarks by each API that answers chats or texts."""

import json
import tempfile
from pathlib import Path

from checks import MODEL, URL, check, command, equal, main

TOKENIZER = Path(__file__).resolve().parents[2] / "models" / "fairy"
REQUESTS = 4
TOKENS = 8  # of an answer


def benchmark(folder, endpoint, *arguments, prompt_tokens=40, expect=0):
    """Runs it, with its reports in the folder. Returns its output."""
    # With HF_HUB_OFFLINE the program takes the folder of a tokenizer for the name of one on a hub.
    return command("aiperf", "profile", "--model", MODEL, "--tokenizer", TOKENIZER, "--url", URL,
                   "--endpoint-type", endpoint, "--request-count", str(REQUESTS), "--concurrency",
                   "2", "--synthetic-input-tokens-mean", str(prompt_tokens), "--output-tokens-mean",
                   str(TOKENS), "--extra-inputs", "ignore_eos:true", "--ui", "none",
                   "--artifact-dir", folder, *arguments, expect=expect, HOME=folder)


def finishes(endpoint, *arguments):
    """Checks that all requests were answered. Returns the reports on them and on the server."""
    with tempfile.TemporaryDirectory() as folder:
        benchmark(folder, endpoint, *arguments)
        report, scraped = (json.loads(Path(folder, name).read_text()) for name in
                           ("profile_export_aiperf.json", "server_metrics_export.json"))
    equal((report["request_count"]["avg"], report["error_summary"]), (REQUESTS, []))
    lengths = report["output_sequence_length"]
    assert 0 < lengths["min"] <= lengths["max"] <= TOKENS, lengths
    return report, scraped


@check
def chat_completions():
    report, scraped = finishes("chat", "--streaming")
    assert report["time_to_first_token"]["min"] > 0, report
    equal(report["usage_completion_tokens"]["avg"], TOKENS)
    equal(scraped["summary"]["endpoints_successful"], [URL + "/metrics"])
    assert "vllm:time_to_first_token_seconds" in scraped["metrics"], scraped["metrics"].keys()


@check
def completions():
    finishes("completions", "--streaming")


@check
def responses():
    finishes("responses", "--streaming")


@check
def messages():
    finishes("messages", "--streaming")


@check
def errors():
    with tempfile.TemporaryDirectory() as folder:
        said = benchmark(folder, "chat", prompt_tokens=9000, expect=1)
    assert f"All {REQUESTS} inference request(s) failed" in said, said


main()
