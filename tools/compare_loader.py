#!/usr/bin/env python3
"""Compares the loader with PyTorch's DataLoader on the same JPEG files: images per second by workers.

usage: tools/compare_loader.py [--folder DIR] [--workers 1,2] [--rounds 5] [--json]

Without a folder (one of images in one folder a class), 1,000 drawn images of 224 x 224 are made,
with the detail of photographs. Needs numpy, torch, torchvision and pillow, which are installed apart
from the project's set-up, and a build of the project (tools/test.sh). Both sides read and decode
each file, crop it at random with a border of 28 pixels, mirror half of them, and hand over batches of
64 as bytes. Rounds of both sides alternate; the table shows each side's best.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

SIZE, BATCH, DRAWN = 224, 64, 1000


def draw_folder(root):
    """Octaves of smooth noise, each half as strong as the one before, and some grain."""
    import numpy as np
    from PIL import Image
    random = np.random.default_rng(1)

    def drawn():
        image = random.normal(scale=0.2, size=(SIZE, SIZE, 3))
        for octave in range(2, 8):
            side = 2 ** octave
            noise = random.normal(size=(side, side, 3)).astype(np.float32)
            image += np.stack([np.asarray(Image.fromarray(noise[..., c]).resize(
                (SIZE, SIZE), Image.BICUBIC)) for c in range(3)], -1) * 4 / side
        return Image.fromarray(np.clip(image / image.std() * 50 + 120, 0, 255).astype(np.uint8))

    for split, count in (("train", DRAWN), ("test", 2)):
        for i in range(count):
            folder = os.path.join(root, split, str(i % 2))
            os.makedirs(folder, exist_ok=True)
            drawn().save(os.path.join(folder, f"{i}.jpg"), quality=90)


class Ours:
    def __init__(self, bench, folder):
        self.process = subprocess.Popen([bench, folder, str(SIZE)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def images_per_s(self, workers):
        print(workers, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit("compare_loader: loader_bench ended early")
        return float(answer)


class Theirs:
    def __init__(self, folder, workers):
        import torch
        from torchvision import datasets, transforms
        how = transforms.Compose([transforms.Resize((SIZE, SIZE)),
                                  transforms.RandomCrop(SIZE, padding=SIZE // 8),
                                  transforms.RandomHorizontalFlip(), transforms.PILToTensor()])
        images = datasets.ImageFolder(os.path.join(folder, "train"), how)
        self.loader = torch.utils.data.DataLoader(images, BATCH, shuffle=True, num_workers=workers,
                                                  persistent_workers=True)
        self.epoch()  # starts the workers

    def epoch(self):
        return sum(len(labels) for _, labels in self.loader)

    def images_per_s(self):
        start = time.perf_counter()
        return self.epoch() / (time.perf_counter() - start)


def compare(folder, bench, workers, rounds):
    ours = Ours(bench, folder)
    best = {n: [0.0, 0.0] for n in workers}
    for n in workers:
        theirs = Theirs(folder, n)
        for _ in range(rounds):
            best[n][0] = max(best[n][0], ours.images_per_s(n))
            best[n][1] = max(best[n][1], theirs.images_per_s())
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bench", default="build/cpu/tools/loader_bench")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as drawn:
        if not options.folder:
            draw_folder(drawn)
        best = compare(options.folder or drawn, options.bench,
                       [int(n) for n in options.workers.split(",")], options.rounds)
    if options.json:
        print(json.dumps([{"workers": n, "images_per_s": ours, "pytorch_images_per_s": theirs}
                          for n, (ours, theirs) in best.items()]))
        return
    print("| workers | images/s | PyTorch | ratio |\n| --- | --- | --- | --- |")
    for n, (ours, theirs) in best.items():
        print(f"| {n} | {ours:.0f} | {theirs:.0f} | {ours / theirs:.2f} |")


if __name__ == "__main__":
    main()
