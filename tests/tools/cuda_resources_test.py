"""tools/cuda_resources.py on logs as ptxas writes them."""
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "cuda_resources.py"
spec = importlib.util.spec_from_file_location("cuda_resources", TOOL)
cuda_resources = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cuda_resources)

# sum_columns<ColumnDots> of tensor/cuda/columns.h, and forward<2> of attention.cu
COLUMNS = "_ZN2hg4cuda11sum_columnsINS0_10ColumnDotsEEEvT_ll"
FORWARD = "_ZN2hg3ops45_GLOBAL__N__54a0d1fc_12_attention_cu_8a1f44747forwardILi2EEEvNS1_7OperandE"


def log(kernel, arch, registers, spilled=0, shared=0):
    smem = f"used 1 barriers, {shared} bytes smem, " if shared else ""
    return (f"[1/9] Building CUDA object tensor/CMakeFiles/x.dir/ops/broadcast.cu.o\n"
            f"ptxas info    : Compiling entry function '{kernel}' for '{arch}'\n"
            f"ptxas info    : Function properties for {kernel}\n"
            f"    0 bytes stack frame, {spilled} bytes spill stores, {spilled} bytes spill loads\n"
            f"ptxas info    : Used {registers} registers, {smem}400 bytes cmem[0]\n")


def run(text, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "build.log"
        path.write_text(text)
        done = subprocess.run([sys.executable, TOOL, path, *arguments], text=True,
                              capture_output=True)
    return done.returncode, done.stdout.splitlines(), done.stderr


class CudaResources(unittest.TestCase):
    def test_occupancy(self):
        of = lambda arch, *needs: cuda_resources.occupancy(cuda_resources.LIMITS[arch], *needs)
        self.assertEqual(of("sm_75", 128, 64, 0), 1)
        self.assertEqual(of("sm_75", 256, 65, 0), 24 / 32)  # 28 warps' registers: 3 blocks
        self.assertEqual(of("sm_75", 32, 16, 0), 16 / 32)  # 16 blocks are the most
        self.assertEqual(of("sm_75", 128, 32, 20 << 10), 12 / 32)  # 3 blocks' shared memory
        self.assertEqual(of("sm_80", 128, 56, 0), 36 / 64)
        self.assertEqual(of("sm_80", 128, 32, 48 << 10), 12 / 64)
        self.assertEqual(of("sm_75", 1024, 128, 0), 0)  # cannot start

    def test_constants(self):
        constants = cuda_resources.constants_of("constexpr int kWarps = 4, kThreads = kWarps * 32;\n"
                                                "inline constexpr int kSame = other::kSame;\n"
                                                "  constexpr int kLocal = 1;\n")
        value_of = lambda name: cuda_resources.value_of(name, constants)
        self.assertEqual(value_of("hg::kThreads / 2"), 64)
        self.assertIsNone(value_of("kSame"))
        self.assertIsNone(value_of("kLocal"))

    def test_threads(self):
        source = cuda_resources.Source("kThreads", {}, ["V", "kThreads"], False)
        self.assertEqual(cuda_resources.threads_of(source, "f<float4, 64>"), 64)
        self.assertIsNone(cuda_resources.threads_of(source._replace(parameters=[]), "f<64>"))

    def test_table(self):
        code, lines, errors = run(log(COLUMNS, "sm_75", 60, shared=1024) + log(FORWARD, "sm_80", 56))
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual([line.split() for line in lines[1:]],
                         [["attention:", "forward<2>", "sm_80", "128", "56", "0+", "0", "56%"],
                          ["broadcast:", "sum_columns<ColumnDots>", "sm_75", "256", "60", "1024",
                           "0", "100%"]])

    def test_dynamic_shared_memory(self):
        _, lines, _ = run(log(FORWARD, "sm_75", 56), "attention: forward<2>=20800")
        self.assertEqual(lines[1].split()[-3:], ["20800", "0", "38%"])

    def test_spills(self):
        code, lines, errors = run(log(COLUMNS, "sm_75", 255, spilled=8) + log(FORWARD, "sm_75", 56))
        self.assertEqual((code, len(lines)), (1, 3))
        self.assertIn("broadcast: sum_columns<ColumnDots> spills 8 bytes on sm_75", errors)

    def test_compiled_again(self):
        code, lines, _ = run(log(FORWARD, "sm_75", 255, spilled=8) + log(FORWARD, "sm_75", 56))
        self.assertEqual((code, len(lines)), (0, 2))

    def test_nothing_compiled(self):
        self.assertEqual(run("ninja: no work to do.\n")[0], 0)


if __name__ == "__main__":
    unittest.main()
