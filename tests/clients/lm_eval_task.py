"""Runs lm-eval on a task that is written here: no data set is downloaded."""

import json
import tempfile
from pathlib import Path

from checks import MODEL, URL, command


def evaluate(model, path, documents, arguments="", options=(), **task):
    """Returns the samples of a run on the documents, in their order.

    model: a kind of lm-eval, which asks the server's `path`; `arguments` are further ones for it.
    task: what is special in the task's description.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "tale.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents))
        Path(folder, "tale.yaml").write_text(json.dumps({  # JSON is YAML
            "task": "tale", "dataset_path": "json", "test_split": "test",
            "dataset_kwargs": {"data_files": {"test": "tale.jsonl"}},
            "doc_to_text": "{{text}}", "target_delimiter": "", **task}))
        command("lm-eval", "run", "--model", model, "--model_args",
                f"model={MODEL},base_url={URL}{path},max_retries=1{arguments}", "--tasks", "tale",
                "--include_path", ".", "--output_path", "out", "--log_samples", *options,
                folder=folder, HF_HUB_OFFLINE="1", HF_HOME=folder)
        found = next(Path(folder, "out").rglob("samples_tale_*.jsonl"))
        samples = [json.loads(line) for line in found.read_text().splitlines()]
    return sorted(samples, key=lambda sample: sample["doc_id"])
