"""Makes tests/golden: small models of other systems, with what those compute of them.

    python tools/make_golden_folders.py [NAME …]

Run once, with torch and transformers installed, for marian_* instead with pymarian, which is Marian
itself, and sentencepiece; the tests read the folders without any of them. Each
function writes one folder, below 100 kB; versions.json there says what made it.
"""

import importlib.metadata
import json
import sys
from pathlib import Path

from golden_folders import marian, stacks, translation

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"


def save_versions(folder, *packages):
    """Writes versions.json: {package: version}."""
    versions = {package: importlib.metadata.version(package) for package in packages}
    (folder / "versions.json").write_text(json.dumps(versions) + "\n")


def pytorch(folder):
    """pytorch_model.bin with every way that a tensor can lie in it; expected.safetensors beside."""
    import torch
    from safetensors.torch import save_file

    table = torch.arange(24.0).reshape(4, 6) / 7
    tensors = {
        "table": table,
        "view": table[1:, 2:5],
        "transposed": table.T,
        "half": torch.tensor([0.5, -1.25]).half(),
        "bfloat16": torch.tensor([[3.0, -2.0]]).bfloat16(),
        "integers": torch.arange(3),
        "mask": torch.tensor([True, False]),
        "scalar": torch.tensor(2.5),
        "empty": torch.ones(0, 3),
        "parameter": torch.nn.Parameter(torch.ones(2)),
    }
    torch.save(tensors, folder / "pytorch_model.bin")
    contiguous = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    contiguous = {name: tensor.contiguous() for name, tensor in contiguous.items()}
    save_file(contiguous, folder / "expected.safetensors")
    save_versions(folder, "torch", "safetensors")


def native_marian(folder):
    """A package as Marian writes it; expected.json holds what Marian makes of some text."""
    marian.write_package(folder)
    save_versions(folder, "pymarian", "sentencepiece")


def stack(folder):
    """A BERT, GPT-2 or ViT as transformers writes it."""
    stacks.MODELS[folder.name](folder)
    save_versions(folder, "torch", "transformers")


def translation_model(folder):
    """A Marian, M2M100, NLLB or mBART-50 as transformers writes it."""
    translation.write_folder(folder)
    save_versions(folder, "torch", "transformers", "sentencepiece")


FOLDERS = {
    "pytorch": pytorch,
    **dict.fromkeys(marian.MODELS, native_marian),
    **dict.fromkeys(stacks.MODELS, stack),
    **dict.fromkeys(translation.MODELS, translation_model),
}

if __name__ == "__main__":
    for name in sys.argv[1:] or FOLDERS:
        folder = GOLDEN / name
        folder.mkdir(parents=True, exist_ok=True)
        FOLDERS[name](folder)
        print(folder, sum(file.stat().st_size for file in folder.iterdir()), "bytes")
