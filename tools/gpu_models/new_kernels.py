"""The kernels that are being written (gpu_review.md 3.3): launches of a layer, in their order.

After their source: products of at most eight rows, hyper-connections, norms, attention, the router.
Planned: tiles, the experts, and which work is launched together. Titles are of the gauge's loops; a
file that lacks one is refused. Work beside the loops is in steps, estimated from the source.
"""

from dataclasses import replace

from . import old_kernels
from .batch import SLOTS, chosen_slots, needs_index, steps_of, visible, window_slots
from .cost import Launch, Loop, Steps
from .old_kernels import (ATTEND, BYTES, EXPERTS, FP4_BYTES, LARGE, MIX, QUANTISE, REST, SMALL,
                          by_number, weight_wait)
from .shapes import GATES, MIX_CHAIN, STREAMS

NAME = "after"
OPERATIONS = old_kernels.OPERATIONS

TILE_ROWS, TILE_WEIGHTS = 16, 64  # of a block with many rows of activations
MOST_PASSES = 4  # over a weight by eight rows of activations, before tiles are used
COLUMNS_AHEAD = 512  # columns of a tile that are loaded ahead


def few(kernel):
    """Loops by the rows of activations of a pass over the weights."""
    return {1: f"{kernel}, 1 row", 2: f"{kernel}, 2 rows", 4: f"{kernel}, 4 rows",
            8: f"{kernel}, 8 rows", TILE_ROWS: f"{kernel}, tile"}


PRODUCTS = {kernel: few(kernel) for kernel in ("LinearFp8", "LinearByBlocks", "LinearPlain")}
EXPERT_LOOPS = {"ExpertHidden": {1: "ExpertHidden, FP4", TILE_ROWS: "ExpertHidden, FP4 tile"},
                "ExpertOutput": {1: "ExpertOutput, FP4", TILE_ROWS: "ExpertOutput, FP4 tile"}}
CHAINS = {1: "HcChains, 1 row", 4: "HcChains, 4 rows"}
SUMS_OF_CHAINS, INDEX, NORM = "HcPre, sums of chains", "IndexScores, scores", "RmsNorm, sum"
SCORES = {False: "AttentionScores, scores", True: "WideAttentionScores, scores"}
VALUES = {False: "AttentionValues, values", True: "WideAttentionValues, values"}


def rows_of_pass(loops, rows):
    """Many rows are computed in tiles; fewer by the kernel of the next power of two, or eight by
    eight."""
    if rows > 8 * MOST_PASSES:
        return TILE_ROWS
    return min(n for n in loops if n >= min(rows, 8))


def rows_of_block(n):
    """ProductShift of gpu_dense.cc, for 132 multiprocessors: 32 rows of a weight, at least eight,
    fewer where there would be less than two blocks for each multiprocessor."""
    rows = 32
    while rows > 8 and n / rows < 2 * 132:
        rows //= 2
    return rows


