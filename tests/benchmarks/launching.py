"""Launches the kernels of a CUDA crate from a Python process, on tensors of PyTorch.

A build of the crate leaves `candidate.json` (`harness/build/src/compile.rs`): the name of the device code beside it, the chosen
knobs, and the launch plan, which for Triton is completed with what Triton decides. What a plan means is said in
`harness/README.md`; it is resolved here as `harness/schema/src/plan.rs` does it, and launched as `harness/src/runner/backend/gpu`
does. A plan that is wrong does not build, so that little is checked here.

    crate = Crate(candidate_json, header, op="softmax", dtype="f32")
    entry = Entry(crate, "softmax", shape={"rows": 64, "cols": 1024}, scalars={})
    call = entry.at({"x": x, "y": y})

All that a call needs is made by `at`, once for each place that tensors lie at: `call()` is one call of the driver for each kernel
and for each buffer that is zeroed before. It goes to what was PyTorch's current stream when it was made, in PyTorch's context,
which must be there already. Headers want buffers at multiples of 256 bytes, where PyTorch's allocator puts whole tensors.
"""

import ctypes
import itertools
import json
import operator
import re
import tomllib

import torch

DRIVER = ctypes.CDLL("libcuda.so.1")
# Numbers of `cuda.h`.
MAX_DYNAMIC_SHARED, NON_PORTABLE_CLUSTERS = 8, 14
COOPERATIVE, CLUSTER_DIMENSION = 2, 4
MAP_TYPES = {torch.int32: 3, torch.float16: 6, torch.float32: 7, torch.bfloat16: 9}
MAP_SWIZZLES = {"none": 0, "32": 1, "64": 2, "128": 3}
MAP_FETCHES = {"none": 0, "64": 1, "128": 2, "256": 3}
MAP_FILLS = {"zero": 0, "nan": 1}
MAP_ALIGNED, MAP_BYTES = 128, 128

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i32": torch.int32}
# What an args struct can hold beside pointers.
SCALARS = {"int64_t": ctypes.c_int64, "float": ctypes.c_float}


def refused(code):
    name = ctypes.c_char_p()
    DRIVER.cuGetErrorName(code, ctypes.byref(name))
    return RuntimeError(f"the driver refused: {(name.value or b'?').decode()} ({code})")


def ask(call, *arguments):
    if code := call(*arguments):
        raise refused(code)


def quotient(a, b):
    """As in C: truncated."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": quotient,
    "%": lambda a, b: a - quotient(a, b) * b,
}
# The weakest first.
LEVELS = [("||",), ("&&",), ("==", "!="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%")]
FUNCTIONS = {
    "min": min,
    "max": max,
    "ceil_div": lambda a, unit: -(-a // unit),
    "align_up": lambda a, unit: -(-a // unit) * unit,
    "next_pow2": lambda a: 1 << (max(a, 1) - 1).bit_length(),
}
TOKEN = re.compile(r"""\s*(\d[\d_]*|[a-z_]\w*|"[^"]*"|'[^']*'|&&|\|\||[=!<>]=|[-+*/%<>!?:(),])""", re.ASCII | re.IGNORECASE)


