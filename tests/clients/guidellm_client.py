"""GuideLLM: benchmarks by chat completions, completions and responses."""

import json
import tempfile
from pathlib import Path

from checks import MODEL, QUESTION, TOO_LONG, URL, check, command, equal, main

PROMPTS = [{"prompt": f"{QUESTION} ({i})", "output_tokens_count": 8} for i in range(4)]


def benchmark(path, prompts, profile):
    """Returns the report of a run in which each prompt is sent once."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "prompts.jsonl").write_text("".join(json.dumps(one) + "\n" for one in prompts))
        command("guidellm", "run", "--disable-console", "--profile", profile,
                "--backend", f"kind=openai_http,target={URL},model={MODEL},request_format={path}",
                "--constraint", f"kind=max_requests,count={len(prompts)}",
                "--data", "kind=json_file,path=prompts.jsonl",
                "--output", "kind=json,path=report.json", folder=folder, HF_HUB_OFFLINE="1")
        return json.loads(Path(folder, "report.json").read_text())["benchmarks"][0]


def finishes(path, profile):
    report = benchmark(path, PROMPTS, profile)
    equal(report["metrics"]["request_totals"],
          {"successful": 4, "errored": 0, "incomplete": 0, "total": 4})
    for request in report["requests"]["successful"]:
        assert request["output"]
        equal(request["output_metrics"]["text_tokens"], 8)


@check
def chat_completions():
    finishes("/v1/chat/completions", "kind=synchronous")


@check
def completions_at_once():
    finishes("/v1/completions", "kind=concurrent,streams=4")


@check
def responses():
    finishes("/v1/responses", "kind=throughput,max_concurrency=2")


@check
def errors():
    report = benchmark("/v1/chat/completions", [{"prompt": TOO_LONG}], "kind=synchronous")
    equal(report["metrics"]["request_totals"]["errored"], 1)


main()
