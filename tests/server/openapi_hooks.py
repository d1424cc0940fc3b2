"""Hooks by which openapi_test tells Schemathesis what a schema cannot say.

A prompt that is made from the schema may be longer than the context: tools have fields of any size.
best_of must be at least n. An answer has one form. A schema, an expression or a grammar may be
wrong, or more than the server takes; all others are as any JSON object. Parts that are no text are
allowed in earlier turns alone, and servers of tools beside tools; a demanded call needs a tool that
is not deferred. Such requests are refused, and rightly so. Otherwise this check is the
one of Schemathesis.
"""

from schemathesis.checks import CHECKS

CONSTRAINT_CODES = ("unsupported_schema", "invalid_schema", "unsatisfiable_schema",
                    "constraint_too_large", "invalid_grammar", "constraint_too_complex",
                    "constraint_unsatisfiable")

accepts_positive_data = CHECKS.get_one("positive_data_acceptance")

def breaks_a_relation(response):
    if response.status_code != 400:
        return False
    error = response.json()["error"]
    if isinstance(error, str):  # Ollama's form
        error = {"message": error}
    return (error.get("code") == "context_length_exceeded"
            or error.get("code") in CONSTRAINT_CODES
            or "This model's maximum context length is" in error["message"]
            or "expected one form of the answer" in error["message"]
            or "this model reads text only and does not support" in error["message"]
            or "expected tools where one is required" in error["message"]
            or "mcp_servers: this server asks no other servers" in error["message"]
            or error["message"].startswith(("prompt is too long: ", "best_of: ")))


def positive_data_acceptance(context, response, case):
    if breaks_a_relation(response):
        return None
    return accepts_positive_data(context, response, case)


CHECKS.register(positive_data_acceptance)
