"""`fathom serve` on several ranks: the answers of one, and an end when one of them fails."""

import json
import os
import resource
import signal
import tempfile
import threading
import time
import unittest
import unittest.mock
import urllib.error
import urllib.request
from pathlib import Path

from serve_test import STORY, post, stream, text_of
from server_process import BUILD, FathomServer, metric, wait_until

PAGE = os.sysconf("SC_PAGESIZE")
FATHOM = BUILD / "fathom"
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe")


def launched(n_ranks):
    return (FATHOM, "launch", "-n", str(n_ranks))


def children_of(pid):
    """Returns the child processes in ascending order, which is that of the ranks."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return sorted(found)


def is_gone_soon(pid):
    """Waits, because mpirun does not wait for the processes that it has ended."""
    for _ in range(300):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


class ServeRanksTest(unittest.TestCase):
    def serve(self, *arguments, **options):
        server = FathomServer("--threads", "1", *arguments, **options)
        self.addCleanup(server.kill)
        return server

    def stories(self, server):
        """The texts of eight streams at once: one prompt, and some that share its beginning."""
        events = [[] for _ in range(8)]
        bodies = [{**STORY, "prompt": STORY["prompt"] * (1 + i % 3), "seed": i, "max_tokens": 30}
                  for i in range(8)]
        threads = [threading.Thread(target=stream, args=(server.url, body, into))
                   for body, into in zip(bodies, events)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [text_of(one) for one in events]

    def test_any_ranks_answer_alike(self):
        alone = self.serve(launch=(FATHOM,))
        expected = self.stories(alone)
        self.assertEqual(alone.stop(), 0)
        for launch, options in ((launched(2), ()), (launched(2), ("--pp", "2")),
                                (launched(2), ("--decode-context-parallel",)),
                                (launched(4), ("--tp", "2", "--pp", "2")),
                                (launched(2), ("--dp-attention", "--max-sequences", "6")),
                                (launched(4), ("--dp-attention", "--pp", "2"))):
            with self.subTest(launch=launch[3], options=options):
                server = self.serve(*options, launch=launch)
                self.assertEqual(self.stories(server), expected)
                self.assertEqual(self.stories(server), expected, "from what is cached")
                self.assertEqual(server.stop(), 0)

    def test_a_chat_comes_back_to_its_data_rank(self):
        """Three at once: what each was told and answered is found again, on either rank."""
        server = self.serve("--dp-attention", "--max-sequences", "6", launch=launched(2))
        texts = [f"{name} went into the forest. " * 30 for name in ("Anna", "Bela", "Cora")]
        for turn in range(3):
            answers = [None] * len(texts)

            def ask(i):
                body = {**STORY, "prompt": texts[i], "max_tokens": 20}
                answers[i] = post(server.url, "/v1/completions", body)

            threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(texts))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for i, answer in enumerate(answers):
                usage = answer["usage"]
                cached = usage["prompt_tokens_details"]["cached_tokens"]
                self.assertGreater(usage["prompt_tokens"], 140)
                if turn > 0:
                    self.assertGreaterEqual(cached, 128, f"text {i} turn {turn}")
                texts[i] += answer["choices"][0]["text"]
        self.assertEqual(server.stop(), 0)

    def test_ranks_that_share_a_directory_find_their_blocks_again(self):
        """Ranks that have the same write it once; those that have parts, a file for each part."""
        body = {**STORY, "prompt": STORY["prompt"] * 60, "max_tokens": 20}
        texts = set()

        def files_of(launch, *options):
            with tempfile.TemporaryDirectory() as folder:
                for n_cached in (0, 128):
                    server = self.serve("--kv-disk", folder, *options, launch=launch)
                    answer = post(server.url, "/v1/completions", body)
                    self.assertEqual(server.stop(), 0)
                    texts.add(answer["choices"][0]["text"])
                    cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
                    self.assertEqual(cached, n_cached)
                return sum(path.is_file() for path in Path(folder).rglob("*"))

        alone = files_of((FATHOM,))
        self.assertGreater(alone, 1)
        self.assertEqual(files_of(launched(2)), alone)
        self.assertEqual(files_of(launched(2), "--decode-context-parallel"), 2 * alone)
        self.assertEqual(files_of(launched(2), "--pp", "2"), 2 * alone)
        self.assertEqual(len(texts), 1)

    def test_experts_that_move_are_counted_and_saved(self):
        alone = self.serve(launch=(FATHOM,))
        expected = self.stories(alone)
        self.assertEqual(metric(alone.url, "fathom_expert_rebalances_total"), 0)
        self.assertEqual(alone.stop(), 0)
        with tempfile.TemporaryDirectory() as folder:
            placement = Path(folder) / "experts.json"
            server = self.serve("--redundant-experts", "2", "--eplb-interval", "64",
                                "--save-expert-placement", placement, launch=launched(2))
            self.assertEqual(self.stories(server), expected)
            value = lambda name: metric(server.url, "fathom_expert_" + name)
            n_moved = value("moved_total")
            self.assertGreater(value("rebalances_total"), 0)
            self.assertGreater(n_moved, 0)
            self.assertGreater(value("moved_bytes_total"), n_moved)
            self.assertGreater(value("rebalance_seconds_total"), 0)
            self.assertGreaterEqual(value('imbalance{when="before"}'), 1)
            self.assertGreaterEqual(value('imbalance{when="after"}'), 1)
            self.assertLessEqual(value('imbalance{when="after"}'),
                                 value('imbalance{when="before"}'))
            self.assertEqual(server.stop(), 0)
            self.assertEqual([file.name for file in Path(folder).iterdir()], [placement.name])
            server = self.serve("--redundant-experts", "2", "--expert-placement", placement,
                                launch=launched(2))
            self.assertEqual(self.stories(server), expected)
            self.assertEqual(server.stop(), 0)

    @unittest.skipUnless((BUILD / "fathom_mpi.so").exists(), "this build has no MPI")
    def test_mpi_answers_alike(self):
        alone = self.serve(launch=(FATHOM,))
        body = {**STORY, "max_tokens": 8}
        expected = post(alone.url, "/v1/completions", body)["choices"]
        self.assertEqual(alone.stop(), 0)
        server = self.serve(launch=(*MPIRUN, "-n", "2", FATHOM))
        self.assertEqual(post(server.url, "/v1/completions", body)["choices"], expected)
        server.stop()  # mpirun has an exit code of its own for what it was told to end

    def expect_end(self, server, ranks, start, rank, cause):
        """All have ended within 10 s, with one message that has the cause."""
        self.assertNotEqual(server.process.wait(timeout=10), 0)
        self.assertLess(time.monotonic() - start, 10)
        server.stop()
        messages = [line for line in server.log if line.startswith("fathom: error: ")]
        self.assertEqual(len(messages), 1, server.log)
        self.assertIn(f"rank {rank}: {cause}", messages[0])
        for process in ranks:
            self.assertTrue(is_gone_soon(process), "a rank that is still there")

    def meet_signal(self, server, sent, cause):
        """Rank 1 meets a signal."""
        ranks = children_of(server.process.pid)
        start = time.monotonic()
        os.kill(ranks[1], sent)
        self.expect_end(server, ranks, start, 1, cause)

    def fail_while_answering(self, sent, cause):
        server = self.serve("--max-sequences", "2", launch=launched(2))
        body = {**STORY, "max_tokens": 60000}
        events = []
        codes = []

        def whole():
            try:
                post(server.url, "/v1/completions", body)
                codes.append(200)
            except urllib.error.HTTPError as error:
                codes.append(error.code)

        # One is streamed, one answered whole; the last waits for its turn.
        threads = [threading.Thread(target=stream, args=(server.url, body, events))]
        threads[0].start()
        wait_until(lambda: len(events) > 3)
        threads += [threading.Thread(target=whole) for _ in range(2)]
        for thread in threads[1:]:
            thread.start()
        wait_until(lambda: metric(server.url, "fathom_running") == 2)
        wait_until(lambda: metric(server.url, "fathom_waiting") == 1)
        self.meet_signal(server, sent, cause)
        for thread in threads:
            thread.join(timeout=10)
        self.assertEqual(codes, [503, 503])
        self.assertIn("error", json.loads(events[-1]))

    def run_out_of_memory(self, launch):
        """Rank 1 gets no more memory while it serves; then it needs some to be told a long batch."""
        # The allocator keeps nothing large that was freed.
        with unittest.mock.patch.dict(os.environ, MALLOC_MMAP_THRESHOLD_="65536",
                                      MALLOC_TOP_PAD_="0"):
            server = self.serve("--max-batch-tokens", "65536", "--max-sequences", "1",
                                launch=launch)
        codes = []

        def whole():
            try:
                post(server.url, "/v1/completions", {**STORY, "prompt": [7] * 60000, "max_tokens": 4})
                codes.append(200)
            except urllib.error.HTTPError as error:
                codes.append(error.code)

        # A short one holds the only place until two long ones wait.
        body = {**STORY, "max_tokens": 60000, "stream": True}
        request = urllib.request.Request(server.url + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as short:
            short.readline()
            threads = [threading.Thread(target=whole) for _ in range(2)]
            for thread in threads:
                thread.start()
            wait_until(lambda: metric(server.url, "fathom_waiting") == 2)
            ranks = children_of(server.process.pid)
            n_bytes = int(Path(f"/proc/{ranks[1]}/statm").read_text().split()[0]) * PAGE
            resource.prlimit(ranks[1], resource.RLIMIT_AS, (n_bytes, n_bytes))
            start = time.monotonic()
        self.expect_end(server, ranks, start, 1, "out of memory")
        for thread in threads:
            thread.join(timeout=10)
        self.assertEqual(codes, [503, 503])

    def test_a_rank_is_out_of_memory(self):
        self.run_out_of_memory(launched(2))

    @unittest.skipUnless((BUILD / "fathom_mpi.so").exists(), "this build has no MPI")
    def test_a_rank_of_mpi_is_out_of_memory(self):
        self.run_out_of_memory((*MPIRUN, "-n", "2", FATHOM))

    def test_a_rank_is_killed(self):
        self.fail_while_answering(signal.SIGKILL, "was killed by signal 9")

    def test_a_rank_is_stopped(self):
        self.fail_while_answering(signal.SIGSTOP, "has said nothing for 5 s")

    def test_a_rank_is_killed_while_nothing_is_asked(self):
        server = self.serve(launch=launched(2))
        self.meet_signal(server, signal.SIGKILL, "was killed by signal 9")

    def start_streams(self, server, n_tokens):
        streams = [[] for _ in range(2)]
        threads = [threading.Thread(target=stream, args=(
            server.url, {**STORY, "seed": i, "max_tokens": n_tokens}, events))
            for i, events in enumerate(streams)]
        for thread in threads:
            thread.start()
        wait_until(lambda: all(streams))
        return streams, threads

    def test_ctrl_c_lets_answers_finish(self):
        """The terminal sends the signal to every rank; a second signal would cut the answers."""
        keyboard, terminal = os.openpty()
        self.addCleanup(os.close, keyboard)
        self.addCleanup(os.close, terminal)
        server = self.serve("--drain-timeout", "100", launch=launched(2), terminal=terminal)
        streams, threads = self.start_streams(server, 600)
        os.write(keyboard, b"\x03")
        for thread in threads:
            thread.join()
        self.assertEqual(server.process.wait(timeout=60), 0)
        for events in streams:
            self.assertEqual(events[-1], "[DONE]")
            self.assertEqual(json.loads(events[-2])["choices"][0]["finish_reason"], "length")

    def test_a_second_signal_does_not_wait(self):
        server = self.serve("--drain-timeout", "1000", launch=launched(2))
        _, threads = self.start_streams(server, 60000)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        self.assertIsNone(server.process.poll(), "the first signal waits")
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(timeout=30), 0)
        for thread in threads:
            thread.join()

    def test_wrong_options_are_said_once(self):
        for options, part in ((("--tp", "3"), "--tp"),
                              (("--kv-disk", "/dev/null/blocks"), "/dev/null"),
                              (("--kv-memory", "64K"), "found 0.065 MB")):
            with self.subTest(options=options), self.assertRaises(AssertionError) as refused:
                self.serve(*options, launch=launched(2))
            lines = str(refused.exception).splitlines()
            self.assertEqual(lines[0], "fathom serve ended:")
            errors = [line for line in lines if line.startswith("fathom: error: ")]
            self.assertEqual(len(errors), 1, lines)
            self.assertIn(part, errors[0])


if __name__ == "__main__":
    unittest.main()
