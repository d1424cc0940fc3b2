"""The kernels that are being written (gpu_review.md 3.3): launches of a layer, in their order.

Where a kernel is not written yet its grid is a plan, too. Titles are titles of the gauge's loops; a
file that lacks one is refused. What a kernel does beside its loop is in steps, counted from its
source or planned.
"""

from dataclasses import replace

from . import old_kernels
from .batch import chosen_slots, needs_index, steps_of, visible, window_slots
from .cost import Launch, Loop, Steps
from .old_kernels import (ATTEND, BYTES, EXPERTS, FP4_BYTES, LARGE, MIX, QUANTISE, REST, SMALL,
                          by_number, weight_wait)
from .shapes import GATES, MIX_CHAIN, STREAMS

NAME = "after"
OPERATIONS = old_kernels.OPERATIONS

# Loops of a product by the rows of activations of a pass over the weights.
PRODUCTS = {kernel: {1: f"{kernel}, 1 row", 4: f"{kernel}, 4 rows", 16: f"{kernel}, tile"}
            for kernel in ("LinearFp8", "LinearByBlocks", "LinearPlain")}
EXPERT_LOOPS = {"ExpertHidden": {1: "ExpertHidden, FP4", 16: "ExpertHidden, FP4 tile"},
                "ExpertOutput": {1: "ExpertOutput, FP4", 16: "ExpertOutput, FP4 tile"}}
CHAINS, SCORES, VALUES = "HcChains, chains", "AttentionScores, scores", "AttentionValues, values"
INDEX, NORM = "IndexScores, scores", "RmsNorm, sum"

ROWS_OF_BLOCK = 8  # rows of a weight: four threads each, eight warps divide the columns
TILE_WEIGHTS, TILE_ROWS = 64, 16  # of a block with many rows
TILE_FROM = 32  # rows from which on tiles are used
COLUMNS_AHEAD = 512  # columns of a tile that are loaded ahead
SCORE_HEADS = 16  # heads of a block that scores 64 slots
VALUE_DIMS = 32  # dimensions of a block of values, of 8 heads
VALUE_HEADS = 8
CHAIN_ROWS = 32  # rows of streams of a block of chains


def rows_of_pass(loops, rows):
    if rows >= TILE_FROM:
        return TILE_ROWS
    return max(n for n in loops if n <= rows and n < TILE_ROWS)


def product_phases(title, blocks, weights, k, n_rows, numbers, far):
    """weights: rows of the weight of a block; n_rows: rows of activations of a pass."""
    stage = Steps(1, {"l2": 1, "barrier": 1, "slot": 4.5 * n_rows * k / 256}, 256 * blocks)
    longest = weights * k * n_rows / 256
    if n_rows < TILE_ROWS:
        return (stage, Loop(title, numbers, longest, {far: 1}),
                Steps(1, {"barrier": 1, "shared": 2, "slot": 2 * k / 128 + 20}))
    return (stage, Loop(title, numbers, longest, {"shared": 1}),
            Steps(k / COLUMNS_AHEAD, {far: 1, "barrier": 2}))


