"""The kernels of a CUDA crate, as they are in the working tree, beside what PyTorch has for the same operator.

    python3 tests/benchmarks/pytorch.py softmax-cuda rmsnorm-cuda [--queue] [--shape 16384x8192] [--calls 50]

With `--queue` the helping patches of the crate's queue are applied first, to the last commit in a clone of its own.
Needs the device, and a PyTorch that sees it. `cargo kopt bench` times the crate, cold; then PyTorch is timed, eager and
compiled, in this process, in the rhythm of the harness: before each call 128 MiB are overwritten, with another byte each time,
and calls take copies of their inputs in turn. Overwriting alone leaves some of what was read to leave the cache last, as
compiled kernels read it: with the same inputs again and again, such a call of 4.9 microseconds took 4.6. Calls
follow each other without a rest, queued behind a kernel that waits, so that launching is not timed. A second goes by before
the first one counts: matrix products that come after a rest run at a higher clock.
Prints a Markdown table a crate. Losses are marked.
"""

import argparse
import collections
import contextlib
import ctypes
import fcntl
import functools
import json
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

FLUSHED = 128 << 20
# How much the copies of a call's inputs take at most, and how many there are at most; there are two at least.
PLACES, MOST_PLACES = 512 << 20, 256
# Cycles a second that the device has at most: it waits rather too long for the calls to be queued.
CLOCK = 2e9
# How long a call is repeated before it is timed, and then timed.
WARM_S, TIMED_S = 1.0, 0.7


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


