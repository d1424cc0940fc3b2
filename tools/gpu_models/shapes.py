"""The sizes of DeepSeek-V4-Flash, read from the function that writes its slices."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "src" / "measure" / "slice" / "shapes.cc"
STREAMS = 4
GATES = 24  # rows of fn: 4 + 4 + 16
MIX_CHAIN = 192  # kMixChain of device/hyper_connection.h

FIELDS = ["vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "head_dim",
          "qk_rope_head_dim", "q_lora_rank", "o_groups", "o_lora_rank", "sliding_window",
          "index_n_heads", "index_head_dim", "index_topk", "moe_intermediate_size",
          "n_routed_experts", "num_experts_per_tok", "num_hash_layers", "hc_sinkhorn_iters"]


@dataclass(frozen=True)
class Shape:
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    head_dim: int
    qk_rope_head_dim: int
    q_lora_rank: int
    o_groups: int
    o_lora_rank: int
    sliding_window: int
    index_n_heads: int
    index_head_dim: int
    index_topk: int
    moe_intermediate_size: int
    n_routed_experts: int
    num_experts_per_tok: int
    num_hash_layers: int
    hc_sinkhorn_iters: int

    @property
    def key_bytes(self):
        """kernels/key_layout.h: codes, rotated dimensions in bf16, a scale per 64."""
        plain = self.head_dim - self.qk_rope_head_dim
        return -(-(plain + 2 * self.qk_rope_head_dim + plain // 64) // 8) * 8


def read_flash(path=SOURCE):
    body = re.search(r"ModelConfig FlashConfig\(\) \{(.*?)\n\}", path.read_text(), re.DOTALL)
    values = dict(re.findall(r"config\.(\w+) = ([\d']+);", body.group(1) if body else ""))
    missing = [name for name in FIELDS if name not in values]
    if missing:
        raise ValueError(f"{path}, FlashConfig: expected {', '.join(missing)}, found none")
    return Shape(**{name: int(values[name].replace("'", "")) for name in FIELDS})


def published_ratios(n_layers):
    """PublishedRatios of the same file for Flash: 0 twice, then 4 and 128 in turn."""
    return [0 if i < 2 else 4 if i % 2 == 0 else 128 for i in range(n_layers)]
