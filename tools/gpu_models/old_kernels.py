"""The kernels of November 2026 (commit 542867fe): launches of a layer, in their order.

Grids are as in kernels/gpu/gpu_*.cc. Slots of steps are instructions of sm_90a between two
barriers or of a loop, by nvdisasm, without the side of a branch that is not taken. The loops of
products and attention are counted as the gauge does, with both sides.
"""

from .batch import chosen_slots, needs_index, steps_of, visible, window_slots
from .cost import Launch, Loop, Steps
from .shapes import GATES, MIX_CHAIN, STREAMS

NAME = "before"
FEW_ROWS = 64  # up to here every weight comes from memory; with more rows, from L2 mostly
BYTES = {"LinearFp8": 1 + 1 / 16384, "LinearByBlocks": 1 + 1 / 16384, "LinearPlain": 2}
FP4_BYTES = 1 / 2 + 1 / 32

LARGE, EXPERTS, SMALL = "large products", "experts", "small products"
QUANTISE, MIX, ATTEND, REST = "quantisation", "hyper-connections", "attention", "the rest"
OPERATIONS = [LARGE, EXPERTS, SMALL, QUANTISE, MIX, ATTEND, REST]


def weight_wait(rows):
    return {"memory": 1} if rows <= FEW_ROWS else {"l2": 1}


