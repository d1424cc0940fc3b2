"""genai-bench, the command line program: benchmarks of chat completions, sheets and plots."""

import json
import tempfile
from pathlib import Path

from checks import MODEL, URL, check, command, equal, main

TOKENIZER = Path(__file__).resolve().parents[2] / "models" / "fairy"


def benchmark(scenario, *concurrencies):
    """Returns the reports of the runs, and the names of the files that the program wrote."""
    with tempfile.TemporaryDirectory() as folder:
        levels = [word for one in concurrencies for word in ("--num-concurrency", str(one))]
        command("genai-bench", "benchmark", "--api-backend", "openai", "--api-base", URL,
                "--api-key", "none", "--task", "text-to-text", "--api-model-name", MODEL,
                "--model-tokenizer", TOKENIZER, "--traffic-scenario", scenario, *levels,
                "--max-requests-per-run", "4", "--max-time-per-run", "1", "--experiment-base-dir",
                folder, "--experiment-folder-name", "run", folder=folder, HOME=folder,
                HF_HUB_OFFLINE="1")
        files = sorted(Path(folder, "run").iterdir())
        reports = [json.loads(file.read_text()) for file in files
                   if "num_concurrency" in file.name]
        return reports, [file.name for file in files]


@check
def chat_completions():
    reports, files = benchmark("D(64,8)", 1, 2)
    equal([one["aggregated_metrics"]["num_concurrency"] for one in reports], [1, 2])
    for one in reports:
        equal(one["aggregated_metrics"]["error_codes_frequency"], {})
        assert one["individual_request_metrics"]
        for request in one["individual_request_metrics"]:
            assert 0 < request["num_output_tokens"] <= 8, request
            assert 0 < request["ttft"] < request["e2e_latency"], request
    assert "run_summary.xlsx" in files and any(name.endswith(".png") for name in files), files


main()
