#!/usr/bin/env python3
"""What each CUDA kernel needs of a multiprocessor, from the `ptxas -v` lines of a build's log:
registers, shared memory, spills and the theoretical occupancy at its block size, which is the first
argument of its __launch_bounds__. Exits 1 if a kernel spills.

usage: tools/cuda_resources.py LOG [KERNEL=BYTES...]
KERNEL=BYTES: dynamic shared memory to count in for kernels whose name, as printed, starts so. Of
others with dynamic shared memory only the static part is known; it has a + behind it.
"""
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WARP, REGISTERS, REGISTER_UNIT, WARP_UNIT = 32, 65536, 256, 4

# Limits of a multiprocessor: warps, blocks, bytes of shared memory; what a block takes beside its
# own, and the unit of allocation.
Limits = collections.namedtuple("Limits", "warps blocks shared reserved unit")
LIMITS = {"sm_75": Limits(32, 16, 64 << 10, 0, 256), "sm_80": Limits(64, 32, 164 << 10, 1024, 128),
          "sm_86": Limits(48, 16, 100 << 10, 1024, 128), "sm_89": Limits(48, 24, 100 << 10, 1024, 128),
          "sm_90": Limits(64, 32, 228 << 10, 1024, 128)}

Kernel = collections.namedtuple("Kernel", "stem name arch registers shared spilled")
# A kernel's bound on the threads of a block, in terms of constants and template parameters.
Source = collections.namedtuple("Source", "bound constants parameters dynamic")


def round_up(n, unit):
    return -(-n // unit) * unit


def occupancy(limits, threads, registers, shared):
    """Resident warps over the most there can be."""
    warps = round_up(threads, WARP) // WARP
    by_registers = REGISTERS // round_up(max(registers, 1) * WARP, REGISTER_UNIT)
    blocks = min(limits.blocks, limits.warps // warps,
                 by_registers // WARP_UNIT * WARP_UNIT // warps)
    taken = round_up(shared + limits.reserved, limits.unit)
    if taken > 0:
        blocks = min(blocks, limits.shared // taken)
    return blocks * warps / limits.warps


def demangled(names):
    answer = subprocess.run(["c++filt"], input="\n".join(names), text=True, capture_output=True,
                            check=True)
    return answer.stdout.splitlines()


def readable(name):
    """void hg::ops::(anonymous namespace)::forward<(int)2>(...) -> forward<2>"""
    name = name.replace("(anonymous namespace)::", "").removeprefix("void ")
    name = re.sub(r"\b(hg|ops|cuda)::", "", re.sub(r"\((int|bool)\)", "", name))
    depth = 0
    for i, c in enumerate(name):
        depth += (c == "<") - (c == ">")
        if c == "(" and depth == 0:
            return name[:i]
    return name


def kernels_of(log):
    """The last mention of each kernel counts; its stem is in its own name, or that of its object."""
    found, stem, entry, spilled = {}, "", None, 0
    for line in log.splitlines():
        if m := re.search(r"Building CUDA object \S*/(\w+)\.cu\.o", line):
            stem = m[1]
        elif m := re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line):
            entry, spilled = m.groups(), 0
        elif m := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spilled = max(int(m[1]), int(m[2]))
        elif (m := re.search(r"Used (\d+) registers", line)) and entry:
            shared = re.search(r"(\d+) bytes smem", line)
            own = re.search(r"_GLOBAL__N__[0-9a-f]+_\d+_(\w+?)_cu_[0-9a-f]", entry[0])
            found[entry] = Kernel(own[1] if own else stem, entry[0], entry[1], int(m[1]),
                                  int(shared[1]) if shared else 0, spilled)
            entry = None
    names = readable_names(found)
    return sorted(k._replace(name=names[k.name]) for k in found.values())


def readable_names(found):
    mangled = sorted({k.name for k in found.values()})
    return dict(zip(mangled, map(readable, demangled(mangled)))) if mangled else {}


def value_of(expression, constants):
    """An integer of constants and arithmetic, or None."""
    def known(m):
        others = {k: v for k, v in constants.items() if k != m[0]}
        value = value_of(constants[m[0]], others) if m[0] in constants else None
        return "None" if value is None else str(value)

    text = re.sub(r"[A-Za-z]\w*", known, re.sub(r"\b\w+::", "", expression)).replace("/", "//")
    return int(eval(text)) if re.fullmatch(r"[\d\s()+*/<-]+", text) else None


def constants_of(text):
    found = {}
    for declaration in re.findall(r"(?m)^(?:inline )?constexpr int ([^;(]+);", text):
        for part in declaration.split(","):
            name, _, expression = part.partition("=")
            found[name.strip()] = expression
    return found


def sources():
    """(stem or "" for headers, kernel) -> Source"""
    texts = {p: p.read_text() for p in [*ROOT.glob("tensor/cuda/*.h"), *ROOT.glob("tensor/ops/attention/*.cuh"),
                                       *ROOT.glob("tensor/ops/*.cu")]}
    shared = {}
    for path, text in texts.items():
        if path.suffix != ".cu":
            shared.update(constants_of(text))
    found = {}
    for path, text in texts.items():
        constants = {**shared, **constants_of(text)}
        stem = path.stem if path.suffix == ".cu" else ""
        for m in re.finditer(r"(?:template <([^>]*)>\s*)?__global__ void __launch_bounds__"
                             r"\(([^,()]+)[^()]*\)\s*(\w+)\(", text):
            parameters = [p.split()[-1] for p in (m[1] or "").split(",") if p.strip()]
            body = text[m.end():].split("__global__")[0]
            found[stem, m[3]] = Source(m[2], constants, parameters, "HG_DYN_SHARED" in body)
    return found


def threads_of(source, name):
    arguments = name.partition("<")[2].removesuffix(">").split(",")
    return value_of(source.bound, {**source.constants, **dict(zip(source.parameters, arguments))})


def table(kernels, dynamic):
    known = sources()
    rows = [("kernel", "arch", "threads", "registers", "shared", "spilled", "occupancy")]
    for k in kernels:
        plain, name = k.name.split("<")[0], f"{k.stem}: {k.name}"
        source = known.get((k.stem, plain)) or known.get(("", plain)) or Source("", {}, [], False)
        threads = threads_of(source, k.name)
        extra = next((n for start, n in dynamic.items() if name.startswith(start)), None)
        shared = k.shared + (extra or 0)
        share = (occupancy(LIMITS[k.arch], threads, k.registers, shared)
                 if threads and k.arch in LIMITS else None)
        rows.append((name, k.arch, str(threads or "?"), str(k.registers),
                     f"{shared}{'+' if source.dynamic and extra is None else ''}", str(k.spilled),
                     "?" if share is None else f"{share:.0%}"))
    return rows


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    kernels = kernels_of(pathlib.Path(sys.argv[1]).read_text())
    if not kernels:
        print(f"{sys.argv[1]}: no kernel was compiled")
        return 0
    dynamic = {}
    for argument in sys.argv[2:]:
        start, _, size = argument.rpartition("=")
        dynamic[start] = int(size)
    rows = table(kernels, dynamic)
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        print("  ".join([row[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(row[1:], widths[1:])]))
    spilling = [k for k in kernels if k.spilled]
    for k in spilling:
        print(f"{k.stem}: {k.name} spills {k.spilled} bytes on {k.arch}", file=sys.stderr)
    return 1 if spilling else 0


if __name__ == "__main__":
    sys.exit(main())
