#!/usr/bin/env python3
"""Compares the engine with PyTorch on the same CPU threads, interleaved in one run.

usage: tools/compare_torch.py [step] [eval] [variants] [ops] [--only TEXT] [--batch N] [--threads 2]
                              [--rounds 3] [--json]

  step      a training step of whole models: forward, backward, AdamW
  eval      the pass over a batch of test images, PyTorch in inference mode
  variants  a training step with other attentions, which PyTorch has as masks or in a line or two
  ops       single products and attentions

Without a word, all but ops. Needs PyTorch (pip install torch, outside the project's set-up) and a
build of the project (tools/test.sh). Each round runs some calls of ours, then some of PyTorch's; the
table shows both sides' fastest call and their ratio: 1.2 means ours is 1.2 times as fast. Both sides
work in fp32 on random data; PyTorch runs eager, attention as scaled_dot_product_attention. Memory is
the peak of each side's process.
"""
import argparse
import json
import platform
import resource
import subprocess
import sys
import time

# Sizes as of the keys of [model]; batch as train.batch_size.
SIZES = ("img_size", "patch_size", "in_channels", "emb_size", "depth", "heads", "dim_head",
         "num_classes", "batch")
MODELS = {
    "paper-d4": (224, 16, 3, 64, 4, 12, 64, 10, 32),
    "paper-h4": (224, 16, 3, 64, 4, 4, 16, 10, 64),
    "cifar": (32, 4, 3, 192, 6, 3, 64, 10, 64),
    "fmnist": (28, 4, 1, 64, 4, 4, 16, 10, 256),
    "deit-tiny": (224, 16, 3, 192, 12, 3, 64, 1000, 8),
    "vit-s": (224, 16, 3, 384, 12, 6, 64, 1000, 4),
    "vit-b": (224, 16, 3, 768, 12, 12, 64, 1000, 2),
    "long": (896, 16, 3, 192, 2, 3, 64, 10, 1),  # 3,137 tokens
}
VARIANTS = ("softmax", "gmm", "fiak", "rbf", "linear_elu", "efficient")
VARIANT_MODELS = {
    "small": (32, 4, 3, 64, 2, 4, 16, 10, 128),
    "paper-h4": MODELS["paper-h4"],
}
CALLS = 3  # of one side at a time

ROWS = 25216  # 128 images of 197 tokens
LINEARS = [(64, 2304), (768, 64), (64, 256), (256, 64), (64, 64), (64, 192),
           (192, 576), (192, 192), (192, 768), (768, 192), (768, 768), (768, 2304)]
ATTENTIONS = [(32, 12, 197, 64), (64, 4, 197, 16), (64, 3, 65, 64)]


# PyTorch's side: a process for each case, which answers a line on its standard input with the
# milliseconds of a call and its peak memory in bytes.

def attend(variant, q, k, v, prior):
    import torch
    import torch.nn.functional as F
    if variant in ("gmm", "fiak"):  # priors [H,1,N] or [H,N,N]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=prior.abs().clamp(max=1).log())
    if variant == "rbf":  # |q|^2 falls out of the softmax
        norms = k.square().sum(-1)[..., None, :] / (-2 * q.shape[-1] ** 0.5)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=norms)
    if variant == "efficient":
        return q.softmax(-1) @ (k.softmax(-2).mT @ v)
    if variant == "linear_elu":
        q, k = F.elu(q) + 1, F.elu(k) + 1
        return q @ (k.mT @ v) / (q @ k.sum(-2)[..., None])
    return F.scaled_dot_product_attention(q, k, v)


def vit(sizes, variant="softmax"):
    import torch
    from torch import nn
    import torch.nn.functional as F
    img, patch, channels, width, depth, heads, dim, classes, _ = sizes
    tokens = (img // patch) ** 2 + 1
    rows_of_priors = {"gmm": 1, "fiak": tokens}

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = (nn.LayerNorm(width, eps=1e-6) for _ in range(2))
            self.qkv, self.proj = nn.Linear(width, 3 * heads * dim), nn.Linear(heads * dim, width)
            self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            if variant in rows_of_priors:
                shape = heads, rows_of_priors[variant], tokens
                self.prior = nn.Parameter(torch.full(shape, 1 / tokens))

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, heads, dim).permute(2, 0, 3, 1, 4)
            o = attend(variant, q, k, v, getattr(self, "prior", None))
            o = o.transpose(1, 2).reshape(b, n, heads * dim)
            x = x + self.proj(o)
            return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))

    class Vit(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Conv2d(channels, width, patch, patch)
            self.cls = nn.Parameter(torch.zeros(1, 1, width))
            self.pos = nn.Parameter(torch.randn(1, tokens, width) * 0.02)
            self.blocks = nn.Sequential(*(Block() for _ in range(depth)))
            self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, classes)

        def forward(self, images):
            patches = self.embed(images).flatten(2).transpose(1, 2)
            x = torch.cat([self.cls.expand(len(images), -1, -1), patches], 1) + self.pos
            return self.head(self.norm(self.blocks(x))[:, 0])

    return Vit()


def sizes_of(what, name, batch):
    model, variant = name.split() if what == "variants" else (name, "softmax")
    *sizes, its_batch = (VARIANT_MODELS if what == "variants" else MODELS)[model]
    return (*sizes, batch or its_batch), variant


def model_call(what, name, batch):
    import torch
    import torch.nn.functional as F
    sizes, variant = sizes_of(what, name, batch)
    img, _, channels, *_, classes, batch = sizes
    model = vit(sizes, variant)
    images, labels = torch.randn(batch, channels, img, img), torch.randint(0, classes, (batch,))
    if what == "eval":
        model.eval()

        def run_pass():
            with torch.inference_mode():
                model(images)
        return run_pass
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return step


