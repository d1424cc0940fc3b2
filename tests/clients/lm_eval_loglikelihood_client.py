"""lm-eval's log likelihoods, by local-completions with the server's own tokenizer.

The likelihood of what the model itself goes on with is known from generating it, so that the sums
of lm-eval are compared with numbers of the server that do not come from an echo.
"""

import math

from checks import MODEL, check, equal, main, post
from lm_eval_task import evaluate

TEXTS = ["Once upon a time there was a king", "The wolf said to the", "There was once a poor widow"]
N_TOKENS = 4
REMOTE = ",tokenizer_backend=remote"


def tokens_of(text):
    return post("/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"]


def greedy(prompt):
    """Returns the text that the model goes on with, and the sum of its log probabilities."""
    choice = post("/v1/completions", {"model": MODEL, "prompt": prompt, "max_tokens": N_TOKENS,
                                      "temperature": 0, "logprobs": 1})["choices"][0]
    return choice["text"], sum(choice["logprobs"]["token_logprobs"])


def check_choices(prompt_of, arguments, options=()):
    """prompt_of: what the server gets of a text, which lm-eval sends as tokens or as text."""
    documents, expected = [], []
    for text in TEXTS:
        more, likelihood = greedy(prompt_of(text))
        equal(tokens_of(text + more)[:len(tokens_of(text))], tokens_of(text))
        equal(len(tokens_of(text + more)), len(tokens_of(text)) + N_TOKENS)
        documents.append({"text": text, "choices": [more, " nobody knew the"]})
        expected.append(likelihood)
    samples = evaluate(
        "local-completions", "/v1/completions", documents, arguments, options,
        output_type="multiple_choice", doc_to_choice="{{choices}}", doc_to_target=0,
        metric_list=[{"metric": "acc"}])
    equal(len(samples), len(TEXTS))
    for sample, likelihood in zip(samples, expected):
        # Each answer is [log likelihood, is greedy], which lm-eval may have written as text.
        (best, best_is_greedy), (other, other_is_greedy) = (
            [(float(pair[0]), str(pair[1]) == "True") for (pair,) in sample["resps"]])
        # Equal but for the order of lm-eval's sum.
        assert math.isclose(best, likelihood, abs_tol=1e-6), (best, likelihood)
        equal((best_is_greedy, other_is_greedy), (True, False))
        assert -math.inf < other < 0, other


@check
def choices_as_tokens():
    check_choices(tokens_of, REMOTE + ",tokenized_requests=True")


@check
def choices_as_text():
    check_choices(lambda text: text, REMOTE + ",tokenized_requests=False")


@check
def choices_in_batches():
    check_choices(tokens_of, REMOTE + ",tokenized_requests=True", ["--batch_size", "3"])
    check_choices(lambda text: text, REMOTE + ",tokenized_requests=False,num_concurrent=3")


@check
def perplexity():
    # lm-eval takes <｜begin▁of▁sentence｜> for absent because its id is 0, hence the argument.
    more, likelihood = greedy([0])
    samples = evaluate(
        "local-completions", "/v1/completions", [{"text": more}],
        REMOTE + ",custom_prefix_token_id=0", output_type="loglikelihood_rolling", doc_to_text="",
        doc_to_target="{{text}}", metric_list=[{"metric": "word_perplexity"}])
    found = float(samples[0]["resps"][0][0])
    assert math.isclose(found, likelihood, abs_tol=1e-6), (found, likelihood)


main()