def product_phases(title, blocks, of_block, k, n_rows, numbers, far):
    """of_block: rows of the weight of a block; n_rows: rows of activations of a pass."""
    longest = of_block * k * n_rows / 256
    if n_rows == TILE_ROWS:
        stage = Steps(1, {"l2": 1, "barrier": 1, "slot": 4.5 * n_rows * k / 256}, 256 * blocks)
        return (stage, Loop(title, numbers, longest, {"shared": 1}),
                Steps(k / COLUMNS_AHEAD, {far: 1, "barrier": 2}))
    # Lanes of 128 columns are kept in shared memory; then a quad of threads for each sum adds them.
    items = -(-of_block * n_rows // 64)
    add = Steps(items * k / 128, {"shared": 0.25, "l2": 0.25, "slot": 12},
                blocks * 4 * min(64, of_block * n_rows))
    return (Loop(title, numbers, longest, {far: 1}), add,
            Steps(1, {"barrier": 3, "shuffle": 2, "l2": 1, "slot": 80}))


def product(operation, kernel, n, k, rows):
    n_rows = rows_of_pass(PRODUCTS[kernel], rows)
    passes = -(-rows // n_rows)
    title = PRODUCTS[kernel][n_rows]
    of_block = TILE_WEIGHTS if n_rows == TILE_ROWS else rows_of_block(n)
    blocks = -(-n // of_block) * passes
    far, = weight_wait(rows)
    phases = product_phases(title, blocks, of_block, k, n_rows, n * k * n_rows * passes, far)
    return Launch(operation, kernel, blocks, phases, title, 32768,
                  n * k * BYTES[kernel] + rows * (4 * k + 4 * n))


def together(operation, kernel, *parts):
    return Launch(operation, kernel, beside=parts)


def quantise(rows, k):
    step = {"l2": 1, "shuffle": 8, "division": 1, "slot": 300}
    return Launch(QUANTISE, "QuantizeRows", -(-rows * k // 2048),
                  (Steps(1, step, rows * k / 8),), bytes=6 * rows * k)


def norm(rows, cols):
    """A block per row: numbers to shared memory, 32 lanes, then the numbers, and their codes."""
    held = -(-cols // 4096)
    return Launch(REST, "RmsNorm", rows,
                  (Steps(held, {"l2": 1, "barrier": 2, "slot": 80}, 256 * rows),
                   Loop(NORM, rows * cols, cols / 32, {"shared": 1}),
                   Steps(1, {"shuffle": 5, "division": 3, "barrier": 1}),
                   Steps(held, {"shuffle": 8, "division": 1, "slot": 300}, 256 * rows)), NORM,
                  16384, 8 * rows * cols)


def mix(shape, rows, is_head=False):
    """A block per chain of columns and 32 rows; then blocks for u, and one for the Sinkhorn
    iterations on 16 lanes of a wave."""
    width = STREAMS * shape.hidden_size
    mixes = STREAMS if is_head else GATES
    chains = -(-width // MIX_CHAIN)
    tiles, of_tile = -(-rows // 32), min(rows, 32)
    far, = weight_wait(rows)
    each = 4 if of_tile >= 4 else 1
    threads = 256 * chains * tiles
    fill = Steps(1, {far: 1, "barrier": 1, "slot": 120 + 6 * of_tile}, threads)
    # A wave has the rows of fn for `each` rows of streams; eight waves.
    loop = Loop(CHAINS[each], 32 * MIX_CHAIN * chains * rows, MIX_CHAIN * each * -(-of_tile // 32),
                {"shared": 1})
    first = Launch(MIX, "HcChains", chains * tiles, (fill, loop), CHAINS[each],
                   (mixes + of_tile) * (MIX_CHAIN + 4) * 4, 4 * mixes * width + 2 * rows * width)
    blocks = rows * (-(-shape.hidden_size // 2048) + (not is_head))
    padded = -(-chains // 16) * 16
    fill = Steps(1, {"l2": 2, "barrier": 1, "slot": 4 * padded / 8 + 60}, 256 * blocks)
    sums = Loop(SUMS_OF_CHAINS, 32 * padded * blocks, padded, {"shared": 1})
    gates = Steps(1, {"division": 4, "shuffle": 1, "slot": 120})
    halves = 0 if is_head else 2 * shape.hc_sinkhorn_iters
    sinkhorn = Steps(halves, {"shuffle": 2, "division": 1, "slot": 16}, 32 * rows)
    second = Launch(MIX, "HcPre", blocks, (fill, sums, gates, sinkhorn), SUMS_OF_CHAINS, 12288,
                    2 * rows * (width + shape.hidden_size))
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
    return together(REST, "CompressRows", *(old_kernels.compressor(shape, batch, width, ratio)[3]
                                            for width in widths))


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
    """A group per head; a block per key of the window; a block per query of the index."""
    rows, dims = batch.rows, shape.head_dim
    heads = rows * shape.num_attention_heads
    queries = Launch(REST, "QueryHeads", -(-heads // 16),
                     (Steps(1, {"l2": 1, "shuffle": 4, "division": 3, "slot": 32 * 14 + 60},
                            16 * heads),), 64, bytes=4 * heads * dims)
    keys = Launch(REST, "WindowKeys", rows,
                  (Steps(1, {"l2": 1, "barrier": 4, "shared": 6, "shuffle": 9, "division": 4,
                             "slot": 16 * 8 + 4 * 60 + 80}, 256 * rows),), 40, 16384)
    parts = [queries, keys]
    if ratio == 4 and needs_index(shape, batch):
        parts.append(old_kernels.choose_rows(shape, batch)[2])
    return together(REST, "heads and keys", *parts)


def choose_rows(shape, batch):
    """The scores by the loop of the gauge; the choice as before."""
    launches = old_kernels.choose_rows(shape, batch)
    if not needs_index(shape, batch):
        return launches
    rows, heads, dims = batch.rows, shape.index_n_heads, shape.index_head_dim
    scored = batch.mean(lambda position: visible(position, 4)
                        if visible(position, 4) > shape.index_topk else 0)
    score = Loop(INDEX, rows * scored * heads * dims, heads / 16 * dims, {"l1": 1})
    return [Launch(REST, "IndexScores", rows * -(-scored // 16), (score,), INDEX,
                   bytes=rows * scored * (dims / 2 + 4)), launches[-1]]


def attention(shape, batch, ratio):
    """Scores of 64 slots for some heads; probabilities; sums in the order of the slots for some
    dimensions of some heads. From 512 rows times heads on by wide blocks (device/attention.h)."""
    rows, heads, dims = batch.rows, shape.num_attention_heads, shape.head_dim
    slots = batch.mean(lambda position: window_slots(shape, position)
                       + chosen_slots(shape, position, ratio))
    busy = batch.mean(lambda position: steps_of(window_slots(shape, position))
                      + steps_of(chosen_slots(shape, position, ratio)))
    wide = rows * heads >= 512
    of_scores = 16 if wide else 8  # heads of a block
    blocks = rows * busy * heads / of_scores
    find = Steps(1, {"l2": 4, "barrier": 2, "shuffle": 4, "slot": 150})
    score = Loop(SCORES[wide], blocks * SLOTS * of_scores * dims, SLOTS * of_scores * dims / 256,
                 {"barrier": 1, "shared": 2, "l2": 0.5})
    scores = Launch(ATTEND, "AttentionScores", blocks,
                    (find, score, Steps(1, {"barrier": 3, "shared": 4, "slot": 60})),
                    SCORES[wide], 40960 + 1280 * of_scores, rows * slots * shape.key_bytes)
    weights = Launch(ATTEND, "AttentionWeights", rows * heads,
                     (Steps(max(1, busy / 16), {"l2": 2, "shuffle": 16, "shared": 16, "barrier": 4,
                                                "slot": 300}, 16 * busy * rows * heads),), 40,
                     bytes=12 * rows * heads * slots)
    threads, of_values, of_dims = (128, 16, 128) if wide else (64, 16, 16)
    blocks = rows * heads / of_values * dims / of_dims
    value = Loop(VALUES[wide], rows * busy * SLOTS * heads * dims,
                 busy * SLOTS * of_values * of_dims / threads,
                 {"barrier": 1, "shared": 2, "l2": 0.5})
    values = Launch(ATTEND, "AttentionValues", blocks,
                    (Steps(1, {"l2": 3, "slot": 100}), value,
                     Steps(4 if wide else 1, {"division": 4, "l2": 1, "slot": 60})),
                    VALUES[wide], 43008 if wide else 18432, rows * slots * shape.key_bytes,
                    threads=threads)
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
    of_block = 32 if n_rows == 1 else TILE_WEIGHTS
    blocks = passes * n / of_block
    phases = product_phases(title, blocks, of_block, k, n_rows, passes * n_rows * n * k, "memory")
    return Launch(EXPERTS, kernel, blocks, phases, title, 32768, distinct * n * k * FP4_BYTES)


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
    copy = old_kernels.head(shape, rows)[0]
    mixed = [replace(launch, operation="head") for launch in mix(shape, rows, is_head=True)]
    return [copy, *mixed, replace(norm(rows, shape.hidden_size), operation="head"),
            product("head", "LinearPlain", shape.vocab_size, shape.hidden_size, rows)]
