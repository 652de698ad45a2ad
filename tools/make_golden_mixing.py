#!/usr/bin/env python3
"""Makes tests/golden/mixing.safetensors with PyTorch: logits and gradients of tiny ViTs whose tokens
mix within windows, along axes, by hashes, by the Fourier transform or by an MLP, or merge; of whole
images and of kept patches. tests/train/step/golden_mixing_test.cpp holds the engine to them.

The forms are as plain as they can be: masks of N x N, loops over tokens, f64.

usage: tools/make_golden_mixing.py [FILE]     (needs PyTorch; the tests do not)
"""
import sys

import torch
import torch.nn.functional as F

from make_golden import write_safetensors

CHANNELS, PATCH, GRID, WIDTH, DEPTH, HEADS, DIM_HEAD, CLASSES, BATCH, KEPT = 2, 4, 5, 12, 2, 3, 4, 4, 3, 14
IMAGE, TOKENS, INNER = PATCH * GRID, GRID * GRID + 1, HEADS * DIM_HEAD
WINDOW, ROUNDS, BUCKETS, HIDDEN = 2, 2, 4, 7
MERGES = {"tome": [13, 7], "pool": [8, 3]}  # patches that the blocks leave


def parameters():
    shapes = {"cls_token": (1, 1, WIDTH), "pos_embed": (1, TOKENS, WIDTH),
              "patch_embed.proj.weight": (WIDTH, CHANNELS, PATCH, PATCH),
              "patch_embed.proj.bias": (WIDTH,), "norm.weight": (WIDTH,), "norm.bias": (WIDTH,),
              "head.weight": (CLASSES, WIDTH), "head.bias": (CLASSES,)}
    for i in range(DEPTH):
        block = {"norm1.weight": (WIDTH,), "norm1.bias": (WIDTH,), "norm2.weight": (WIDTH,),
                 "norm2.bias": (WIDTH,), "attn.qkv.weight": (3 * INNER, WIDTH),
                 "attn.qkv.bias": (3 * INNER,), "attn.qv.weight": (2 * INNER, WIDTH),
                 "attn.qv.bias": (2 * INNER,), "attn.proj.weight": (WIDTH, INNER),
                 "attn.proj.bias": (WIDTH,), "attn.tokens.fc1.weight": (HIDDEN, TOKENS),
                 "attn.tokens.fc1.bias": (HIDDEN,), "attn.tokens.fc2.weight": (TOKENS, HIDDEN),
                 "attn.tokens.fc2.bias": (TOKENS,), "attn.rotations": (ROUNDS, DIM_HEAD, BUCKETS // 2),
                 "mlp.fc1.weight": (2 * WIDTH, WIDTH), "mlp.fc1.bias": (2 * WIDTH,),
                 "mlp.fc2.weight": (WIDTH, 2 * WIDTH), "mlp.fc2.bias": (WIDTH,)}
        shapes.update({f"blocks.{i}.{name}": shape for name, shape in block.items()})
    made = {}
    for name, shape in shapes.items():
        value = torch.randn(shape) * (0.35 if len(shape) > 1 else 0.1)
        made[name] = value + (1.0 if "norm" in name and "weight" in name else 0.0)
    return made


def heads(x):  # [B, N, H D] -> [B, H, N, D]
    return x.reshape(x.shape[0], x.shape[1], HEADS, DIM_HEAD).transpose(1, 2)


def attend(q, k, v, mask, sizes=None):  # mask [B, H, N, N]: which pairs attend
    scores = q @ k.transpose(-2, -1) / DIM_HEAD ** 0.5
    if sizes is not None:
        scores = scores + sizes.log()[:, None, None, :]
    out = torch.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ v
    return out.transpose(1, 2).reshape(q.shape[0], q.shape[2], INNER)


def qkv(p, x):
    return [heads(t) for t in F.linear(x, p["attn.qkv.weight"], p["attn.qkv.bias"]).chunk(3, -1)]


def project(p, x):
    return F.linear(x, p["attn.proj.weight"], p["attn.proj.bias"])


def grid_mask(ids, same):  # same(row, column, other row, other column, head)
    b, n = ids.shape
    mask = torch.zeros(b, HEADS, n, n, dtype=torch.bool)
    for image in range(b):
        for i in range(n):
            for j in range(n):
                p, q = int(ids[image, i]), int(ids[image, j])
                for h in range(HEADS):
                    mask[image, h, i, j] = p == 0 or q == 0 or same(
                        *divmod(p - 1, GRID), *divmod(q - 1, GRID), h)
    return mask


def window(p, x, ids, layer):
    s = WINDOW // 2 if layer % 2 else 0
    mask = grid_mask(ids, lambda r, c, r2, c2, h: (r + s) // WINDOW == (r2 + s) // WINDOW
                     and (c + s) // WINDOW == (c2 + s) // WINDOW)
    return project(p, attend(*qkv(p, x), mask))


def axial(p, x, ids, layer):
    mask = grid_mask(ids, lambda r, c, r2, c2, h: r == r2 if h < (HEADS + 1) // 2 else c == c2)
    return project(p, attend(*qkv(p, x), mask))


def hashed(p, x, ids, layer):
    q, v = [heads(t) for t in F.linear(x, p["attn.qv.weight"], p["attn.qv.bias"]).chunk(2, -1)]
    k = q / q.norm(dim=-1, keepdim=True).clamp(min=1e-6)
    n = x.shape[1]
    mask = torch.zeros(*q.shape[:3], n, dtype=torch.bool)
    for t in range(ROUNDS):
        turned = q.detach() @ p["attn.rotations"][t]
        bucket = torch.cat([turned, -turned], -1).argmax(-1)
        mask |= bucket[..., :, None] == bucket[..., None, :]
    cls = (ids == 0)[:, None, :]
    mask = mask | cls[..., :, None] | cls[..., None, :]
    mask = mask & ~torch.eye(n, dtype=torch.bool)
    return project(p, attend(q, k, v, mask))


def fnet(p, x, ids, layer):
    return torch.fft.fft2(x).real / (x.shape[1] * x.shape[2]) ** 0.5


def mixer(p, x, ids, layer):
    out = []
    for image, positions in zip(x, ids):
        hidden = F.gelu(p["attn.tokens.fc1.weight"][:, positions] @ image
                        + p["attn.tokens.fc1.bias"][:, None])
        out.append(p["attn.tokens.fc2.weight"][positions] @ hidden
                   + p["attn.tokens.fc2.bias"][positions, None])
    return torch.stack(out)


def tome(metric, sizes, left):
    n = len(metric)
    into = list(range(n))
    first, second = list(range(1, n, 2)), list(range(2, n, 2))
    scores = metric[first] @ metric[second].T
    best = [(-float(row.max()), a, second[int(row.argmax())]) for a, row in zip(first, scores)]
    for _, a, b in sorted(best)[:n - 1 - left]:
        into[a] = b
    return into


def pool(metric, sizes, left):
    n = len(metric) - 1
    upper = (metric[1:] @ metric[1:].T).triu(1)
    similarity = upper + upper.T + torch.eye(n, dtype=upper.dtype)

    def assigned(medoids):
        of = [int(similarity[i, medoids].argmax()) for i in range(n)]
        for c, m in enumerate(medoids):
            of[m] = c
        return of

    medoids = [c * n // left for c in range(left)]
    of = assigned(medoids)
    for _ in range(5):
        for c in range(left):
            members = [i for i in range(n) if of[i] == c]
            sums = [sum(float(similarity[i, j] * sizes[1 + j]) for j in members) for i in members]
            medoids[c] = members[sums.index(max(sums))]
        of = assigned(medoids)
    return [0] + [1 + medoids[c] for c in of]


def merge(method, x, sizes, keys, left):
    metric = F.normalize(keys.detach().mean(1), dim=-1)  # [B, N, D]
    tokens, counts = [], []
    for image in range(len(x)):
        into = {"tome": tome, "pool": pool}[method](metric[image], sizes[image], left)
        kept = [i for i in range(len(into)) if into[i] == i]
        groups = [[i for i in range(len(into)) if into[i] == k] for k in kept]
        counts.append(torch.stack([sizes[image, g].sum() for g in groups]))
        tokens.append(torch.stack([(x[image, g] * sizes[image, g, None]).sum(0)
                                   for g in groups]) / counts[-1][:, None])
    return torch.stack(tokens), torch.stack(counts)


CASES = {"window": window, "axial": axial, "hash": hashed, "fnet": fnet, "mixer": mixer,
         "tome": None, "pool": None}


def logits_of(case, p, images, keep):
    x = F.conv2d(images, p["patch_embed.proj.weight"], p["patch_embed.proj.bias"], PATCH)
    x = x.flatten(2).transpose(1, 2)
    ids = torch.arange(TOKENS).expand(BATCH, -1)
    if keep is not None:
        x = torch.stack([image[k] for image, k in zip(x, keep)])
        ids = torch.cat([torch.zeros(BATCH, 1, dtype=torch.int64), keep + 1], 1)
    x = torch.cat([p["cls_token"].expand(BATCH, -1, -1), x], 1) + p["pos_embed"][0][ids]
    sizes = torch.ones(x.shape[:2], dtype=x.dtype)
    norm = lambda x, name: F.layer_norm(x, (WIDTH,), p[name + ".weight"], p[name + ".bias"], 1e-6)
    for i in range(DEPTH):
        own = {name[len(f"blocks.{i}."):]: t for name, t in p.items() if name.startswith(f"blocks.{i}.")}
        normed = norm(x, f"blocks.{i}.norm1")
        if CASES[case]:
            x = x + CASES[case](own, normed, ids, i)
        else:
            q, k, v = qkv(own, normed)
            n = x.shape[1]
            x = x + project(own, attend(q, k, v, torch.ones(BATCH, HEADS, n, n, dtype=torch.bool), sizes))
            x, sizes = merge(case, x, sizes, k, MERGES[case][i])
        hidden = F.gelu(F.linear(norm(x, f"blocks.{i}.norm2"), own["mlp.fc1.weight"], own["mlp.fc1.bias"]))
        x = x + F.linear(hidden, own["mlp.fc2.weight"], own["mlp.fc2.bias"])
    return F.linear(norm(x, "norm")[:, 0], p["head.weight"], p["head.bias"])


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    made = parameters()
    images, labels = torch.randn(BATCH, CHANNELS, IMAGE, IMAGE), torch.randint(0, CLASSES, (BATCH,))
    keep = torch.stack([torch.randperm(TOKENS - 1)[:KEPT].sort().values for _ in range(BATCH)])
    out = {"images": images, "labels": labels, "keep": keep}
    out.update({"model." + name: value for name, value in made.items()})
    for case in CASES:
        for kept, which in (("all", None), ("some", keep)):
            p = {name: value.double().requires_grad_() for name, value in made.items()}
            logits = logits_of(case, p, images.double(), which)
            F.cross_entropy(logits, labels).backward()
            out[f"{case}.{kept}.logits"] = logits.float()
            for name, value in p.items():
                if value.grad is not None:
                    out[f"{case}.{kept}.grad.{name}"] = value.grad.float()
    write_safetensors(sys.argv[1] if len(sys.argv) > 1 else "tests/golden/mixing.safetensors", out)


if __name__ == "__main__":
    main()
