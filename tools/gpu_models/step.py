"""The time of a row of `fathom bench`: its steps, their layers, and what is outside of layers."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache

from .cost import add, estimate
from .shapes import published_ratios, read_flash

COPIES = 5  # batch, rows of the embedding, list of rows with logits; logits, fault word
KINDS = {4: "CSA", 128: "HCA", 0: "SWA"}


@dataclass(frozen=True)
class Model:
    name: str
    title: str
    shape: object
    ratios: list

    def layers(self):
        """[((ratio, is routed by the token), how many)]."""
        hashed = self.shape.num_hash_layers
        return sorted(Counter((ratio, i < hashed) for i, ratio in enumerate(self.ratios)).items(),
                      key=lambda item: -item[1])


def make_models():
    """Flash, and the two layers that tools/gpu_check measures, with the whole head and with the
    vocabulary of `fathom make-slice` (1,024)."""
    flash = read_flash()
    cut = replace(flash, num_hidden_layers=2, n_routed_experts=64, num_hash_layers=0)
    models = [Model("flash", "all 43 layers", flash, published_ratios(flash.num_hidden_layers)),
              Model("slice", "two layers (4,128), whole head", cut, [4, 128]),
              Model("bench", "two layers (4,128), 1,024 tokens", replace(cut, vocab_size=1024),
                    [4, 128])]
    return {model.name: model for model in models}


@lru_cache(maxsize=None)
def launches_of(build, shape, batch, ratio, is_hash):
    """The launches of a layer, which do not depend on the device."""
    return tuple(build.layer(shape, batch, ratio, is_hash))


def time_layer(build, gauge, device, model, batch, ratio, is_hash=False):
    """{operation: (launches, Estimate)} in the order of build.OPERATIONS."""
    launches = launches_of(build, model.shape, batch, ratio, is_hash)
    found = {}
    for operation in build.OPERATIONS:
        some = [launch for launch in launches if launch.operation == operation]
        found[operation] = (sum(launch.times for launch in some),
                            add(estimate(launch, device, gauge) for launch in some))
    unknown = {launch.operation for launch in launches} - set(build.OPERATIONS)
    if unknown:
        raise ValueError(f"operations without a line in the table: {unknown}")
    return found


def titles_of(build, model, rows):
    """The loops of the gauge that the rows need."""
    titles = set()
    for row in rows:
        for batch, _ in row.batches():
            launches = build.begin(model.shape, batch) + build.head(model.shape, 1)
            launches += build.head(model.shape, batch.rows) if not batch.is_prompt else []
            for (ratio, is_hash), _ in model.layers():
                launches += launches_of(build, model.shape, batch, ratio, is_hash)
            titles.update(*(launch.titles() for launch in launches))
    return titles


def time_outside(launches, device, gauge):
    return sum(estimate(launch, device, gauge).us for launch in launches)


@dataclass(frozen=True)
class RowTime:
    seconds: float
    tokens: int
    launches: int  # of the last step
    layer_us: dict  # {kind of layer: us} of the last step
    head_us: float

    @property
    def tokens_per_second(self):
        return self.tokens / self.seconds


def time_row(build, gauge, device, model, row):
    us = 0.0
    assumed = device.assumptions
    for batch, needs_logits in row.batches():
        outside = build.begin(model.shape, batch)
        rows = 1 if batch.is_prompt else batch.rows  # with logits
        head = build.head(model.shape, rows)
        launches = sum(launch.times for launch in outside)
        us += time_outside(outside, device, gauge)
        head_us = time_outside(head, device, gauge)
        if needs_logits:
            us += head_us + assumed.host_us + COPIES * assumed.copy_us
            us += 4 * rows * model.shape.vocab_size / assumed.copy_gb_s * 1e-3
            launches += sum(launch.times for launch in head)
        layer_us = {}
        for (ratio, is_hash), count in model.layers():
            found = time_layer(build, gauge, device, model, batch, ratio, is_hash)
            each = sum(estimate_.us for _, estimate_ in found.values())
            launches += count * sum(n for n, _ in found.values())
            us += count * each
            layer_us.setdefault(KINDS[ratio], each)
    return RowTime(us * 1e-6, row.tokens_of_batches(), launches, layer_us, head_us)
