"""Schemathesis against /openapi.json of a real server: no 5xx, nothing that its schema does not say.

FATHOM_SCHEMA_EXAMPLES: requests for each operation of the fuzzing phase (default 25).
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
        server = FathomServer("--context", "512", "--max-tokens", "8", "--log-level", "info")
        try:
            with tempfile.TemporaryDirectory() as folder:
                run = subprocess.run(
                    [Path(sys.executable).parent / "schemathesis", "run",
                     server.url + "/openapi.json", "--checks", "all", "--seed", "1",
                     # Prompts that are right but longer than this context are refused, and much is
                     # taken that the document does not promise, because clients send it.
                     "--exclude-checks", "positive_data_acceptance,negative_data_rejection",
                     "--max-examples", os.environ.get("FATHOM_SCHEMA_EXAMPLES", "25"),
                     "--continue-on-failure", "--suppress-health-check", "all",
                     "--request-timeout", "60", "--no-color"],
                    cwd=folder, capture_output=True, text=True, check=False)
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