def linear_call(what, rows, inner, outer):
    import torch
    import torch.nn.functional as F
    x, w, b, dy = (torch.randn(*s) for s in ((rows, inner), (outer, inner), (outer,), (rows, outer)))
    if what == "linear":
        return lambda: F.linear(x, w, b)
    if what == "linear_dx":
        return lambda: dy @ w
    return lambda: dy.t() @ x


def attention_call(*shape):
    import torch
    import torch.nn.functional as F
    q, k, v = (torch.randn(*shape, requires_grad=True) for _ in range(3))
    seed = torch.randn(*shape)

    def call():
        for t in (q, k, v):
            t.grad = None
        F.scaled_dot_product_attention(q, k, v).backward(seed)
    return call


def make_call(what, name, batch):
    if what != "ops":
        return model_call(what, name, batch)
    op, *sizes = name.split()
    sizes = [int(s) for s in sizes]
    return attention_call(*sizes) if op == "attention" else linear_call(op, *sizes)


def serve(what, name, threads, batch):
    import torch
    torch.set_num_threads(threads)
    call = make_call(what, name, batch)
    call(), call()
    print(torch.__version__, flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        call()
        ms = (time.perf_counter() - start) * 1e3
        print(ms, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, flush=True)


class Server:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{' '.join(self.process.args)} ended")
        return line.strip()

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.read()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


# Our side: (milliseconds, bytes or none) of CALLS calls.

def our_model(what, name, args):
    sizes, variant = sizes_of(what, name, args.batch)
    sizes = dict(zip(SIZES, sizes), attention=variant)
    batch = sizes.pop("batch")
    command = [args.hgtrain, "bench", "deit-tiny", "--json", "--threads", str(args.threads), "--steps",
               str(CALLS), "--set", f"train.batch_size={batch}"]
    for key, value in sizes.items():
        command += ["--set", f"model.{key}={value}"]
    if what == "eval":
        command.append("--eval")
    out = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return out["ms_per_step"], out["peak_rss_bytes"]


def our_op(bench):
    return min(float(bench.ask("run")) for _ in range(CALLS)), None


def cases(wanted):
    for what in wanted:
        if what == "variants":
            for model in VARIANT_MODELS:
                yield from ((what, f"{model} {variant}", None) for variant in VARIANTS)
            continue
        if what != "ops":
            yield from ((what, name, None) for name in MODELS)
            continue
        for inner, outer in LINEARS:
            for op in ("linear", "linear_dx", "linear_dw"):
                yield what, f"{op} {ROWS} {inner} {outer}", 2 * ROWS * inner * outer
        for b, h, n, d in ATTENTIONS:
            yield what, f"attention {b} {h} {n} {d}", 14 * b * h * n * n * d


def pause():
    time.sleep(0.02)  # lets the other side's waiting threads go to sleep


def compare(what, name, flops, args):
    peer = Server([sys.executable, __file__, "--serve", what, name, "--threads", str(args.threads),
                   "--batch", str(args.batch)])
    version = peer.read()
    bench = Server([args.bench, "--threads", str(args.threads)]) if what == "ops" else None
    if bench:
        bench.ask("setup " + name)
    ours, theirs = [], []
    for _ in range(args.rounds):
        pause()
        ours.append(our_op(bench) if bench else our_model(what, name, args))
        pause()
        theirs += [tuple(float(x) for x in peer.ask("run").split()) for _ in range(CALLS)]
    peer.end()
    if bench:
        bench.end()
    row = {"what": what, "name": name, "torch": version, "ours_ms": min(ours)[0],
           "torch_ms": min(theirs)[0], "ratio": min(theirs)[0] / min(ours)[0]}
    if flops:
        row |= {"ours_gflops_per_s": flops / row["ours_ms"] / 1e6,
                "torch_gflops_per_s": flops / row["torch_ms"] / 1e6}
    else:
        row |= {"ours_bytes": max(b for _, b in ours), "torch_bytes": int(max(b for _, b in theirs))}
    return row


def line_of(row):
    if "ours_bytes" in row:
        unit, ours, theirs = "MB", row["ours_bytes"] / 1e6, row["torch_bytes"] / 1e6
    else:
        unit, ours, theirs = "GF/s", row["ours_gflops_per_s"], row["torch_gflops_per_s"]
    return (f"{row['what']:8s} {row['name']:25s} {row['ours_ms']:9.2f} {row['torch_ms']:9.2f} "
            f"{row['ratio']:6.2f} {ours:8.0f} {theirs:8.0f} {unit}")


def processor():
    with open("/proc/cpuinfo") as f:
        names = [line.split(":")[1].strip() for line in f if line.startswith("model name")]
    return names[0] if names else platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", nargs="*", help="step, eval, variants, ops")
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--batch", type=int, default=0, help="images a step; 0: each model's own")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one JSON object a case")
    parser.add_argument("--hgtrain", default="build/cpu/train/hgtrain")
    parser.add_argument("--bench", default="build/cpu/tools/op_bench")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return serve(*args.serve, args.threads, args.batch)
    if unknown := set(args.what) - {"step", "eval", "variants", "ops"}:
        parser.error(f"expected step, eval, variants or ops, got {' '.join(sorted(unknown))}")
    if not args.json:
        print(f"{processor()}, {args.threads} threads each, fp32, best of {args.rounds * CALLS}")
        print(f"{'':34s} {'ours ms':>9s} {'torch ms':>9s} {'ratio':>6s} {'ours':>8s} {'torch':>8s}")
    for what, name, flops in cases(args.what or ["step", "eval", "variants"]):
        if args.only in name:
            row = compare(what, name, flops, args)
            print(json.dumps(row) if args.json else line_of(row), flush=True)


if __name__ == "__main__":
    main()
