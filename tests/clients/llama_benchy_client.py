"""llama-benchy: benchmarks of prefill and decoding by chat completions."""

import functools
import json
import tempfile
import threading
import urllib.request
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from checks import MODEL, QUESTION, URL, check, command, equal, main

TOKENIZER = Path(__file__).resolve().parents[2] / "models" / "fairy"
RUNS = 2
folder = tempfile.TemporaryDirectory()


class Book(SimpleHTTPRequestHandler):
    """Serves the text from which the program cuts its prompts."""

    def __init__(self, *arguments):
        super().__init__(*arguments, directory=folder.name)

    def log_message(self, *_):
        pass


Path(folder.name, "book.txt").write_text(f"{QUESTION} Once upon a time there was a fox.\n" * 2000)
book = ThreadingHTTPServer(("127.0.0.1", 0), Book)
threading.Thread(target=book.serve_forever, daemon=True).start()


def benchmark(*arguments, expect=0):
    """Returns the output of runs with answers of 16 tokens, and their reports."""
    report = Path(folder.name, "report.json")
    report.write_text('{"benchmarks": []}')
    # The toy knows no capital, so the question for one, a test of coherence, is left out.
    said = command("llama-benchy", "--base-url", URL + "/v1", "--model", MODEL,
                   "--tokenizer", TOKENIZER, "--book-url",
                   f"http://127.0.0.1:{book.server_address[1]}/book.txt", "--skip-coherence",
                   "--tg", "16", "--exact-tg", "--runs", str(RUNS), "--exit-on-first-fail",
                   "--format", "json", "--save-result", report, *arguments, folder=folder.name,
                   expect=expect, HOME=folder.name, HF_HUB_OFFLINE="1")
    return said, json.loads(report.read_text())["benchmarks"]


def finished(one):
    equal([len(one[kind]["values"]) for kind in ("pp_throughput", "tg_throughput")], [RUNS] * 2)
    assert min(one["pp_throughput"]["values"] + one["tg_throughput"]["values"]) > 0, one


@check
def prefill_and_decoding():
    _, reports = benchmark("--pp", "256", "512", "--no-cache")
    equal([(one["prompt_size"], one["response_size"]) for one in reports], [(256, 16), (512, 16)])
    for one in reports:
        finished(one)


@check
def concurrent_requests():
    _, reports = benchmark("--pp", "64", "--concurrency", "1", "4")
    equal([one["concurrency"] for one in reports], [1, 4])
    for one in reports:
        finished(one)
    equal([len(one["tg_req_throughput"]["values"]) for one in reports], [RUNS, 4 * RUNS])


@check
def prefix_caching():
    before = tokens_from_the_cache()
    _, reports = benchmark("--pp", "64", "--depth", "1024", "--enable-prefix-caching")
    equal([one["is_context_prefill_phase"] for one in reports], [True, False])
    finished(reports[1])
    # Each run with a question reuses the context that the run before it has read.
    assert tokens_from_the_cache() - before > RUNS * 1000


def tokens_from_the_cache():
    with urllib.request.urlopen(URL + "/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return max(int(line.split()[-1]) for line in lines
               if line.startswith("vllm:prefix_cache_hits_total"))


@check
def errors():
    said, _ = benchmark("--pp", "9000", "--no-adapt-prompt", expect=1)
    assert "maximum context length" in said, said


main()
