"""The kernels of a CUDA crate, as they are in the working tree, beside what PyTorch has for the same operator.

    python3 tests/benchmarks/pytorch.py softmax-cuda rmsnorm-cuda [--queue] [--shape 16384x8192] [--calls 50]

With `--queue` the helping patches of the crate's queue are applied first, to the last commit in a clone of its own.
Needs the device, and a PyTorch that sees it. All that is compared is launched from this process, the crate's kernels too
(`launching.py`), on the same inputs: between two processes, at two times and in two rhythms, a percent is nothing. Other rests mean
other clocks where power is what binds. Before anything is timed, the crate's results are held against those of PyTorch.

The crate's, PyTorch eager and compiled take turns: in each turn all have a round, in random order. A second of turns goes by
before the first one counts: matrix products that come after a rest run at a higher clock. A round is in the rhythm of the harness:
before each call 128 MiB are overwritten, with another byte each time, and calls take copies of their inputs in turn. Overwriting
alone leaves some of what was read to leave the cache last, as compiled kernels read it: with the same inputs again and again, such a
call of 4.9 microseconds took 4.6. Calls follow each other without a rest, queued behind a kernel that waits, as long for each, so that
launching is not timed.

A time is the median over rounds of the mean of a round. The last column is about the better one of PyTorch's two: in each turn its
round's mean over that of the crate's, the median of these ratios over turns, and its interval of 95 % by order statistics: the two
turns between which the median lies so often whatever the distribution, if turns are independent. It knows of this process
only; and where several problems are drawn for a shape, of these draws only. Losses are marked.

`cargo kopt bench` says what share of the roofline the crate's kernels reach in the harness, which gives the least time that the device's
ceilings allow; what is shown is that time's share of the one that was taken here.
Prints a Markdown table a crate.
"""

import argparse
import collections
import collections.abc
import contextlib
import ctypes
import dataclasses
import fcntl
import functools
import json
import math
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F

# Nothing compiled is left in the working tree.
sys.dont_write_bytecode = True
import launching  # noqa: E402

FLUSHED = 128 << 20
# How much the copies of a call's inputs take at most, and how many there are at most; there are two at least.
PLACES, MOST_PLACES = 512 << 20, 256
# Cycles a second that the device has at most: it waits rather too long for the calls to be queued.
CLOCK = 2e9
# How long turns are taken before they count, how long then, and how many at least. Of fewer than six no two have a median between
# them in 95 of 100 cases.
WARM_S, TIMED_S, LEAST_TURNS = 1.0, 3.0, 12
# How long the longest round takes at most, unless a single call does: where a queue begins, kernels take a thousand times longer.
ROUND_S = 0.2
# How far results may be apart, as a share of the number itself and of what numbers are about: sums come in another order, and PyTorch
# rounds some that the crate does not, such as the loss.
TOLERANCES = {"f32": 1e-4, "bf16": 2e-2, "f16": 5e-3}
# What keeps rmsnorm's root away from zero, for all.
EPS = 1e-6


def metadata():
    """Every package's `[package.metadata.kopt]`, by the package's name."""
    text = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version", "1"], check=True, capture_output=True).stdout
    packages = json.loads(text)["packages"]
    return {package["name"]: (package.get("metadata") or {}).get("kopt") for package in packages}


def with_queue(folder, package):
    """A clone of the last commit in `folder`, with every patch of the crate's queue that is said to help."""
    subprocess.run(["git", "clone", "-q", "--shared", ".", folder], check=True)
    crate = f"example-kernels/{package}"
    for patch in sorted(pathlib.Path(folder, crate, "patches").glob("*.patch")):
        if re.search(r"^Truth: helps$", patch.read_text().partition("\ndiff ")[0], re.MULTILINE):
            subprocess.run(["git", "apply", f"--directory={crate}", str(patch)], cwd=folder, check=True)
    return folder


def output_of(command, folder):
    """The JSON lines that a command prints in a folder; what it builds goes to this workspace's target folder."""
    target = os.path.abspath(os.environ.get("CARGO_TARGET_DIR", "target"))
    environment = {**os.environ, "CARGO_TARGET_DIR": target}
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=folder, env=environment)
    return [json.loads(line) for line in ran.stdout.splitlines()]


