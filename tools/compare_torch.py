#!/usr/bin/env python3
"""Compares single ops of the engine with PyTorch on the same CPU threads, interleaved in one run.

usage: tools/compare_torch.py [--threads 2] [--rounds 9] [--bench build/cpu/tools/op_bench] [FILTER]

Needs PyTorch (pip install torch, outside the project's set-up) and a build of the project
(tools/test.sh). Each round runs one call of ours, then one of PyTorch's; the table shows both sides'
fastest round and their ratio: 1.2 means ours is 1.2 times as fast. Both sides work in fp32 on random
data; PyTorch runs eager, attention as scaled_dot_product_attention, forward and backward.
"""
import argparse
import subprocess
import time

import torch
import torch.nn.functional as F

ROWS = 25216  # 128 images of 197 tokens
LINEARS = [(64, 2304), (768, 64), (64, 256), (256, 64), (64, 64), (64, 192),
           (192, 576), (192, 192), (192, 768), (768, 192), (768, 768), (768, 2304)]
ATTENTIONS = [(32, 12, 197, 64), (64, 4, 197, 16), (64, 3, 65, 64)]


def linear_call(what, rows, inner, outer):
    x, w, b, dy = (torch.randn(*s) for s in ((rows, inner), (outer, inner), (outer,), (rows, outer)))
    if what == "linear":
        return lambda: F.linear(x, w, b)
    if what == "linear_dx":
        return lambda: dy @ w
    return lambda: dy.t() @ x


def attention_call(*shape):
    q, k, v = (torch.randn(*shape, requires_grad=True) for _ in range(3))
    seed = torch.randn(*shape)

    def call():
        for t in (q, k, v):
            t.grad = None
        F.scaled_dot_product_attention(q, k, v).backward(seed)
    return call


def cases():
    for inner, outer in LINEARS:
        for what in ("linear", "linear_dx", "linear_dw"):
            flops = 2 * ROWS * inner * outer
            yield f"{what} {ROWS} {inner} {outer}", flops, linear_call(what, ROWS, inner, outer)
    for b, h, n, d in ATTENTIONS:
        yield f"attention {b} {h} {n} {d}", 14 * b * h * n * n * d, attention_call(b, h, n, d)


class Engine:
    def __init__(self, bench, threads):
        self.process = subprocess.Popen([bench, "--threads", str(threads)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def milliseconds(self):
        return float(self.ask("run"))


def torch_milliseconds(call):
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def pause():
    time.sleep(0.02)  # lets the other side's waiting threads go to sleep


def compare(engine, name, call, rounds):
    engine.ask("setup " + name)
    for _ in range(2):
        engine.milliseconds(), call()
    ours, theirs = [], []
    for _ in range(rounds):
        pause()
        ours.append(engine.milliseconds())
        pause()
        theirs.append(torch_milliseconds(call))
    return min(ours), min(theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--bench", default="build/cpu/tools/op_bench")
    parser.add_argument("filter", nargs="?", default="")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    engine = Engine(args.bench, args.threads)
    print(f"PyTorch {torch.__version__}, {args.threads} threads each, fp32, best of {args.rounds}")
    print(f"{'op and sizes':34s} {'ours ms':>9s} {'GF/s':>7s} {'torch ms':>9s} {'GF/s':>7s} {'ratio':>6s}")
    for name, flops, call in cases():
        if args.filter in name:
            ours, theirs = compare(engine, name, call, args.rounds)
            print(f"{name:34s} {ours:9.2f} {flops / ours / 1e6:7.1f} {theirs:9.2f} "
                  f"{flops / theirs / 1e6:7.1f} {theirs / ours:6.2f}", flush=True)


if __name__ == "__main__":
    main()
