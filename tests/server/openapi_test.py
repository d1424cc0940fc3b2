"""Schemathesis against /openapi.json of a real server, with all checks: the server takes what its
schema allows, refuses what it forbids, and answers with nothing that it does not say; no 5xx.

FATHOM_SCHEMA_EXAMPLES: requests for each operation of the fuzzing phase (default 25).
FATHOM_SCHEMA_SEED: of the requests (default 1).
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from server_process import FathomServer


class OpenApiTest(unittest.TestCase):
    def test_requests_made_from_the_schema(self):
        # The context has room for nearly every prompt that is made here, and ends the answers of
        # requests for 2^63 tokens.
        server = FathomServer("--context", "2048", "--max-tokens", "8", "--log-level", "info")
        try:
            with tempfile.TemporaryDirectory() as folder:
                run = subprocess.run(
                    [Path(sys.executable).parent / "schemathesis", "run",
                     server.url + "/openapi.json", "--checks", "all",
                     "--seed", os.environ.get("FATHOM_SCHEMA_SEED", "1"),
                     "--max-examples", os.environ.get("FATHOM_SCHEMA_EXAMPLES", "25"),
                     "--continue-on-failure", "--suppress-health-check", "all",
                     "--request-timeout", "60", "--max-response-time", "60", "--no-color"],
                    cwd=folder, capture_output=True, text=True, check=False,
                    env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parent),
                                      "SCHEMATHESIS_HOOKS": "openapi_hooks"})
            self.assertEqual(run.returncode, 0, run.stdout[-20000:] + run.stderr[-2000:])
        finally:
            code = server.stop()
            server.kill()
        self.assertEqual(code, 0)
        statuses = {event.get("status", 0) for event in server.events()}
        self.assertIn(200, statuses)
        self.assertIn(400, statuses)
        self.assertFalse({status for status in statuses if status >= 500}, "a server error")


if __name__ == "__main__":
    unittest.main()