def least_times(package, folder):
    """By entry and shape, the least time that the device's ceilings allow; none where no ceiling is known. The kernel's own time, which
    few samples are enough for here, cancels out."""
    kopt = os.path.abspath(os.environ.get("KOPT", "target/release/cargo-kopt"))
    lines = output_of([kopt, "kopt", "bench", "-p", package, "--quick", "--message-format", "json"], folder)
    rows = [line for line in lines if line["reason"] == "latency" and line["cache"] == "cold"]
    shares = {(row["entry"], row["case"]): (row["median_s"], row.get("roofline_share")) for row in rows}
    return {key: None if share is None else share * median for key, (median, share) in shares.items()}


def loaded(package, folder, kopt):
    """The crate as the same build has left it: cargo says where, and has nothing to do again."""
    lines = output_of(["cargo", "bench", "--no-run", "--bench", "latency", "-p", package, "--message-format", "json"], folder)
    folders = [pathlib.Path(line["out_dir"], "kopt") for line in lines if line["reason"] == "build-script-executed"]
    [candidate] = [made / "candidate.json" for made in folders if (made / "candidate.json").exists()]
    header = pathlib.Path(folder, "example-kernels", package, "kernels", f"{kopt['op']}.h").read_text()
    return launching.Crate(candidate, header, kopt["op"], kopt.get("dtype", "f32"))


@contextlib.contextmanager
def alone():
    """Nothing of `cargo kopt` runs on the device meanwhile: its own locks, taken in its order."""
    device = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    with open(f"/tmp/kopt-device-cuda-{device}.queue", "a") as queue, open(f"/tmp/kopt-device-cuda-{device}.lock", "a") as lock:
        fcntl.flock(queue, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_EX)
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield


