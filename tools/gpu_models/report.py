"""Tables of both builds side by side, as text that is Markdown too."""

from dataclasses import replace

from .batch import parse_row
from .cost import estimate
from .devices import RANGES
from .step import KINDS, time_layer, time_row

# Ratios that the new kernels must reach: (words, model, rows of `fathom bench`, least ratio).
DEMANDS = [("decoding, all 43 layers", "flash", ("tg64", "tg32@4096"), 4.0),
           ("decoding, two layers with the head", "slice", ("tg64", "tg32@4096"), 2.5),
           ("prefill, all 43 layers", "flash", ("pp4096",), 15.0),
           ("prefill, two layers", "slice", ("pp4096",), 15.0)]


def table(headings, rows):
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def speeds(builds, device, models, rows):
    """builds: [(description, Gauge)] of before and after."""
    lines = []
    for row in rows:
        for model in models:
            before, after = (time_row(build, gauge, device, model, row) for build, gauge in builds)
            lines.append([row.name, model.title, number(before.tokens_per_second),
                          number(after.tokens_per_second),
                          f"{after.tokens_per_second / before.tokens_per_second:.2f}",
                          f"{before.launches}", f"{after.launches}"])
    return table(["row", "model", "tokens/s before", "after", "ratio", "launches before", "after"],
                 lines)


def of_layer(builds, device, model, batch, ratio):
    """A layer by operation: us, and what most of it waits for."""
    before, after = (time_layer(build, gauge, device, model, batch, ratio)
                     for build, gauge in builds)
    lines = []
    for operation in before:
        cells = []
        for found in (before, after):
            launches, time = found[operation]
            cells += [str(launches), number(time.us), time.bound if launches else ""]
        lines.append([operation, *cells])
    totals = [(sum(launches for launches, _ in found.values()),
               sum(time.us for _, time in found.values())) for found in (before, after)]
    lines.append(["sum", str(totals[0][0]), number(totals[0][1]), "", str(totals[1][0]),
                  number(totals[1][1]), f"ratio {totals[0][1] / totals[1][1]:.2f}"])
    return table([f"{KINDS[ratio]} layer", "launches", "us before", "bound by", "launches",
                  "us after", "bound by"], lines)


def layers(builds, device, model, row):
    """The kinds of layers of a model in the last step of a row."""
    batch = row.batches()[-1][0]
    kinds = dict.fromkeys(ratio for (ratio, _), _ in model.layers())
    return "\n\n".join(of_layer(builds, device, model, batch, ratio) for ratio in kinds)


def kernels(build, gauge, device, model, row):
    """Every launch of a layer of each kind, in its order."""
    batch = row.batches()[-1][0]
    tables = []
    for ratio in dict.fromkeys(ratio for (ratio, _), _ in model.layers()):
        lines = []
        for launch in build.layer(model.shape, batch, ratio, False):
            time = estimate(launch, device, gauge)
            blocks = sum(part.blocks for part in launch.beside or (launch,))
            lines.append([launch.kernel, launch.operation, f"{blocks:.0f}", f"{time.us:.1f}",
                          time.bound])
        tables.append(table([f"{KINDS[ratio]}, {build.NAME}", "operation", "blocks", "us",
                             "bound by"], lines))
    return "\n\n".join(tables)


def ratio_of(builds, device, model, rows):
    """The least ratio of tokens per second, after by before, of some rows."""
    times = [[time_row(build, gauge, device, model, row) for build, gauge in builds]
             for row in rows]
    return min(after.tokens_per_second / before.tokens_per_second for before, after in times)


def demanded_ratios(builds, device, models):
    return [ratio_of(builds, device, models[model], [parse_row(row) for row in rows])
            for _, model, rows, _ in DEMANDS]


def demands(builds, device, models):
    """The table of DEMANDS, and whether all are met."""
    found = demanded_ratios(builds, device, models)
    lines = [[words, ", ".join(rows), f"{least:g}", f"{ratio:.2f}",
              "yes" if ratio >= least else "NO"]
             for (words, _, rows, least), ratio in zip(DEMANDS, found)]
    met = all(ratio >= least for (*_, least), ratio in zip(DEMANDS, found))
    return table(["demand", "rows", "at least", "computed", "met"], lines), met


def variations(builds, device, models):
    """The demanded ratios with one assumption at a time at each end of its range, and with all of
    them at the end that is worse for a demand."""
    lines = []
    worst = [{} for _ in DEMANDS]  # for each demand the worse end of every range

    def ratios(changes):
        varied = replace(device, assumptions=replace(device.assumptions, **changes))
        return demanded_ratios(builds, varied, models)

    for name, ends in RANGES.items():
        found = [ratios({name: value}) for value in ends]
        for i, changes in enumerate(worst):
            changes[name] = min(zip(found, ends), key=lambda each: each[0][i])[1]
        lines += [[f"`{name}`", f"{value:g}", *(f"{ratio:.2f}" for ratio in some)]
                  for value, some in zip(ends, found)]
    lines.append(["all at once", "the worse end",
                  *(f"{ratios(changes)[i]:.2f}" for i, changes in enumerate(worst))])
    return table(["assumption", "is", *(words for words, *_ in DEMANDS)], lines)