def measured(package, folder):
    """Medians and shares of the roofline by entry and shape, as `cargo kopt bench` measures them in a folder."""
    kopt = os.path.abspath(os.environ.get("KOPT", "target/release/cargo-kopt"))
    target = os.path.abspath(os.environ.get("CARGO_TARGET_DIR", "target"))
    command = [kopt, "kopt", "bench", "-p", package, "--message-format", "json"]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=folder, env={**os.environ, "CARGO_TARGET_DIR": target})
    lines = ran.stdout.splitlines()
    rows = [line for line in map(json.loads, lines) if line["reason"] == "latency" and line["cache"] == "cold"]
    return {(row["entry"], row["case"]): (row["median_s"], row.get("roofline_share")) for row in rows}


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
    size = sum(tensor.numel() * tensor.element_size() for tensor in inputs)
    count = min(max(PLACES // size, 2), MOST_PLACES)
    copies = [[tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in inputs] for _ in range(count - 1)]
    return [inputs, *copies]


class Clock:
    def __init__(self, calls):
        self.calls = calls
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.overwritten = torch.empty(FLUSHED, dtype=torch.uint8, device="cuda")
        self.count = 0

    def seconds(self, calls):
        """A second of each of these calls in turn, then what one of them takes: the median over rounds of their means."""
        for call in calls:
            call()
        torch.cuda.synchronize()
        with alone():
            began, queueing, times = time.perf_counter(), 1e-3, []
            while time.perf_counter() - began < WARM_S + TIMED_S:
                warm = time.perf_counter() - began >= WARM_S
                queueing, taken = self.round(calls, wait_s=1.5 * queueing)
                times += [statistics.mean(taken)] if warm else []
        return statistics.median(times)

    def round(self, calls, wait_s):
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(self.calls)]
        torch.cuda._sleep(int(wait_s * CLOCK))
        began = time.perf_counter()
        for start, end in events:
            self.overwrite_cache()
            start.record()
            calls[self.count % len(calls)]()
            end.record()
        queueing = time.perf_counter() - began
        torch.cuda.synchronize()
        return queueing, [start.elapsed_time(end) / 1e3 for start, end in events]

    def overwrite_cache(self):
        self.count += 1
        address, stream = ctypes.c_uint64(self.overwritten.data_ptr()), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.driver.cuCtxResetPersistingL2Cache()
        if self.driver.cuMemsetD8Async(address, ctypes.c_ubyte(self.count % 256), ctypes.c_size_t(FLUSHED), stream):
            sys.exit("the cache could not be overwritten")


def normal(*sizes, dtype):
    return torch.randn(*sizes, device="cuda", dtype=torch.float32).to(dtype)


def softmax(shape, dtype):
    x = normal(shape["rows"], shape["cols"], dtype=dtype)
    yield "softmax", lambda x: torch.softmax(x, -1), (x,)


def rmsnorm(shape, dtype):
    x = normal(shape["rows"], shape["cols"], dtype=dtype).requires_grad_()
    weight = normal(shape["cols"], dtype=dtype).requires_grad_()
    dy = normal(shape["rows"], shape["cols"], dtype=dtype)

    def forward(x, weight):
        return F.rms_norm(x, (x.shape[-1],), weight, 1e-6)

    yield "rmsnorm", forward, (x.detach(), weight.detach())
    yield "step", forward, (x, weight, dy)


def cross_entropy(shape, dtype):
    logits = normal(shape["rows"], shape["cols"], dtype=dtype)
    targets = torch.randint(0, shape["cols"], (shape["rows"],), device="cuda")
    yield "cross_entropy", lambda x, t: F.cross_entropy(x, t, reduction="none"), (logits, targets)


def decode_attention(shape, dtype):
    b, h, h_kv, s, t, d = (shape[name] for name in ("b", "h", "h_kv", "s", "t", "d"))
    q = normal(b, h, s, d, dtype=dtype)
    k, v = (normal(b, h_kv, t, d, dtype=dtype) for _ in range(2))
    mask = None
    if s > 1:
        mask = torch.arange(t, device="cuda")[None, :] <= torch.arange(t - s, t, device="cuda")[:, None]

    def attention(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=h != h_kv)

    yield "decode_attention", attention, (q, k, v)


def matmul(shape, dtype):
    a = normal(shape["m"], shape["k"], dtype=dtype)
    b = normal(shape["k"], shape["n"], dtype=dtype)
    yield "matmul", lambda a, b: a @ b, (a, b)


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
    y = torch.empty(rows, n, device="cuda", dtype=dtype)

    def loop(x, w):
        for group, (start, end) in enumerate(zip(bounds, bounds[1:])):
            if end > start:
                torch.matmul(x[start:end], w[group], out=y[start:end])
        return y

    yield "grouped_matmul", loop, (x, w)


# Problems that are drawn for a shape: more than one where the work depends on what is drawn. Only the first is compiled,
# which takes seconds each time.
DRAWS = {"grouped_matmul": 3}
OPERATORS = {op.__name__: op for op in (softmax, rmsnorm, cross_entropy, decode_attention, matmul, grouped_matmul)}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


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


def recorded(function, arguments):
    """Many kernels as one graph: launched one by one they keep the host busy for longer than the device."""
    for _ in range(3):
        function(*arguments)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function(*arguments)
    return graph.replay


def timed(clock, function, arguments, entry, compiled):
    if compiled:
        torch._dynamo.reset()
        function = torch.compile(function)
    if entry == "step":
        return clock.seconds([step_of(function, *inputs) for inputs in places(arguments)])
    with torch.no_grad():
        if entry == "grouped_matmul":
            return clock.seconds([recorded(function, inputs) for inputs in places(arguments)])
        return clock.seconds([functools.partial(function, *inputs) for inputs in places(arguments)])


def step_of(function, *inputs):
    *inputs, gradient = inputs
    return lambda: torch.autograd.grad(function(*inputs), inputs, gradient)


def micro(seconds):
    return f"{seconds * 1e6:,.1f} µs"


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
            ours, dtype = measured(package, place), DTYPES[kopt.get("dtype", "f32")]
        print(f"\n{package}\n\n| entry | shape | kernel | of the roofline | PyTorch eager | compiled | faster than the better by |")
        print("|---|---|---:|---:|---:|---:|---:|")
        for shape in kopt["shapes"]:
            name = name_of(kopt["op"], shape)
            if arguments.shape and name not in arguments.shape:
                continue
            eager, compiled = collections.defaultdict(list), {}
            for _ in range(DRAWS.get(kopt["op"], 1)):
                for entry, function, inputs in OPERATORS[kopt["op"]](shape, dtype):
                    eager[entry].append(timed(clock, function, inputs, entry, False))
                    if entry not in compiled:
                        compiled[entry] = timed(clock, function, inputs, entry, True)
            for entry, times in eager.items():
                if (entry, name) not in ours:
                    sys.exit(f"`cargo kopt bench` has no {entry} of {name}, but {sorted(ours)}")
                seconds, share = ours[entry, name]
                theirs = [statistics.median(times), compiled[entry]]
                gain = min(theirs) / seconds - 1
                mark = "" if gain > 0 else " (a loss)"
                roof = f"{share:.0%}" if share is not None else ""
                print(f"| {entry} | {name} | {micro(seconds)} | {roof} | {micro(theirs[0])} | {micro(theirs[1])} | {gain:+.1%}{mark} |", flush=True)
            torch.cuda.empty_cache()


main()
