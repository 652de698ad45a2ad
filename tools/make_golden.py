#!/usr/bin/env python3
"""Makes tests/golden/vit.safetensors with PyTorch: a tiny ViT's weights, logits, loss, gradients and
the losses of ten AdamW steps, to which tests/train/step/golden_test.cpp holds the engine.

usage: tools/make_golden.py [FILE]     (needs PyTorch; the tests do not)
"""
import json
import struct
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

CHANNELS, IMAGE, PATCH, WIDTH, DEPTH, HEADS, DIM_HEAD, CLASSES, BATCH = 2, 12, 4, 16, 2, 3, 5, 4, 6
LEARNING_RATE, WEIGHT_DECAY, STEPS, SMOOTHING = 1e-2, 0.05, 10, 0.1


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * HEADS * DIM_HEAD)
        self.proj = nn.Linear(HEADS * DIM_HEAD, WIDTH)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, HEADS, DIM_HEAD).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-2, -1) / DIM_HEAD ** 0.5, -1)
        return self.proj((weights @ v).transpose(1, 2).reshape(b, n, -1))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6), nn.LayerNorm(WIDTH, eps=1e-6)
        self.attn, self.mlp = Attention(), Mlp()

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PatchEmbed(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Conv2d(CHANNELS, WIDTH, PATCH, PATCH)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch_embed = PatchEmbed()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.pos_embed = nn.Parameter(torch.zeros(1, (IMAGE // PATCH) ** 2 + 1, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        x = self.patch_embed(x)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def decays(name, parameter):
    return parameter.dim() > 1 and name not in ("cls_token", "pos_embed")


def optimizer_of(model):
    named = list(model.named_parameters())
    return torch.optim.AdamW([
        {"params": [p for n, p in named if decays(n, p)], "weight_decay": WEIGHT_DECAY},
        {"params": [p for n, p in named if not decays(n, p)], "weight_decay": 0.0},
    ], lr=LEARNING_RATE)


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        kind = {torch.float32: "F32", torch.int64: "I64"}[tensor.dtype]
        raw = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": kind, "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = Vit()
    with torch.no_grad():
        for name, p in model.named_parameters():
            scale = 0.2 if p.dim() > 1 else 0.1
            p.copy_(torch.randn_like(p) * scale + (1.0 if "norm" in name and "weight" in name else 0.0))
    labels = torch.randint(0, CLASSES, (BATCH,))
    images = torch.randn(BATCH, CHANNELS, IMAGE, IMAGE)
    logits = model(images)
    loss = F.cross_entropy(logits, labels, label_smoothing=SMOOTHING)
    loss.backward()
    out = {"labels": labels, "images": images, "logits": logits, "loss": loss.reshape(1)}
    for name, p in model.named_parameters():
        out["model." + name] = p.detach().clone()
        out["grad." + name] = p.grad.clone()
    optimizer, losses = optimizer_of(model), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels, label_smoothing=SMOOTHING)
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    out["losses"] = torch.tensor(losses)
    write_safetensors(sys.argv[1] if len(sys.argv) > 1 else "tests/golden/vit.safetensors", out)


if __name__ == "__main__":
    main()
