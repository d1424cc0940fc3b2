"""`fathom serve` as a program: options, files of options, logs, signals, clients that leave."""

import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from server_process import BUILD, FathomServer, get_json, metric, wait_until

STORY = {"prompt": "Once upon a time", "seed": 7, "ignore_eos": True}
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]


def post(url, path, body, key=None):
    fields = {"Content-Type": "application/json"}
    if key:
        fields["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(url + path, json.dumps(body).encode(), fields)
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)


def stream(url, body, events):
    """Appends the data of each event to `events`."""
    request = urllib.request.Request(
        url + "/v1/completions", json.dumps({**body, "stream": True}).encode(),
        {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as response:
        for line in response:
            if line.startswith(b"data: "):
                events.append(line[6:].strip().decode())


def text_of(events):
    return "".join(json.loads(event)["choices"][0]["text"] for event in events
                   if event != "[DONE]" and "choices" in json.loads(event))


class ServeTest(unittest.TestCase):
    def serve(self, *arguments, environment=None):
        server = FathomServer(*arguments, environment=environment)
        self.addCleanup(server.kill)
        return server

    def test_no_flags(self):
        server = self.serve()
        self.assertEqual(get_json(server.url + "/health"), {"status": "ok"})
        [model] = get_json(server.url + "/v1/models")["data"]
        self.assertEqual(model["id"], "fairy")
        self.assertIn("demonstration model: it writes fairy tales", model["description"])
        wait_until(lambda: any(model["description"] in line for line in server.log))
        served = post(server.url, "/v1/completions", {**STORY, "max_tokens": 40})
        program = subprocess.run(
            [BUILD / "fathom", "generate", "--json", "--seed", "7", "-n", "40", "--ignore-eos",
             STORY["prompt"]], capture_output=True, text=True, check=True)
        self.assertEqual(served["choices"][0]["text"], json.loads(program.stdout)["text"])
        self.assertEqual(server.stop(), 0)

    def test_default_chats_have_content(self):
        chat = {"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 30,
                "seed": 7, "ignore_eos": True}
        server = self.serve()
        message = post(server.url, "/v1/chat/completions", chat)["choices"][0]["message"]
        self.assertTrue(message["content"])
        self.assertNotIn("reasoning_content", message)
        response = post(server.url, "/v1/responses", {
            "input": "Tell me a story.", "max_output_tokens": 30, "ignore_eos": True})
        self.assertEqual([item["type"] for item in response["output"]], ["message"])
        answer = post(server.url, "/v1/messages", chat)
        self.assertEqual([block["type"] for block in answer["content"]], ["text"])
        # A budget ends the reasoning of a model that would not end it.
        for budget in (0, 5):
            answer = post(server.url, "/v1/messages", {
                **chat, "thinking": {"type": "enabled", "budget_tokens": budget}})
            types = [block["type"] for block in answer["content"]]
            self.assertEqual(types, ["thinking", "text"] if budget else ["text"])
        chosen = post(server.url, "/v1/chat/completions", {
            **chat, "enable_thinking": True, "thinking_token_budget": 5})
        self.assertEqual(chosen["usage"]["completion_tokens_details"]["reasoning_tokens"], 5)
        self.assertTrue(chosen["choices"][0]["message"]["content"])
        self.assertEqual(server.stop(), 0)

    def test_texts_score_as_they_were_generated(self):
        server = self.serve()
        told = post(server.url, "/v1/completions",
                    {**STORY, "max_tokens": 30, "logprobs": 2, "return_token_ids": True})
        choice = told["choices"][0]
        prompt = choice["prompt_token_ids"] + choice["token_ids"]
        scored = post(server.url, "/v1/completions",
                      {"prompt": prompt, "echo": True, "logprobs": 2, "max_tokens": 0})
        scores = scored["choices"][0]["logprobs"]
        self.assertEqual(len(scores["tokens"]), len(prompt))
        self.assertEqual(scores["token_logprobs"][0], None)
        generated = choice["logprobs"]
        for key in ("tokens", "token_logprobs", "top_logprobs"):
            self.assertEqual(scores[key][-30:], generated[key], key)
        self.assertEqual(scored["usage"]["completion_tokens"], 0)
        self.assertEqual(scored["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        # The text itself, in front of which the server puts the begin token.
        text = STORY["prompt"] + choice["text"]
        scored = post(server.url, "/v1/completions",
                      {"prompt": text, "echo": True, "logprobs": 2, "max_tokens": 0,
                       "prompt_logprobs": 1})["choices"][0]
        self.assertEqual(scored["text"], text)
        self.assertEqual("".join(scored["logprobs"]["tokens"]), text)
        self.assertEqual(scored["logprobs"]["token_logprobs"][-30:], generated["token_logprobs"])
        self.assertEqual(len(scored["prompt_logprobs"]), len(scored["logprobs"]["tokens"]) + 1)
        last = scored["prompt_logprobs"][-1][str(prompt[-1])]
        self.assertEqual(last["logprob"], generated["token_logprobs"][-1])
        events = []
        stream(server.url, {"prompt": text, "echo": True, "logprobs": 2, "max_tokens": 2,
                            "seed": 1}, events)
        streamed = [entry for event in events if event != "[DONE]"
                    for entry in json.loads(event)["choices"][0]["logprobs"]["token_logprobs"]]
        self.assertEqual(streamed[:-2], scored["logprobs"]["token_logprobs"])

    def test_clients_can_tokenize_as_the_server_does(self):
        server = self.serve()
        info = get_json(server.url + "/tokenizer_info")
        for token, ids in ((info["bos_token"], [0]), (info["eos_token"], [1])):
            self.assertEqual(post(server.url, "/tokenize",
                                  {"prompt": token, "add_special_tokens": False})["tokens"], ids)
        self.assertEqual(info["vocab_size"], 4096)

    def test_a_checkpoint_says_whether_it_thinks(self):
        fairy = Path(__file__).parents[2] / "models" / "fairy"
        with tempfile.TemporaryDirectory() as folder:
            for file in fairy.iterdir():
                if file.name != "generation_config.json":
                    Path(folder, file.name).symlink_to(file)
            Path(folder, "generation_config.json").write_text('{"eos_token_id": 1}')
            chat = {"messages": [{"role": "user", "content": "Tell me a story."}],
                    "max_tokens": 10, "seed": 7, "ignore_eos": True}
            server = self.serve("--model", folder)
            message = post(server.url, "/v1/chat/completions", chat)["choices"][0]["message"]
            self.assertTrue(message["reasoning_content"])
            answer = post(server.url, "/v1/messages", chat)
            self.assertNotIn("thinking", [block["type"] for block in answer["content"]],
                             "clients of Anthropic ask for it")
            self.assertEqual(server.stop(), 0)
            server = self.serve("--model", folder, "--thinking", "on")
            answer = post(server.url, "/v1/messages", chat)
            self.assertEqual([block["type"] for block in answer["content"]], ["thinking"])
            self.assertEqual(server.stop(), 0)
            run = subprocess.run([BUILD / "fathom", "chat", "--model", folder],
                                 input="/stats\n", capture_output=True, text=True, check=True)
            self.assertIn("thinking on", run.stdout)

    def test_file_of_options(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = Path(folder, "keys")
            keys.write_text("\ufefffirst\r\n\n second \n")  # as some editors write it
            config = Path(folder, "server.json")
            config.write_text("\ufeff" + json.dumps({
                "served-model-name": ["a", "b"], "api-key-file": str(keys), "max-model-len": 256,
                "strict-model-names": True, "thinking": False, "prefix-cache": False,
                "max-choices": 1, "temperature": 0}))
            server = self.serve("--config", str(config), "--max-choices", "3")
            with self.assertRaises(urllib.error.HTTPError) as refused:
                get_json(server.url + "/v1/models")
            self.assertEqual(refused.exception.code, 401)
            body = {**STORY, "max_tokens": 4, "model": "b", "n": 3}
            answer = post(server.url, "/v1/completions", body, key="second")
            self.assertEqual(len(answer["choices"]), 3, "the command line counts")
            self.assertEqual(len({choice["text"] for choice in answer["choices"]}), 1)
            del body["model"]
            self.assertEqual(post(server.url, "/v1/completions", body, key="first")["model"], "a")
            body["model"] = "b"
            with self.assertRaises(urllib.error.HTTPError) as refused:
                post(server.url, "/v1/completions", {**body, "model": "c"}, key="first")
            self.assertEqual(refused.exception.code, 404)
            self.assertEqual(server.stop(), 0)

    def test_settings_of_the_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder, "server.json")
            config.write_text(json.dumps({"served-model-name": "from-file", "api-key": "file",
                                          "max-sequences": 2, "admin-key": "root"}))
            server = self.serve(environment={
                "FATHOM_CONFIG": str(config), "FATHOM_API_KEY": "secret-key",
                "FATHOM_HOST": "127.0.0.2", "FATHOM_PORT": "tcp://10.0.0.1:8000"})
            self.assertIn("http://127.0.0.2:", server.url)
            body = {"prompt": "Once", "max_tokens": 1}
            answer = post(server.url, "/v1/completions", body, key="secret-key")
            self.assertEqual(answer["model"], "from-file")
            for key in (None, "file"):
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    post(server.url, "/v1/completions", body, key=key)
                self.assertEqual(refused.exception.code, 401)
            self.assertEqual(server.stop(), 0)
            self.assertNotIn("secret-key", "\n".join(server.log))
            server = self.serve("--api-key", "typed", "--host", "127.0.0.1", environment={
                "FATHOM_API_KEY": "secret-key", "FATHOM_HOST": "127.0.0.2", "FATHOM_PORT": "1"})
            self.assertIn("http://127.0.0.1:", server.url)
            post(server.url, "/v1/completions", body, key="typed")
            with self.assertRaises(urllib.error.HTTPError) as refused:
                post(server.url, "/v1/completions", body, key="secret-key")
            self.assertEqual(refused.exception.code, 401)

    def test_options_of_chats(self):
        def prompt(server, **fields):
            body = {"messages": [{"role": "user", "content": "Hi"}], **fields}
            return post(server.url, "/apply-template", body)["prompt"]

        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
        earlier = [{"role": "user", "content": [image]}, {"role": "assistant", "content": "a"},
                   {"role": "user", "content": "b"}]
        last = [{"role": "user", "content": [image]}]
        replaced = "<｜User｜>[Unsupported Image]<｜Assistant｜>"

        def texts_of_seeds(server):
            body = {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0,
                    "max_tokens": 24, "ignore_eos": True}
            answers = [post(server.url, "/v1/chat/completions", {**body, "seed": seed})
                       for seed in (1, 2)]
            return {answer["choices"][0]["message"]["reasoning_content"] for answer in answers}

        def refuses(server, messages):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                prompt(server, messages=messages)
            self.assertEqual(refused.exception.code, 400)
            self.assertIn("does not support image", refused.exception.read().decode())

        server = self.serve("--thinking", "on", "--prompt-profile", "v4-0731")
        usual = prompt(server)
        self.assertEqual(usual, prompt(server, reasoning_effort="high"))
        self.assertIn(replaced, prompt(server, messages=earlier))
        refuses(server, last)
        self.assertEqual(len(texts_of_seeds(server)), 1)
        self.assertEqual(server.stop(), 0)

        server = self.serve("--thinking", "on", "--prompt-profile", "v4-0731", "--default-effort",
                            "max", "--text-only-images", "all", "--like-hosted")
        self.assertNotEqual(prompt(server), usual)
        self.assertEqual(prompt(server), prompt(server, reasoning_effort="max"))
        self.assertEqual(prompt(server, reasoning_effort="high"), usual, "a request's own counts")
        self.assertIn(replaced, prompt(server, messages=last))
        self.assertEqual(len(texts_of_seeds(server)), 2, "reasoning has temperature 1")
        self.assertEqual(server.stop(), 0)

        server = self.serve("--default-effort", "none", "--text-only-images", "refuse")
        refuses(server, earlier)
        refuses(server, last)
        self.assertEqual(server.stop(), 0)
        for arguments, words in ((["--default-effort", "hard"], "ultra"),
                                 (["--text-only-images", "some"], "earlier all refuse")):
            run = subprocess.run([BUILD / "fathom", "serve", "--port", "0", *arguments],
                                 capture_output=True, text=True, check=False, timeout=60)
            self.assertEqual(run.returncode, 2)
            self.assertIn(words, run.stderr)

    def test_the_prefix_cache_is_cleared(self):
        server = self.serve("--admin-key", "root")
        body = {"prompt": "Once upon a time " * 60, "max_tokens": 1}

        def cached():
            usage = post(server.url, "/v1/completions", body)["usage"]
            return usage["prompt_tokens_details"]["cached_tokens"]
        self.assertEqual(cached(), 0)
        self.assertGreaterEqual(cached(), 128)
        self.assertEqual(post(server.url, "/reset_prefix_cache", {}, key="root"),
                         {"success": True})
        self.assertEqual(cached(), 0)
        self.assertGreaterEqual(cached(), 128)

    def test_admin_key(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = Path(folder, "keys")
            keys.write_text("root\n")
            server = self.serve("--admin-key-file", str(keys), "--admin-key", "other")
        streams, threads = self.start_streams(server, 1, 60000)
        for key in ("root", "other"):
            request = urllib.request.Request(server.url + "/slots", headers={"x-api-key": key})
            with urllib.request.urlopen(request, timeout=30) as response:
                slots = json.load(response)
            self.assertEqual([slot["path"] for slot in slots], ["/v1/completions"])
            self.assertGreater(slots[0]["prompt_tokens"], 0)
        with self.assertRaises(urllib.error.HTTPError) as refused:
            post(server.url, "/abort", {"request_id": slots[0]["id"]}, key="wrong")
        self.assertEqual(refused.exception.code, 401)
        aborted = post(server.url, "/abort", {"request_id": slots[0]["id"]}, key="root")
        self.assertEqual(aborted, {"request_id": slots[0]["id"], "aborted": 1})
        for thread in threads:
            thread.join()
        self.assertEqual(json.loads(streams[0][-1])["error"]["code"], "aborted")
        wait_until(lambda: metric(server.url, "fathom_running") == 0, seconds=5)
        self.assertEqual(server.stop(), 0)
        self.assertNotIn("root", "\n".join(server.log))

    def test_wrong_files_and_options(self):
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder, "server.json")
            for text, words in (("[1]", "expected a JSON object"), ("{", "expected a JSON object"),
                                ('{"prot": 1}', "--prot"), ('{"port": "x"}', "--port"),
                                ('{"config": "x"}', "cannot name another"),
                                ('{"port": {}}', "port: expected")):
                config.write_text(text)
                run = subprocess.run([BUILD / "fathom", "serve", "--config", str(config)],
                                     capture_output=True, text=True, check=False, timeout=60)
                self.assertEqual(run.returncode, 2, text)
                self.assertIn(words, run.stderr)
        for arguments, words in ((["--api-key-file", "/nowhere"], "/nowhere"),
                                 (["--admin-key-file", "/nowhere"], "--admin-key-file: "),
                                 (["--admin-key", ""], "--admin-key: expected a key"),
                                 (["--config", "/nowhere"], "/nowhere"),
                                 (["--host", "no.such.host.invalid"], "no.such.host.invalid")):
            run = subprocess.run([BUILD / "fathom", "serve", "--port", "0", *arguments],
                                 capture_output=True, text=True, check=False, timeout=60)
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(words, run.stderr)

    def test_a_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = str(other.getsockname()[1])
            run = subprocess.run([BUILD / "fathom", "serve", "--port", port],
                                 capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(run.returncode, 1)
        self.assertIn(port, run.stderr)
        self.assertIn("in use", run.stderr)

    def test_options_of_other_servers(self):
        server = self.serve("--max-model-len", "128", "--max-num-seqs", "2", "--tool-call-parser",
                            "deepseek_v4", "--enable-auto-tool-choice")
        self.assertEqual(get_json(server.url + "/v1/models")["data"][0]["max_model_len"], 128)
        self.assertEqual(server.stop(), 0)
        warnings = [event["message"] for event in server.events() if event["level"] == "warn"]
        self.assertEqual(len([w for w in warnings if "is ignored" in w]), 2)

    def warnings_of(self, *arguments):
        server = self.serve(*arguments)
        self.assertEqual(server.stop(), 0)
        return [event["message"] for event in server.events() if event["level"] == "warn"]

    def test_warnings_of_exposure(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = Path(folder, "keys")
            keys.write_text("key\n")
            keys.chmod(0o600)
            options = ["--api-key-file", str(keys)]
            self.assertEqual(self.warnings_of(), [])
            self.assertEqual(self.warnings_of("--host", "0.0.0.0", *options), [])
            open_to_all = self.warnings_of("--host", "0.0.0.0")
            self.assertEqual(len(open_to_all), 1, open_to_all)
            self.assertIn("may use this server", open_to_all[0])
            keys.chmod(0o644)
            for option in ("--api-key-file", "--admin-key-file"):
                readable = self.warnings_of(option, str(keys))
                self.assertEqual(len(readable), 1, readable)
                self.assertIn(option, readable[0])
                self.assertIn(str(keys), readable[0])
            config = Path(folder, "config")
            for option, n_warnings in (("port", 0), ("api-key", 1), ("admin-key", 1)):
                config.write_text(json.dumps({option: "0"}))
                config.chmod(0o644)
                readable = self.warnings_of("--config", str(config))
                self.assertEqual(len(readable), n_warnings, readable)
                self.assertTrue(all(f"--config: all users of this machine can read {config}" in line
                                    for line in readable), readable)
                config.chmod(0o600)
                self.assertEqual(self.warnings_of("--config", str(config)), [])

    def conversation(self, server, seed):
        """The tokens of a prompt, how many its answer has, and the response to what follows it.

        None if the answer does not end by itself. Hot enough that words are cut into tokens as no
        tokenizer would.
        """
        body = {"messages": [{"role": "user", "content": "Tell me a story."}], "tools": TOOLS,
                "enable_thinking": False, "seed": seed, "temperature": 1.5, "max_tokens": 600}
        prompt = post(server.url, "/tokenize", body)["tokens"]
        answer = post(server.url, "/v1/chat/completions", body)
        if answer["choices"][0]["finish_reason"] != "stop":
            return None
        n_tokens = answer["usage"]["completion_tokens"]
        body["messages"] += [answer["choices"][0]["message"], {"role": "user", "content": "More!"}]
        next_prompt = post(server.url, "/tokenize", body)["tokens"]
        answer = post(server.url, "/v1/chat/completions", {**body, "max_tokens": 1})
        return prompt, n_tokens, next_prompt, answer["usage"]["prompt_tokens_details"]

    def test_exact_replay(self):
        replays = self.serve("--exact-replay", "all")
        encodes = self.serve("--exact-replay", "off")
        n_covered = n_other = 0
        for seed in range(8):
            talk = self.conversation(replays, seed)
            if talk is None:
                continue
            prompt, n_tokens, next_prompt, usage = talk
            end = len(prompt) + n_tokens
            self.assertEqual(next_prompt[:len(prompt)], prompt)
            self.assertEqual(next_prompt[end - 1], 1, "the answer's own tokens, and its last")
            # All whole blocks of what was computed; the last token never was.
            self.assertGreaterEqual(usage["cached_tokens"], (end - 1) // 128 * 128)
            n_covered += 1
            encoded = self.conversation(encodes, seed)
            n_other += encoded[2] != next_prompt
        self.assertGreater(n_covered, 0)
        self.assertGreater(n_other, 0, "or this would not show that tokens are kept")
        self.assertEqual(metric(replays.url, "fathom_exact_replay_hits_total"), n_covered)
        self.assertEqual(metric(encodes.url, "fathom_exact_replay_hits_total"), 0)

    def test_texts_are_not_replayed_unasked(self):
        server = self.serve()
        for seed in range(8):
            self.conversation(server, seed)
        self.assertEqual(metric(server.url, "fathom_exact_replay_hits_total"), 0)

    def test_logs(self):
        server = self.serve()
        post(server.url, "/v1/completions", {**STORY, "max_tokens": 4})
        self.assertEqual(server.stop(), 0)
        record = [event for event in server.events() if event.get("path") == "/v1/completions"][0]
        self.assertEqual(record["status"], 200)
        self.assertEqual(record["completion_tokens"], 4)
        self.assertTrue(record["request_id"].startswith("req_"))
        self.assertNotIn("Once upon", "\n".join(server.log))
        server = self.serve("--log-requests", "full")
        post(server.url, "/v1/completions", {**STORY, "max_tokens": 4})
        self.assertEqual(server.stop(), 0)
        self.assertIn("Once upon", "\n".join(server.log))

    def start_streams(self, server, n, n_tokens):
        streams = [[] for _ in range(n)]
        threads = [threading.Thread(target=stream, args=(
            server.url, {**STORY, "seed": i, "max_tokens": n_tokens}, events))
            for i, events in enumerate(streams)]
        for thread in threads:
            thread.start()
        wait_until(lambda: all(streams))
        return streams, threads

    def test_sigterm_lets_answers_finish(self):
        server = self.serve("--drain-timeout", "100")
        streams, threads = self.start_streams(server, 8, 600)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.1", int(server.url.split(":")[-1])), timeout=5)
        for thread in threads:
            thread.join()
        self.assertEqual(server.process.wait(timeout=60), 0)
        for events in streams:
            self.assertEqual(events[-1], "[DONE]")
            self.assertEqual(json.loads(events[-2])["choices"][0]["finish_reason"], "length")

    def test_sigterm_cuts_what_takes_too_long(self):
        server = self.serve("--drain-timeout", "0.3")
        streams, threads = self.start_streams(server, 8, 60000)
        start = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join()
        self.assertEqual(server.process.wait(timeout=60), 0)
        self.assertLess(time.monotonic() - start, 10)
        for events in streams:
            self.assertIn("error", json.loads(events[-1]), "the last event says why")

    def test_a_second_signal_does_not_wait(self):
        server = self.serve("--drain-timeout", "1000")
        _, threads = self.start_streams(server, 2, 60000)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        server.process.send_signal(signal.SIGINT)
        self.assertEqual(server.process.wait(timeout=30), 0)
        for thread in threads:
            thread.join()

    def test_leaving_cancels(self):
        server = self.serve()
        for body in ({**STORY, "max_tokens": 60000, "stream": True},
                     {**STORY, "max_tokens": 60000}):
            text = json.dumps(body).encode()
            with socket.create_connection(("127.0.0.1", int(server.url.split(":")[-1]))) as client:
                client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                               b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" %
                               (len(text), text))
                wait_until(lambda: metric(server.url, "fathom_running") == 1)
            wait_until(lambda: metric(server.url, "fathom_running") == 0, seconds=5)
        cancelled = metric(server.url, 'fathom_requests_total{outcome="cancelled"}')
        self.assertEqual(cancelled, 2)
        self.assertEqual(server.stop(), 0)

    def test_the_chat_page_of_a_real_server(self):
        server = self.serve("--max-tokens", "200")
        run = subprocess.run(
            [sys.executable, Path(__file__).with_name("chat_page_test.py"), "--url",
             server.url + "/"], capture_output=True, text=True, check=False, timeout=300)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertEqual(server.stop(), 0)

    def test_many_prompts_at_once(self):
        server = self.serve()
        prompts = [f"Once upon a time there were {n}" for n in range(40)]
        answer = post(server.url, "/v1/completions",
                      {"prompt": prompts, "max_tokens": 8, "seed": 1})
        alone = [post(server.url, "/v1/completions", {"prompt": prompt, "max_tokens": 8, "seed": 1})
                 for prompt in prompts]
        self.assertEqual([choice["text"] for choice in answer["choices"]],
                         [one["choices"][0]["text"] for one in alone])
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