def product(operation, kernel, n, k, rows):
    """The activations go to shared memory as fp32 once per block; sums of blocks of 128 columns
    meet there."""
    n_rows = rows_of_pass(PRODUCTS[kernel], rows)
    passes = -(-rows // n_rows)
    title = PRODUCTS[kernel][n_rows]
    of_block = ROWS_OF_BLOCK if n_rows < TILE_ROWS else TILE_WEIGHTS
    blocks = -(-n // of_block) * passes
    far, = weight_wait(rows)
    phases = product_phases(title, blocks, of_block, k, n_rows, n * k * n_rows * passes, far)
    return Launch(operation, kernel, blocks, phases, title,
                  bytes=n * k * BYTES[kernel] + rows * (k + 4 * n))


def together(operation, kernel, *parts):
    return Launch(operation, kernel, beside=parts)


def quantise(rows, k):
    step = {"l2": 1, "shuffle": 8, "division": 1, "slot": 150}
    return Launch(QUANTISE, "QuantizeRows", -(-rows * k // 2048),
                  (Steps(1, step, rows * k / 8),), bytes=3 * rows * k)


def norm(rows, cols):
    """The sum by one wave, then the numbers and their codes."""
    return Launch(REST, "RmsNorm", rows,
                  (Loop(NORM, 2 * rows * cols, cols / 16, {"l1": 1}),
                   Steps(1, {"l2": 1, "shuffle": 4, "division": 3, "barrier": 1}),
                   Steps(cols / 2048, {"l1": 1, "shuffle": 4, "division": 1, "slot": 250},
                         256 * rows)), NORM, bytes=5 * rows * cols)


def mix(shape, rows, is_head=False):
    """A block per chain of columns and CHAIN_ROWS rows; then blocks for u, one of them for the
    Sinkhorn iterations on 16 lanes."""
    width = STREAMS * shape.hidden_size
    mixes = STREAMS if is_head else GATES
    chains = -(-width // MIX_CHAIN)
    far = "memory" if rows <= old_kernels.FEW_ROWS else "l2"
    tiles = -(-rows // CHAIN_ROWS)
    first = Launch(MIX, "HcChains", chains * tiles,
                   (Steps(2, {far: 1, "slot": 60, "barrier": 0.5}, 256 * chains * tiles),
                    Loop(CHAINS, rows * width * (mixes + 1), MIX_CHAIN * min(4, rows),
                         {"shared": 1})),
                   CHAINS, (mixes + min(rows, CHAIN_ROWS)) * MIX_CHAIN * 4,
                   bytes=4 * mixes * width + 2 * rows * width)
    halves = 0 if is_head else 2 * shape.hc_sinkhorn_iters
    blocks = rows * (-(-shape.hidden_size // 2048) + (not is_head))
    sums = Steps(1, {"l2": 2, "barrier": 2, "slot": 4 * chains + 100, "shared": chains / 16},
                 256 * blocks)
    gates = Steps(1, {"division": 3, "shuffle": 1, "slot": 150})
    sinkhorn = Steps(halves, {"shuffle": 2, "division": 1, "slot": 16}, 32 * rows)
    second = Launch(MIX, "HcPre", blocks, (sums, gates, sinkhorn), 40, 12288,
                    bytes=2 * rows * (width + shape.hidden_size))
    return [first, second]


def store_rows(shape, batch, ratio):
    """Inputs of the compressors that later steps need, and the key of the window."""
    rows = batch.rows
    inputs = 0 if not ratio else shape.head_dim * (2 if ratio == 4 else 1)
    inputs += 2 * shape.index_head_dim if ratio == 4 else 0
    keep = [by_number("KeepInputs", rows * inputs, 250, 3, 16 * rows * inputs)] if inputs else []
    return together(REST, "StoreRows", *keep, old_kernels.append_window(shape, rows))


def compress(shape, batch, ratio):
    """The rows that tokens complete, of both compressors in one launch."""
    widths = [shape.head_dim] + ([shape.index_head_dim] if ratio == 4 else [])
    parts = []
    for width in widths:
        rows = old_kernels.compressor(shape, batch, width, ratio)[3]
        parts.append(Launch(REST, "CompressRows", rows.blocks, rows.phases, rows.registers))
    return together(REST, "CompressRows", *parts)


def products_of_u(shape, batch, ratio):
    rows, hidden = batch.rows, shape.hidden_size
    parts = [product(SMALL, "LinearFp8", shape.q_lora_rank + shape.head_dim, hidden, rows)]
    plain = 0
    if ratio:
        plain += 2 * shape.head_dim * (2 if ratio == 4 else 1)
    if ratio == 4:
        plain += 4 * shape.index_head_dim
        plain += shape.index_n_heads if needs_index(shape, batch) else 0
    if plain:
        parts.append(product(SMALL, "LinearPlain", plain, hidden, rows))
    return together(SMALL, "products of u", *parts)


def heads_and_keys(shape, batch, ratio):
    parts = [old_kernels.query_heads(shape, batch.rows), old_kernels.window_keys(shape, batch.rows)]
    if ratio == 4 and needs_index(shape, batch):
        parts.append(old_kernels.choose_rows(shape, batch)[2])
    return together(REST, "heads and keys", *parts)


def choose_rows(shape, batch):
    """The scores by the loop of the gauge; the choice as old_kernels."""
    launches = old_kernels.choose_rows(shape, batch)
    if not needs_index(shape, batch):
        return launches
    rows, heads, dims = batch.rows, shape.index_n_heads, shape.index_head_dim
    scored = batch.mean(lambda position: visible(position, 4)
                        if visible(position, 4) > shape.index_topk else 0)
    blocks = rows * -(-scored // 16)
    score = Loop(INDEX, rows * scored * heads * dims, heads / 16 * dims, {"l1": 1})
    return [Launch(REST, "IndexScores", blocks, (score,), INDEX,
                   bytes=rows * scored * (dims / 2 + 4)), launches[-1]]


def attention(shape, batch, ratio):
    """Scores of 64 slots for some heads, with the keys widened once; weights; then sums in the
    order of the slots, per dimension."""
    rows, heads, dims = batch.rows, shape.num_attention_heads, shape.head_dim
    slots = batch.mean(lambda position: window_slots(shape, position)
                       + chosen_slots(shape, position, ratio))
    busy = batch.mean(lambda position: steps_of(window_slots(shape, position))
                      + steps_of(chosen_slots(shape, position, ratio)))
    blocks = rows * busy * heads / SCORE_HEADS
    widen = {"l2": 3, "barrier": 2, "slot": 64 * dims / 256 * 2.5}
    scores = Launch(ATTEND, "AttentionScores", blocks,
                    (Steps(1, widen, 256 * blocks),
                     Loop(SCORES, blocks * 64 * SCORE_HEADS * dims, 64 * SCORE_HEADS * dims / 256,
                          {"shared": 1})),
                    SCORES, 32768, bytes=rows * slots * shape.key_bytes)
    softmax = {"shuffle": 6, "shared": 2, "slot": 60}
    weights = Launch(ATTEND, "AttentionWeights", rows * heads,
                     (Steps(1, {"l2": 1}), Steps(busy, softmax, 64 * rows * heads)), 40)
    of_values = rows * heads / VALUE_HEADS * dims / VALUE_DIMS
    values = Launch(ATTEND, "AttentionValues", of_values,
                    (Steps(busy, {"l2": 1, "barrier": 2, "slot": 64 * VALUE_DIMS / 256 * 2.5},
                           256 * of_values),
                     Loop(VALUES, rows * slots * heads * dims, slots, {"shared": 0.25}),
                     Steps(1, {"division": 1, "slot": 60})),
                    VALUES, 16384, bytes=rows * slots * shape.key_bytes)
    return [scores, weights, values]


def router(shape, rows, is_hash):
    k = shape.num_experts_per_tok
    write = Steps(1, {"l2": 1, "barrier": 2, "shared": 4, "division": 2, "slot": 200})
    score = Steps(1, {"l2": 3, "slot": 111}, 256 * rows)
    if is_hash:
        return Launch(REST, "RouteByToken", rows, (score, write))
    choose = Steps(k, {"shuffle": 10, "shared": 2, "slot": 120}, 32 * rows)
    return Launch(REST, "Route", rows, (score, choose, write))


def experts(shape, rows):
    """Pairs of token and expert by expert: one pass over an expert's weights for its tokens, the
    last tile of an expert half empty on average. With few tokens, pair by pair."""
    k, hidden, width = shape.num_experts_per_tok, shape.hidden_size, shape.moe_intermediate_size
    n = shape.n_routed_experts
    distinct = n * (1 - (1 - k / n) ** rows)
    pairs = rows * k
    n_rows = 1 if pairs < 2 * distinct else TILE_ROWS
    passes = (pairs + distinct * (n_rows - 1) / 2) / n_rows
    return [expert_part("ExpertHidden", 2 * width, hidden, n_rows, passes, distinct),
            expert_part("ExpertOutput", hidden, width, n_rows, passes, distinct)]


def expert_part(kernel, n, k, n_rows, passes, distinct):
    title = EXPERT_LOOPS[kernel][n_rows]
    of_block = ROWS_OF_BLOCK if n_rows == 1 else TILE_WEIGHTS
    blocks = passes * n / of_block
    phases = product_phases(title, blocks, of_block, k, n_rows, passes * n_rows * n * k, "memory")
    return Launch(EXPERTS, kernel, blocks, phases, title, bytes=distinct * n * k * FP4_BYTES)


def layer(shape, batch, ratio, is_hash):
    rows, hidden = batch.rows, shape.hidden_size
    heads = shape.num_attention_heads * shape.head_dim
    latent = shape.o_groups * shape.o_lora_rank
    width, k = shape.moe_intermediate_size, shape.num_experts_per_tok
    index = shape.index_n_heads * shape.index_head_dim
    queries = heads + (index if ratio == 4 and needs_index(shape, batch) else 0)
    hidden_part, output_part = experts(shape, rows)
    launches = [*mix(shape, rows), norm(rows, hidden), products_of_u(shape, batch, ratio),
                norm(rows, shape.q_lora_rank),
                product(LARGE, "LinearFp8", queries, shape.q_lora_rank, rows),
                heads_and_keys(shape, batch, ratio)]
    if ratio:
        launches.append(compress(shape, batch, ratio))
    if ratio == 4:
        launches += choose_rows(shape, batch)
    return launches + [
        *attention(shape, batch, ratio), store_rows(shape, batch, ratio),
        product(LARGE, "LinearByBlocks", latent, heads // shape.o_groups, rows),
        quantise(rows, latent), product(LARGE, "LinearFp8", hidden, latent, rows),
        old_kernels.mix_back(shape, rows), *mix(shape, rows), norm(rows, hidden),
        together(LARGE, "products of u", product(LARGE, "LinearFp8", 2 * width, hidden, rows),
                 product(SMALL, "LinearPlain", shape.n_routed_experts, hidden, rows)),
        router(shape, rows, is_hash), hidden_part,
        together(QUANTISE, "SwiGlu, QuantizeRows", quantise(rows * k, width),
                 quantise(rows, width)),
        together(EXPERTS, "ExpertOutput and w2", output_part,
                 product(LARGE, "LinearFp8", hidden, width, rows)),
        by_number("CombineExperts, HcPost", rows * hidden, 350, 3,
                  2 * rows * hidden * (k + 2 + 2 * STREAMS))]


begin = old_kernels.begin


def head(shape, rows):
    copy, _, _, _, scan, take = old_kernels.head(shape, rows)
    mixed = [replace(launch, operation="head") for launch in mix(shape, rows, is_head=True)]
    return [copy, *mixed, replace(norm(rows, shape.hidden_size), operation="head"),
            product("head", "LinearPlain", shape.vocab_size, shape.hidden_size, rows), scan, take]