def product(operation, kernel, n, k, rows):
    """A group of 16 threads per row of the weight and four rows of activations."""
    tile = 1 if rows == 1 else 4
    padded = -(-rows // tile) * tile
    title = f"{kernel}, {tile} row{'s' if tile > 1 else ''}"
    loop = Loop(title, n * k * padded, k / 16 * tile, weight_wait(rows))
    return Launch(operation, kernel, -(-n // 16) * padded // tile, (loop,), title,
                  bytes=n * k * BYTES[kernel] + rows * (k + 4 * n))


def quantise(rows, k, times=1):
    threads = rows * k / 8
    step = {"l2": 1, "l1": 1, "shuffle": 8, "division": 1, "slot": 300}
    return Launch(QUANTISE, "QuantizeRows", -(-threads // 256), (Steps(1, step, threads),), 25,
                  bytes=3 * rows * k, times=times)


def quantised_product(operation, n, k, rows):
    return [quantise(rows, k), product(operation, "LinearFp8", n, k, rows)]


def by_number(kernel, numbers, slots, loads, bytes_, operation=REST):
    """A thread per number."""
    return Launch(operation, kernel, -(-numbers // 256),
                  (Steps(1, {"l2": loads, "slot": slots}, numbers),), bytes=bytes_)


def norm(rows, cols):
    """The sum by one wave, then a pass of the block."""
    return Launch(REST, "RmsNorm", rows,
                  (Loop("RmsNorm, sum", 2 * rows * cols, cols / 16, {"l2": 1}),
                   Steps(1, {"shuffle": 4, "division": 3, "barrier": 1}),
                   Steps(cols / 256, {"l2": 1, "slot": 29}, 256 * rows)), "RmsNorm, sum",
                  bytes=4 * rows * cols)


def mix(shape, rows, is_head=False):
    """A block per row: chains of fma, their sums, the Sinkhorn iterations on one thread, then u."""
    width = STREAMS * shape.hidden_size
    of_fn = (STREAMS if is_head else GATES) + 1
    chains = -(-width // MIX_CHAIN)
    rounds = -(-chains * of_fn // 256)
    # An iteration loads four of eight neighbouring numbers of fn, which share a sector.
    far = "memory" if rows <= FEW_ROWS else "l2"
    divisions = 0 if is_head else 2 * shape.hc_sinkhorn_iters * STREAMS * STREAMS
    phases = (Loop("HcPre, chains", rows * width * of_fn, rounds * MIX_CHAIN,
                   {far: 0.5, "l1": 0.5}),
              Steps(chains / 16, {"shared": 1, "slot": 54}),
              Steps(1, {"division": 3, "slot": 300, "barrier": 2}),
              Steps(divisions, {"division": 1}, rows),
              Steps(shape.hidden_size / 256, {"l2": 1, "slot": 42}, 256 * rows))
    return Launch(MIX, "HcPre", rows, phases, "HcPre, chains",
                  bytes=4 * (of_fn - 1) * width + 2 * rows * (width + shape.hidden_size))


def mix_back(shape, rows):
    return by_number("HcPost", rows * shape.hidden_size, 199, 2,
                     2 * rows * shape.hidden_size * (1 + 2 * STREAMS))


def compressor(shape, batch, width, ratio):
    """Both projections, and the row of the cache that some tokens complete."""
    overlap = 2 if ratio == 4 else 1
    inputs, span, rows = overlap * width, overlap * ratio, batch.rows
    projections = [product(SMALL, "LinearPlain", inputs, shape.hidden_size, rows)] * 2
    share = 1 if batch.is_prompt else 1 / ratio  # steps that complete a row
    channels = -(-width // 256)
    complete = (Steps(share * channels * span / 4, {"l2": 4, "slot": 170 + 269 + 2 * 254},
                      256 * rows / ratio),
                Steps(share, {"l2": 2, "division": 4, "barrier": 12, "shared": 20, "slot": 2000}))
    return [*projections, by_number("AddPositionScores", rows * inputs, 113, 2, 8 * rows * inputs),
            Launch(REST, "CompressRows", rows, (Steps(1, {"l2": 3, "slot": 60}), *complete), 52),
            by_number("KeepInputs", rows * inputs, 250, 3, 16 * rows * inputs)]


def choose_rows(shape, batch):
    """Queries of the index and scores where some token sees more rows than it may choose, and the
    choice."""
    rows, heads, dims = batch.rows, shape.index_n_heads, shape.index_head_dim
    if not needs_index(shape, batch):
        write = Steps(2, {"l2": 2, "slot": 40}, 256 * rows)
        return [Launch(REST, "ChooseRows", rows, (write,), 48)]
    scored = batch.mean(lambda position: visible(position, 4)
                        if visible(position, 4) > shape.index_topk else 0)
    step = {"shared": 1, "barrier": 1}
    bits, halvings, sorting = 32, 9, 45  # 512 numbers are sorted in 45 steps
    choose = (Steps(bits * scored / 1024, {"l2": 1, "slot": 41}, 256 * rows),
              Steps(bits * halvings, step | {"slot": 12}, 256 * rows),
              Steps(256 / 8, {"shared": 1, "slot": 54}, 256 * rows),
              Steps(sorting, step | {"slot": 63}, 256 * rows))
    query = {"l2": 1, "shared": 8, "shuffle": 4, "division": 1, "barrier": 8,
             "slot": 54 + 420 + 100}
    score = Loop("IndexScores, scores", rows * scored * heads * dims, heads / 16 * dims, {"l1": 1})
    return [*quantised_product(LARGE, heads * dims, shape.q_lora_rank, rows),
            Launch(REST, "IndexQueries", rows * heads, (Steps(1, query, 64 * rows * heads),), 32),
            product(SMALL, "LinearPlain", heads, shape.hidden_size, rows),
            Launch(REST, "IndexScores", rows * -(-scored // 16), (score,), "IndexScores, scores",
                   bytes=rows * scored * (dims / 2 + 4)),
            Launch(REST, "ChooseRows", rows, choose, 48, 8 * shape.index_topk + 2048)]


def attention(shape, batch, ratio):
    """A block per head of a row: 64 slots at a time."""
    blocks = batch.rows * shape.num_attention_heads
    dims = shape.head_dim
    window = batch.mean(lambda position: window_slots(shape, position))
    chosen = batch.mean(lambda position: chosen_slots(shape, position, ratio))
    busy = batch.mean(lambda position: steps_of(window_slots(shape, position))
                      + steps_of(chosen_slots(shape, position, ratio)))
    all_steps = steps_of(shape.sliding_window) + (steps_of(shape.index_topk) if ratio == 4 else
                                                  batch.mean(lambda position: steps_of(
                                                      chosen_slots(shape, position, ratio))))
    find = {"l2": 3, "slot": 60 + 4 * 86, "shared": 5, "barrier": 3}
    serial = {"slot": 30 + 4 * 91 + 60 + 4 * 46, "shared": 9, "barrier": 4}
    phases = (Steps(all_steps, find),
              Loop("SparseAttention, scores", blocks * busy * 64 * dims, busy * 64 * dims / 256,
                   {"l1": 1, "l2": 1 / 16}),
              Steps(busy, serial),
              Loop("SparseAttention, values", blocks * (window + chosen) * dims,
                   (window + chosen) * dims / 256, {"l1": 1}),
              Steps(dims / 256, {"division": 1, "slot": 60}))
    return Launch(ATTEND, "SparseAttention", blocks, phases, "SparseAttention, scores", 4096,
                  bytes=batch.rows * (window + chosen) * shape.key_bytes)


def window_keys(shape, rows):
    groups = (shape.head_dim - shape.qk_rope_head_dim) / 64
    phases = (Steps(shape.head_dim / 16 / 8, {"l2": 1, "slot": 47}, 16 * rows),
              Steps(1, {"shuffle": 4, "division": 3}),
              Steps(groups, {"l2": 1, "l1": 4, "shuffle": 4, "division": 1, "slot": 79 + 4 * 77},
                    16 * rows),
              Steps(shape.qk_rope_head_dim / 2 / 16, {"l2": 1, "slot": 71}, 16 * rows))
    return Launch(REST, "WindowKeys", -(-rows // 16), phases, 34)


def query_heads(shape, rows):
    heads = rows * shape.num_attention_heads
    phases = (Steps(shape.head_dim / 16 / 4, {"l2": 1, "slot": 56}, 16 * heads),
              Steps(1, {"shuffle": 4, "division": 3}),
              Steps(7, {"l1": 1, "slot": 53}, 16 * heads),
              Steps(shape.qk_rope_head_dim / 2 / 16, {"l2": 1, "slot": 59}, 16 * heads))
    return Launch(REST, "QueryHeads", -(-heads // 16), phases, 30,
                  bytes=4 * heads * shape.head_dim)


def append_window(shape, rows):
    step = {"l2": 4, "shuffle": 4, "division": 1, "slot": 87 + 4 * 140}
    return Launch(REST, "AppendWindow", rows, (Steps(1, step, 256 * rows),), 59,
                  bytes=rows * (2 * shape.head_dim + shape.key_bytes))


def router(shape, rows, is_hash):
    k = shape.num_experts_per_tok
    weigh = (Steps(9, {"l2": 1, "slot": 20}, rows), Steps(k / 2, {"l2": 4, "slot": 432}, rows))
    if is_hash:
        return Launch(REST, "RouteByToken", -(-rows // 256),
                      (Steps(k, {"l2": 1, "slot": 30}), *weigh))
    # Thread 0 looks at the best choice of each thread, once for each expert: four in an iteration
    # of 98 slots, of which about 60 are executed.
    scan = Steps(k * 256 / 4, {"shared": 1, "slot": 60}, rows)
    return Launch(REST, "Route", rows, (Steps(1, {"l2": 2, "slot": 111}, 256 * rows), scan,
                                        Steps(k, {"shared": 2, "barrier": 2, "slot": 60}), *weigh))


def experts(shape, rows):
    """A group of 16 threads per output of one expert for one token."""
    k, hidden, width = shape.num_experts_per_tok, shape.hidden_size, shape.moe_intermediate_size
    pairs = rows * k
    distinct = shape.n_routed_experts * (1 - (1 - k / shape.n_routed_experts) ** rows)
    read = distinct if rows <= FEW_ROWS else pairs  # chosen experts do not fit in L2 together
    wait = {"memory": 1}
    return [quantise(rows, hidden),
            Launch(EXPERTS, "ExpertHidden", pairs * width // 16,
                   (Loop("ExpertHidden, FP4", 2 * pairs * width * hidden, 2 * hidden / 16, wait),),
                   "ExpertHidden, FP4", bytes=2 * read * width * hidden * FP4_BYTES),
            quantise(pairs, width),
            Launch(EXPERTS, "ExpertOutput", pairs * hidden // 16,
                   (Loop("ExpertOutput, FP4", pairs * width * hidden, width / 16, wait),),
                   "ExpertOutput, FP4", bytes=read * width * hidden * FP4_BYTES)]


def shared_expert(shape, rows):
    hidden, width = shape.hidden_size, shape.moe_intermediate_size
    return [*quantised_product(LARGE, width, hidden, rows),
            *quantised_product(LARGE, width, hidden, rows),
            by_number("SwiGlu", rows * width, 83, 1, 6 * rows * width),
            *quantised_product(LARGE, hidden, width, rows)]


def layer(shape, batch, ratio, is_hash):
    """The launches of RunBlock of model/block.cc."""
    rows, hidden = batch.rows, shape.hidden_size
    heads = shape.num_attention_heads * shape.head_dim
    latent = shape.o_groups * shape.o_lora_rank
    k = shape.num_experts_per_tok
    launches = [mix(shape, rows), norm(rows, hidden),
                *quantised_product(SMALL, shape.q_lora_rank, hidden, rows),
                norm(rows, shape.q_lora_rank),
                *quantised_product(LARGE, heads, shape.q_lora_rank, rows),
                query_heads(shape, rows),
                *quantised_product(SMALL, shape.head_dim, hidden, rows), window_keys(shape, rows)]
    if ratio:
        launches += compressor(shape, batch, shape.head_dim, ratio)
    if ratio == 4:
        launches += compressor(shape, batch, shape.index_head_dim, ratio)
        launches += choose_rows(shape, batch)
    return launches + [
        attention(shape, batch, ratio), append_window(shape, rows),
        product(LARGE, "LinearByBlocks", latent, heads // shape.o_groups, rows),
        *quantised_product(LARGE, hidden, latent, rows), mix_back(shape, rows),
        mix(shape, rows), norm(rows, hidden),
        product(SMALL, "LinearPlain", shape.n_routed_experts, hidden, rows),
        router(shape, rows, is_hash), *experts(shape, rows), *shared_expert(shape, rows),
        by_number("CombineExperts", rows * hidden, 150, 2, 2 * rows * hidden * (k + 2)),
        mix_back(shape, rows)]


def begin(shape, batch):
    """The positions of a step and its rows of the embedding."""
    rows = batch.rows
    angles = rows * shape.qk_rope_head_dim // 2
    rope = Launch("begin", "FillRopeRows", -(-angles // 256),
                  (Steps(1, {"l2": 2, "slot": 1500}, angles),), 38, times=2)
    return [rope, by_number("Embed", rows * STREAMS * shape.hidden_size, 170, 2,
                            4 * rows * STREAMS * shape.hidden_size, "begin")]


def head(shape, rows):
    """The logits of some rows. `fathom bench` downloads them and chooses no tokens."""
    return [by_number("CopyPieces", rows * STREAMS * shape.hidden_size / 2, 35, 2,
                      4 * rows * STREAMS * shape.hidden_size, "head"),
            mix(shape, rows, is_head=True), norm(rows, shape.hidden_size),
            product("head", "LinearPlain", shape.vocab_size, shape.hidden_size, rows)]