class Expression:
    """An expression of a launch plan: called with values of names, it is its own value. Sides that are not taken are not computed."""

    def __init__(self, written):
        self.text, self.tokens, at = str(written).rstrip(), [], 0
        while at < len(self.text):
            token = TOKEN.match(self.text, at) or self.fail(self.text[at:])
            self.tokens.append(token[1])
            at = token.end()
        self.value = self.choice()
        if self.tokens:
            self.fail(self.tokens[0])

    def __call__(self, names):
        return self.value(names)

    def fail(self, there):
        raise ValueError(f"the expression `{self.text}` cannot be read at `{there}`")

    def take(self, *symbols):
        """The next token, if it is one of these."""
        return self.tokens.pop(0) if self.tokens and self.tokens[0] in symbols else None

    def expect(self, symbol):
        self.take(symbol) or self.fail((self.tokens or ["its end"])[0])

    def choice(self):
        condition = self.binary(0)
        if not self.take("?"):
            return condition
        yes = self.choice()
        self.expect(":")
        no = self.choice()
        return lambda names: yes(names) if condition(names) else no(names)

    def binary(self, level):
        if level == len(LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while symbol := self.take(*LEVELS[level]):
            left = joined(symbol, left, self.binary(level + 1))
        return left

    def unary(self):
        if symbol := self.take("-", "!"):
            inner = self.unary()
            return (lambda names: -inner(names)) if symbol == "-" else (lambda names: not inner(names))
        return self.atom()

    def atom(self):
        if self.take("("):
            inner = self.choice()
            self.expect(")")
            return inner
        token = self.tokens.pop(0) if self.tokens else self.fail("its end")
        if token[0].isdigit():
            number = int(token.replace("_", ""))
            return lambda names: number
        if token[0] in "\"'":
            return lambda names: token[1:-1]
        if token in ("true", "false"):
            return lambda names: token == "true"
        if not token.isidentifier():
            self.fail(token)
        if not self.take("("):
            return lambda names: names[token]
        function, arguments = FUNCTIONS[token], [self.choice()]
        while self.take(","):
            arguments.append(self.choice())
        self.expect(")")
        return lambda names: function(*(argument(names) for argument in arguments))


def joined(symbol, a, b):
    if symbol == "||":
        return lambda names: a(names) or b(names)
    if symbol == "&&":
        return lambda names: a(names) and b(names)
    return lambda names: OPERATORS[symbol](a(names), b(names))


def sizes(written, names):
    return [Expression(size)(names) for size in written]


def three(written, names):
    return (sizes(written, names) + [1, 1])[:3]


def resolved(plan, symbol, op, names):
    """The launches of an entry's call, in order: the plan's own tables, with numbers in place of expressions."""
    launches = []
    for table in plan["launch"]:
        if table.get("entry", op) != symbol or not Expression(table.get("when", "true"))(names):
            continue
        grid, args = three(table["grid"], names), table.get("args", "struct")
        if 0 in grid:
            continue
        launch = {
            "kernel": table["kernel"],
            "grid": grid,
            "block": three(table["block"], names),
            "cluster": three(table["cluster"], names) if table.get("cluster") else None,
            "shared": Expression(table.get("shared", 0))(names),
            "args": None if args == "struct" else args,
            "cooperative": table.get("cooperative", False),
        }
        launches.append(launch)
    return launches


def struct_of(header, symbol):
    """The args struct of an entry, as the header declares it."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", header, flags=re.DOTALL)
    body = re.search(rf"\bstruct\s+{symbol}_args\s*\{{(.*?)\}}", text, re.DOTALL)[1]
    fields = []
    for declared in filter(None, map(str.strip, body.split(";"))):
        kind, pointer, name = re.fullmatch(r"(?:const\s+)?(\w+)\b\s*(\*?)\s*(\w+)", declared).groups()
        fields.append((name, ctypes.c_void_p if pointer else SCALARS[kind]))
    return type(f"{symbol}_args", (ctypes.Structure,), {"_fields_": fields})


class Config(ctypes.Structure):
    """`CUlaunchConfig`: grid, block and bytes of shared memory; then, where C aligns them, the others."""

    _fields_ = [("sizes", ctypes.c_uint * 7), ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint)]


def attributes_of(launch):
    """A `CUlaunchAttribute` each, which is 18 words: number, padding, and a value of 16."""
    attributes = []
    if launch["cluster"]:
        attributes.append([CLUSTER_DIMENSION, 0, *launch["cluster"], *[0] * 13])
    if launch["cooperative"]:
        attributes.append([COOPERATIVE, 0, 1, *[0] * 15])
    return (ctypes.c_uint * (18 * len(attributes)))(*sum(attributes, [])), len(attributes)


def tensor_map(table, buffer, names):
    """A `CUtensorMap` of a buffer, at an address that C would give it, and what keeps it there."""
    dtype = DTYPES[table["dtype"]] if "dtype" in table else buffer.dtype
    counts, box = sizes(table["sizes"], names), sizes(table["box"], names)
    strides = sizes(table["strides"], names) if "strides" in table else itertools.accumulate(counts[:-1], operator.mul)
    rank, memory = len(counts), ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGNED)
    address = -(-ctypes.addressof(memory) // MAP_ALIGNED) * MAP_ALIGNED
    longs, words = ctypes.c_uint64 * 5, ctypes.c_uint * 5
    ask(
        DRIVER.cuTensorMapEncodeTiled,
        ctypes.c_void_p(address),
        MAP_TYPES[dtype],
        rank,
        ctypes.c_void_p(buffer.data_ptr()),
        longs(*counts),
        longs(*(stride * dtype.itemsize for stride in strides)),
        words(*box),
        words(*[1] * rank),
        0,
        MAP_SWIZZLES[table.get("swizzle", "none")],
        MAP_FETCHES[table.get("l2", "none")],
        MAP_FILLS[table.get("fill", "zero")],
    )
    return address, memory


class Crate:
    """What a build made of a crate, loaded."""

    def __init__(self, candidate, header, op, dtype):
        made = json.loads(candidate.read_text())
        if made["missing"]:
            raise RuntimeError(f"{candidate}: nothing was compiled: {made['missing']}")
        self.header, self.op, self.dtype = header, op, dtype
        self.plan, self.knobs = tomllib.loads(made["plan"]), made["knobs"]
        self.module = ctypes.c_void_p()
        ask(DRIVER.cuModuleLoadData, ctypes.byref(self.module), (candidate.parent / made["object"]).read_bytes())

    def function(self, launch):
        """The kernel, allowed to be launched like this. What another shape was allowed stays so."""
        function, allowed = ctypes.c_void_p(), ctypes.c_int()
        ask(DRIVER.cuModuleGetFunction, ctypes.byref(function), self.module, launch["kernel"].encode())
        ask(DRIVER.cuFuncGetAttribute, ctypes.byref(allowed), MAX_DYNAMIC_SHARED, function)
        if allowed.value < launch["shared"]:
            ask(DRIVER.cuFuncSetAttribute, function, MAX_DYNAMIC_SHARED, launch["shared"])
        if launch["cluster"]:
            ask(DRIVER.cuFuncSetAttribute, function, NON_PORTABLE_CLUSTERS, 1)
        return function


class Entry:
    """An entry of a crate for one shape, and the scratch memory that all its calls share."""

    def __init__(self, crate, symbol, shape, scalars):
        self.struct, self.values = struct_of(crate.header, symbol), {**shape, **scalars}
        self.names = {**shape, **crate.knobs, "dtype": crate.dtype}
        self.launches = resolved(crate.plan, symbol, crate.op, self.names)
        self.functions = [crate.function(launch) for launch in self.launches]
        named = {name for launch in self.launches for name in launch["args"] or []}
        self.maps = [table for table in crate.plan.get("tensor_map", []) if table["name"] in named]
        named |= {table["buffer"] for table in self.maps}
        self.scratch, self.zeroed = {}, []
        for table in crate.plan.get("workspace", []):
            if table["name"] in named:
                # All bits set are a NaN of every type: no kernel may count on what it finds.
                size = Expression(table["bytes"])(self.names)
                self.scratch[table["name"]] = torch.full((size,), 0xFF, dtype=torch.uint8, device="cuda")
                self.zeroed += [table["name"]] if table.get("fill") == "zero" and size else []

    def at(self, buffers):
        """A call on these tensors, which are those of the header by their names; others among them are not looked at."""
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        given = {name: buffers[name].data_ptr() if kind is ctypes.c_void_p else self.values[name] for name, kind in self.struct._fields_}
        args, tensors = self.struct(**given), {**buffers, **self.scratch}
        # ctypes keeps nothing alive that it has only the address of.
        kept, where = [args, tensors], {name: ctypes.addressof(args) + getattr(self.struct, name).offset for name in given}
        for name, tensor in self.scratch.items():
            kept.append(ctypes.c_uint64(tensor.data_ptr()))
            where[name] = ctypes.addressof(kept[-1])
        for table in self.maps:
            where[table["name"]], memory = tensor_map(table, tensors[table["buffer"]], self.names)
            kept.append(memory)
        work = []
        for name in self.zeroed:
            address, size = ctypes.c_uint64(tensors[name].data_ptr()), ctypes.c_size_t(tensors[name].numel())
            work.append((DRIVER.cuMemsetD8Async, (address, ctypes.c_ubyte(0), size, stream)))
        for launch, function in zip(self.launches, self.functions):
            passed = [ctypes.addressof(args)] if launch["args"] is None else [where[name] for name in launch["args"]]
            attributes, count = attributes_of(launch)
            kept.append(attributes)
            shape = (*launch["grid"], *launch["block"], launch["shared"])
            config = Config((ctypes.c_uint * 7)(*shape), stream, ctypes.addressof(attributes), count)
            # With attributes or without: as the harness does.
            work.append((DRIVER.cuLaunchKernelEx, (ctypes.byref(config), function, (ctypes.c_void_p * len(passed))(*passed), None)))

        def call():
            for function, arguments in work:
                if code := function(*arguments):
                    raise refused(code)

        call.kept = kept
        return call
