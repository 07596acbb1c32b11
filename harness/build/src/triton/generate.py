"""Compiles the kernels of one Python source ahead of time, for a device that need not be here.

The source lists what is compiled, by the names that the launch plan uses:

    KERNELS = {
        "softmax_rows": {
            "function": softmax_rows,                # a @triton.jit function
            "signature": {"x": "*fp32", "y": "*fp32", "rows": "i64", "cols": "i64"},
            "constants": {"BLOCK": 1024},            # its constexpr parameters
            "divisible": {"x": 16, "y": 16},         # what pointers and sizes may be taken to be multiples of: 16
            "options": {"num_warps": 8},             # as triton.compile takes them
        },
    }

`import kopt` gives a source the chosen knobs (`kopt.knobs`) and the target (`kopt.backend`, `kopt.arch`). Files go to the
folder that is named, and what a launch needs to know of each kernel is printed as JSON, in the last line.
"""

import argparse
import importlib.util
import json
import os
import sys
import types

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

ELEMENT = {"cuda": "ptx", "hip": "hsaco"}


def load(path, knobs, backend, arch):
    """The source as a module. Its neighbours can be imported."""
    kopt = types.ModuleType("kopt")
    kopt.knobs, kopt.backend, kopt.arch = knobs, backend, arch
    sys.modules["kopt"] = kopt
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location("kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not getattr(module, "KERNELS", None):
        sys.exit(f"{path} lists no KERNELS")
    return module.KERNELS


def compile_kernel(name, described, target, out):
    """One kernel into one file; what a launch needs to know of it."""
    unknown = set(described) - {"function", "signature", "constants", "divisible", "options"}
    if unknown:
        sys.exit(f"{name}: unknown key {', '.join(sorted(unknown))}")
    function, given = described["function"], described["signature"]
    constants, divisible = described.get("constants", {}), described.get("divisible", {})
    missing = [parameter for parameter in function.arg_names if parameter not in given and parameter not in constants]
    foreign = [parameter for parameter in (*given, *constants, *divisible) if parameter not in function.arg_names]
    if missing or foreign:
        sys.exit(f"{name}: parameters without a type or value: {missing}; not parameters of it: {foreign}")
    if any(by != 16 for by in divisible.values()):
        sys.exit(f"{name}: Triton knows multiples of 16 only")
    arguments = [parameter for parameter in function.arg_names if parameter not in constants]
    signature = {parameter: given.get(parameter, "constexpr") for parameter in function.arg_names}
    attributes = {(function.arg_names.index(parameter),): [["tt.divisibility", 16]] for parameter in divisible}
    # Two kernels may be made of one function.
    function._repr = lambda _: name
    source = ASTSource(function, signature, constexprs=constants, attrs=attributes)
    compiled = triton.compile(source, target=target, options=described.get("options", {}))
    metadata, element = compiled.metadata, ELEMENT[target.backend]
    if metadata.name != name:
        sys.exit(f"{name}: Triton called it {metadata.name}")
    code = compiled.asm[element]
    with open(os.path.join(out, f"{name}.{element}"), "wb") as file:
        file.write(code.encode() if isinstance(code, str) else code)
    is_pointer = lambda parameter: given[parameter].startswith("*")
    return {
        "name": name,
        "file": f"{name}.{element}",
        "warps": metadata.num_warps,
        "warp_size": target.warp_size,
        "cluster": metadata.num_ctas,
        "shared": metadata.shared,
        "arguments": arguments,
        "aligned": {parameter: by for parameter, by in divisible.items() if is_pointer(parameter)},
        "divisible": {parameter: by for parameter, by in divisible.items() if not is_pointer(parameter)},
        # Triton adds two pointers to every kernel: bytes a block of scratch memory, and of a profiler's.
        "scratch": [getattr(metadata, "global_scratch_size", 0), getattr(metadata, "profile_scratch_size", 0)],
        "fused": metadata.enable_fp_fusion,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("--target", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--knobs", default="{}")
    arguments = parser.parse_args()
    backend, arch = arguments.target.split(":")
    wave = 64 if arch.startswith("gfx9") else 32
    target = GPUTarget(backend, int(arch) if backend == "cuda" else arch, wave)
    kernels = load(arguments.source, json.loads(arguments.knobs), backend, arch)
    made = [compile_kernel(name, described, target, arguments.out) for name, described in kernels.items()]
    print(json.dumps({"kernels": made}))


main()
