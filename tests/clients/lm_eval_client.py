"""lm-eval's generating tasks: local-completions and local-chat-completions."""

from checks import MODEL, check, equal, main, post
from lm_eval_task import evaluate

DOCUMENTS = [{"text": "Once upon a time there was a king", "answer": " who"},
             {"text": "The wolf said to the", "answer": " fox"},
             {"text": "There was once a poor widow", "answer": " who"}]
GENERATE = {"output_type": "generate_until", "doc_to_target": "{{answer}}",
            "generation_kwargs": {"until": ["\n"], "max_gen_toks": 12},
            "metric_list": [{"metric": "exact_match"}]}
ASK = {"model": MODEL, "max_tokens": 12, "temperature": 0, "stop": ["\n"]}


def texts_of(samples):
    return [sample["resps"][0][0] for sample in samples]


@check
def completions():
    expected = [post("/v1/completions", {**ASK, "prompt": one["text"]})["choices"][0]["text"]
                for one in DOCUMENTS]
    for arguments in (",tokenizer_backend=None", ",tokenizer_backend=None,num_concurrent=3"):
        equal(texts_of(evaluate("local-completions", "/v1/completions", DOCUMENTS, arguments,
                                **GENERATE)), expected)


@check
def chat_completions():
    expected = [post("/v1/chat/completions", {
        **ASK, "messages": [{"role": "user", "content": one["text"]}]})
        ["choices"][0]["message"]["content"] for one in DOCUMENTS]
    equal(texts_of(evaluate("local-chat-completions", "/v1/chat/completions", DOCUMENTS,
                            ",num_concurrent=3", ["--apply_chat_template"], **GENERATE)), expected)


main()
