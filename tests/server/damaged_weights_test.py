"""Weights that change while they are used: every request ends with an error, and the program."""

import json
import os
import shutil
import struct
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
from pathlib import Path

from serve_test import STORY, post, stream
from server_process import BUILD, PROJECT, FathomServer, metric, wait_until

FATHOM = BUILD / "fathom"
LOST = ".safetensors: cannot read byte "
UNKNOWN_EXPERT = "the table of experts by token: expected an expert of the layer"


def launched(n_ranks):
    return (FATHOM, "launch", "-n", str(n_ranks))


def truncate(model):
    for shard in model.glob("*.safetensors"):
        os.truncate(shard, 8)


def overwrite_expert_tables(model):
    for shard in model.glob("model-*.safetensors"):
        with open(shard, "r+b") as file:
            n_bytes = struct.unpack("<Q", file.read(8))[0]
            for name, tensor in json.loads(file.read(n_bytes)).items():
                if name.endswith("tid2eid"):
                    begin, end = tensor["data_offsets"]
                    file.seek(8 + n_bytes + begin)
                    file.write(b"\x77" * (end - begin))


class DamagedWeightsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model = Path(folder.name) / "fairy"
        shutil.copytree(PROJECT / "models" / "fairy", self.model)

    def damage_while_answering(self, damage, cause, *options, launch=(FATHOM,)):
        server = FathomServer("--model", self.model, "--threads", "1", "--max-sequences", "2",
                              *options, launch=launch)
        self.addCleanup(server.kill)
        events = []
        codes = []

        def whole():
            try:
                post(server.url, "/v1/completions", {**STORY, "max_tokens": 60000})
                codes.append(200)
            except urllib.error.HTTPError as error:
                codes.append(error.code)

        # One is streamed, one answered whole; the last waits for its turn.
        threads = [threading.Thread(target=stream,
                                    args=(server.url, {**STORY, "max_tokens": 60000}, events))]
        threads[0].start()
        wait_until(lambda: len(events) > 3)
        threads += [threading.Thread(target=whole) for _ in range(2)]
        for thread in threads[1:]:
            thread.start()
        wait_until(lambda: metric(server.url, "fathom_running") == 2)
        wait_until(lambda: metric(server.url, "fathom_waiting") == 1)
        start = time.monotonic()
        damage(self.model)
        self.assertEqual(server.process.wait(timeout=20), 1)
        self.assertLess(time.monotonic() - start, 10)
        server.stop()
        for thread in threads:
            thread.join(timeout=10)
        self.assertEqual(codes, [503, 503])
        self.assertIn(cause, json.loads(events[-1])["error"]["message"])
        errors = [line for line in server.log if line.startswith("fathom: error: ")]
        self.assertEqual(len(errors), 1, server.log)
        self.assertIn(cause, errors[0])
        return server

    def test_a_truncated_shard(self):
        server = self.damage_while_answering(truncate, LOST)
        reports = [line for line in server.log if line.startswith(f"fathom: {self.model}/model-")]
        self.assertEqual(len(reports), 1, server.log)
        self.assertIn(LOST, reports[0])

    def test_a_truncated_shard_of_ranks(self):
        for options in ((), ("--pp", "2"), ("--dp-attention",)):
            with self.subTest(options=options):
                shutil.copytree(PROJECT / "models" / "fairy", self.model, dirs_exist_ok=True)
                # Each rank meets it; the request is told of one of them, or of a rank that is gone.
                server = self.damage_while_answering(truncate, "", *options, launch=launched(2))
                self.assertTrue(any(LOST in line for line in server.log), server.log)

    def test_an_overwritten_table(self):
        self.damage_while_answering(overwrite_expert_tables, UNKNOWN_EXPERT)

    def test_an_overwritten_table_of_ranks(self):
        self.damage_while_answering(overwrite_expert_tables, UNKNOWN_EXPERT, launch=launched(2))

    def test_a_program_that_writes(self):
        """generate and batch end with the error, after what they have written before."""
        requests = self.model / "requests.jsonl"
        body = {**STORY, "max_tokens": 60000}
        quick = {**STORY, "max_tokens": 4}
        requests.write_text("".join(json.dumps(
            {"custom_id": str(i), "method": "POST", "url": "/v1/completions",
             "body": quick if i == 0 else body}) + "\n" for i in range(3)))
        for command in (("generate", "Once", "-n", "60000", "--ignore-eos"),
                        ("batch", requests, "-")):
            with self.subTest(command=command[0]):
                shutil.copytree(PROJECT / "models" / "fairy", self.model, dirs_exist_ok=True)
                program = subprocess.Popen([FATHOM, *command, "--model", self.model],
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self.assertNotEqual(program.stdout.read(1), b"")
                truncate(self.model)
                _, log = program.communicate(timeout=60)
                self.assertEqual(program.returncode, 1, log)
                self.assertIn(LOST, log.decode().rpartition("fathom: error: ")[2])


if __name__ == "__main__":
    unittest.main()