def places(inputs):
    """The inputs of calls that follow each other: copies, each at another place."""
    size = sum(tensor.nbytes for tensor in inputs.values())
    count = min(max(PLACES // size, 2), MOST_PLACES)

    def copy(tensor):
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)

    return [inputs, *({name: copy(tensor) for name, tensor in inputs.items()} for _ in range(count - 1))]


class Clock:
    def __init__(self, calls):
        self.calls = calls
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.overwritten = torch.empty(FLUSHED, dtype=torch.uint8, device="cuda")
        self.count = 0

    def turns(self, contestants):
        """A second of turns, then those that count: of each the mean of a round, by contestant. A contestant is a list of calls."""
        for calls in contestants.values():
            for call in calls:
                call()
        torch.cuda.synchronize()
        with alone():
            slowest = max(self.round(calls, 1, wait_s=1e-3)[1] for calls in contestants.values())
            count, order = max(min(self.calls, int(ROUND_S / slowest)), 1), list(contestants)
            began, queueing, turns = time.perf_counter(), 1e-3, []
            while time.perf_counter() - began < WARM_S + TIMED_S or len(turns) < LEAST_TURNS:
                warm = time.perf_counter() - began >= WARM_S
                random.shuffle(order)
                # Whoever takes longest to queue decides how long all wait: who waits less would run at other clocks.
                rounds = {name: self.round(contestants[name], count, wait_s=1.5 * queueing) for name in order}
                queueing = max(queued for queued, _ in rounds.values())
                turns += [{name: mean for name, (_, mean) in rounds.items()}] if warm else []
        return turns

    def round(self, calls, count, wait_s):
        """How long queueing took, and a call on average."""
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
        torch.cuda._sleep(int(wait_s * CLOCK))
        began = time.perf_counter()
        for start, end in events:
            self.overwrite_cache()
            start.record()
            calls[self.count % len(calls)]()
            end.record()
        queueing = time.perf_counter() - began
        torch.cuda.synchronize()
        return queueing, statistics.mean(start.elapsed_time(end) / 1e3 for start, end in events)

    def overwrite_cache(self):
        self.count += 1
        address, stream = ctypes.c_uint64(self.overwritten.data_ptr()), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.driver.cuCtxResetPersistingL2Cache()
        if self.driver.cuMemsetD8Async(address, ctypes.c_ubyte(self.count % 256), ctypes.c_size_t(FLUSHED), stream):
            sys.exit("the cache could not be overwritten")


def normal(*sizes, dtype):
    return torch.randn(*sizes, device="cuda", dtype=torch.float32).to(dtype)


@dataclasses.dataclass
class Problem:
    """Inputs, which PyTorch's function takes in this order, and the crate's entries by their names in the header. Of the crate's outputs
    the first are what PyTorch's function gives."""

    name: str
    entries: list
    function: collections.abc.Callable
    inputs: dict
    outputs: dict
    scalars: dict = dataclasses.field(default_factory=dict)


def empty(*sizes, dtype):
    return torch.empty(*sizes, device="cuda", dtype=dtype)


def softmax(shape, dtype):
    x = normal(shape["rows"], shape["cols"], dtype=dtype)
    yield Problem("softmax", ["softmax"], lambda x: torch.softmax(x, -1), {"x": x}, {"y": torch.empty_like(x)})


def rmsnorm(shape, dtype):
    x = normal(shape["rows"], shape["cols"], dtype=dtype).requires_grad_()
    weight = normal(shape["cols"], dtype=dtype).requires_grad_()
    dy = normal(shape["rows"], shape["cols"], dtype=dtype)

    def forward(x, weight):
        return F.rms_norm(x, (x.shape[-1],), weight, EPS)

    saved = {"y": empty(*x.shape, dtype=dtype), "inv_rms": empty(shape["rows"], dtype=torch.float32)}
    gradients = {"dx": empty(*x.shape, dtype=dtype), "dweight": empty(shape["cols"], dtype=dtype)}
    inputs = {"x": x.detach(), "weight": weight.detach()}
    yield Problem("rmsnorm", ["rmsnorm"], forward, inputs, saved, {"eps": EPS})
    inputs = {"x": x, "weight": weight, "dy": dy}
    yield Problem("step", ["rmsnorm", "rmsnorm_backward"], forward, inputs, {**gradients, **saved}, {"eps": EPS})


def cross_entropy(shape, dtype):
    """PyTorch's targets have 64 bits, the crate's 32."""
    x = normal(shape["rows"], shape["cols"], dtype=dtype)
    long_targets = torch.randint(0, shape["cols"], (shape["rows"],), device="cuda")
    inputs = {"x": x, "long_targets": long_targets, "targets": long_targets.int()}
    outputs = {"loss": empty(shape["rows"], dtype=torch.float32)}
    yield Problem("cross_entropy", ["cross_entropy"], lambda x, t, _: F.cross_entropy(x, t, reduction="none"), inputs, outputs)


def decode_attention(shape, dtype):
    b, h, h_kv, s, t, d = (shape[name] for name in ("b", "h", "h_kv", "s", "t", "d"))
    q = normal(b, h, s, d, dtype=dtype)
    k, v = (normal(b, h_kv, t, d, dtype=dtype) for _ in range(2))
    mask = None
    if s > 1:
        mask = torch.arange(t, device="cuda")[None, :] <= torch.arange(t - s, t, device="cuda")[:, None]

    def attention(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=h != h_kv)

    inputs, outputs = {"q": q, "k": k, "v": v}, {"out": torch.empty_like(q)}
    yield Problem("decode_attention", ["decode_attention"], attention, inputs, outputs, {"scale": d**-0.5})


def matmul(shape, dtype):
    a = normal(shape["m"], shape["k"], dtype=dtype)
    b = normal(shape["k"], shape["n"], dtype=dtype)
    outputs = {"c": empty(shape["m"], shape["n"], dtype=dtype)}
    yield Problem("matmul", ["matmul"], lambda a, b: a @ b, {"a": a, "b": b}, outputs)


def even(rows, groups):
    return [rows // groups + (group < rows % groups) for group in range(groups)]


def ragged(rows, groups):
    cuts = sorted(random.randint(0, rows) for _ in range(groups - 1)) + [rows]
    return [end - start for start, end in zip([0] + cuts, cuts)]


def top2(rows, groups):
    share, sizes, first = -(-rows // groups), [0] * groups, 0
    for row in range(rows):
        other = row % 2 == 1 and groups > 1
        first = (first + random.randint(1, groups - 1)) % groups if other else random.randrange(groups)
        sizes[first] += 1
    full = [group for group in range(groups) if sizes[group] > share]
    turned_away = sum(sizes[group] - share for group in full)
    for group, extra in zip(full, even(turned_away, max(len(full), 1))):
        sizes[group] = share + extra
    return sizes


def top1(rows, groups):
    capacity = max(5 * rows // (4 * groups), -(-rows // groups))
    sizes = ragged(rows, groups)
    turned_away = sum(max(size - capacity, 0) for size in sizes)
    start = random.randrange(groups)
    for step in range(groups):
        group = (start + step) % groups
        taken = min(turned_away, max(capacity - sizes[group], 0))
        sizes[group] = min(capacity, sizes[group]) + taken
        turned_away -= taken
    return sizes


def skewed(rows, groups):
    most = random.randint(-(-rows // 2), rows - rows // 10)
    sizes = ragged(rows - most, groups - 1)
    sizes.insert(random.randrange(groups), most)
    return sizes


def with_empty(rows, groups):
    empty = (groups + 1) // 3
    sizes = even(rows, groups - empty)
    for _ in range(empty):
        sizes.insert(random.randint(0, len(sizes)), 0)
    return sizes


# How many rows each group gets: the harness's own rules (`operators/grouped_matmul.rs`), as sizes that fit a tile are faster.
ROUTINGS = {
    "uniform": even,
    "top2-capacity-1.0": top2,
    "top1-capacity-1.25": top1,
    "skewed": skewed,
    "empty": with_empty,
    "ragged": ragged,
}


def grouped_matmul(shape, dtype):
    """A loop of cuBLAS calls."""
    rows, groups, k, n = (shape[name] for name in ("rows", "groups", "k", "n"))
    bounds = [0]
    for size in ROUTINGS[shape["routing"]](rows, groups):
        bounds.append(bounds[-1] + size)
    x, w = normal(rows, k, dtype=dtype), normal(groups, k, n, dtype=dtype)
    y = empty(rows, n, dtype=dtype)

    def loop(x, w, _):
        for group, (start, end) in enumerate(zip(bounds, bounds[1:])):
            if end > start:
                torch.matmul(x[start:end], w[group], out=y[start:end])
        return y

    inputs = {"x": x, "w": w, "offsets": torch.tensor(bounds, dtype=torch.int32, device="cuda")}
    yield Problem("grouped_matmul", ["grouped_matmul"], loop, inputs, {"y": torch.empty_like(y)})


# Problems that are drawn for a shape: more than one where the work depends on what is drawn. Only the first is compiled,
# which takes seconds each time.
DRAWS = {"grouped_matmul": 3}
OPERATORS = {op.__name__: op for op in (softmax, rmsnorm, cross_entropy, decode_attention, matmul, grouped_matmul)}


# Sizes in the order of an unnamed shape's name; cargo sorts the keys of a table.
SIZES = {
    "softmax": ("rows", "cols"),
    "rmsnorm": ("rows", "cols"),
    "cross_entropy": ("rows", "cols"),
    "decode_attention": ("b", "h", "h_kv", "s", "t", "d"),
    "matmul": ("m", "n", "k"),
    "grouped_matmul": ("rows", "groups", "k", "n"),
}


def name_of(op, shape):
    made = "x".join(str(shape[size]) for size in SIZES[op]) + (f"-{shape['routing']}" if "routing" in shape else "")
    return shape.get("name", made)


def recorded(call):
    """Many kernels as one graph: launched one by one they keep the host busy for longer than the device."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def step_of(function, *inputs):
    *inputs, gradient = inputs
    return lambda: torch.autograd.grad(function(*inputs), inputs, gradient)


def of_pytorch(problem, function, inputs):
    make = step_of if problem.name == "step" else functools.partial
    return make(function, *inputs.values())


def of_crate(crate, problem, shape, spots):
    """One call a place. The results of all go to one place, as PyTorch's allocator gives the same memory again and again."""
    entries = [launching.Entry(crate, symbol, shape, problem.scalars) for symbol in problem.entries]
    steps = [[entry.at({**inputs, **problem.outputs}) for entry in entries] for inputs in spots]
    return [calls[0] if len(calls) == 1 else functools.partial(in_order, calls) for calls in steps]


def in_order(calls):
    for call in calls:
        call()


def compare(problem, calls, tolerance, what):
    """Ends here if a call gives something else than PyTorch does."""
    expected = of_pytorch(problem, problem.function, problem.inputs)()
    expected = expected if isinstance(expected, tuple) else (expected,)
    for call in calls:
        for output in problem.outputs.values():
            output.fill_(math.nan)
        call()
        for (name, output), theirs in zip(problem.outputs.items(), expected):
            ours, theirs = output.float(), theirs.float()
            size = theirs.square().mean().sqrt().item()
            if not torch.allclose(ours, theirs, rtol=tolerance, atol=tolerance * size):
                furthest = (ours - theirs).abs().max().item()
                sys.exit(f"{what}: `{name}` is not what PyTorch gives: up to {furthest:.3g} away, where numbers are about {size:.3g}")


def contestants(crate, problem, shape, compiled, what):
    spots = places(problem.inputs)
    calls = {"ours": of_crate(crate, problem, shape, spots)}
    compare(problem, calls["ours"], TOLERANCES[crate.dtype], what)
    functions = {"eager": problem.function}
    if compiled:
        torch._dynamo.reset()
        functions["compiled"] = torch.compile(problem.function)
    for name, function in functions.items():
        calls[name] = [of_pytorch(problem, function, inputs) for inputs in spots]
        if problem.name == "grouped_matmul":
            calls[name] = [recorded(call) for call in calls[name]]
    return calls


def median_interval(values):
    """Two of the values that the median lies between in 95 of 100 cases at least: it is below the lower one, as above the upper one, as
    often as a coin that is thrown once a value shows less than `rank` heads."""
    ordered, count, rank, below = sorted(values), len(values), 0, 1
    while 40 * below <= 2**count:
        rank += 1
        below += math.comb(count, rank)
    return ordered[rank - 1], ordered[count - rank]


def micro(seconds):
    return f"{seconds * 1e6:,.1f} µs"


def told(turns, least):
    """The numbers of a row. Where a shape has several draws, the better of PyTorch's two is that of the first, which has both."""
    ours, eager, compiled = ([turn[name] for turn in turns if name in turn] for name in ("ours", "eager", "compiled"))
    better = "eager" if statistics.median(eager[: len(compiled)]) < statistics.median(compiled) else "compiled"
    ratios = [turn[better] / turn["ours"] for turn in turns if better in turn]
    gain, (low, high) = statistics.median(ratios), median_interval(ratios)
    share = "" if least is None else f"{least / statistics.median(ours):.0%}"
    times = [micro(statistics.median(times)) for times in (ours, eager, compiled)]
    mark = "" if gain > 1 else " (a loss)"
    return " | ".join([times[0], share, *times[1:], f"{gain - 1:+.1%} [{low - 1:+.1%}, {high - 1:+.1%}]{mark}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", nargs="+")
    parser.add_argument("--queue", action="store_true", help="with the helping patches of the crate's queue")
    parser.add_argument("--shape", action="append", help="only these shapes")
    parser.add_argument("--calls", type=int, default=50, help="queued at once")
    arguments = parser.parse_args()
    known, clock, place = metadata(), Clock(arguments.calls), "."
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}")
    for package in arguments.packages:
        kopt = known.get(package) or sys.exit(f"`{package}` is no kernel crate of this workspace")
        if kopt["op"] not in OPERATORS:
            sys.exit(f"nothing is known of operator {kopt['op']}")
        with contextlib.ExitStack() as stack:
            if arguments.queue:
                place = with_queue(stack.enter_context(tempfile.TemporaryDirectory()), package)
            least, crate = least_times(package, place), loaded(package, place, kopt)
        print(f"\n{package}\n\n| entry | shape | kernel | of the roofline | PyTorch eager | compiled | faster than the better by |")
        print("|---|---|---:|---:|---:|---:|---:|")
        for shape in kopt["shapes"]:
            name = name_of(kopt["op"], shape)
            if arguments.shape and name not in arguments.shape:
                continue
            turns = collections.defaultdict(list)
            for draw in range(DRAWS.get(kopt["op"], 1)):
                for problem in OPERATORS[kopt["op"]](shape, launching.DTYPES[crate.dtype]):
                    what = f"{package}, {problem.name}, {name}"
                    with torch.set_grad_enabled(problem.name == "step"):
                        turns[problem.name] += clock.turns(contestants(crate, problem, shape, draw == 0, what))
            for entry, taken in turns.items():
                if (entry, name) not in least:
                    sys.exit(f"`cargo kopt bench` has no {entry} of {name}, but {sorted(least)}")
                print(f"| {entry} | {name} | {told(taken, least[entry, name])} |", flush=True)
            torch.cuda.empty_cache()


main()
