"""Makes a run of a model of another system: a work directory like those that training writes."""

from pathlib import Path

import jax
from etils.epath import PathLike
from flax.traverse_util import unflatten_dict

from transformer.checkpoint.export import save_run
from transformer.checkpoint.restore import Run, count_parameters, restore
from transformer.console import phase
from transformer.files.storage import locate
from transformer.interop.check import check_transformers
from transformer.interop.export_model import new_folder
from transformer.interop.huggingface import bert, gpt2, vit
from transformer.interop.huggingface.seq2seq import FAMILIES, read_seq2seq
from transformer.interop.marian import read_marian
from transformer.interop.portable_model import PortableModel
from transformer.interop.settings import naming, read_settings
from transformer.parallel.devices import host_device
from transformer.registry import task_kind

ONE_STACK = {"bert": bert.read, "gpt2": gpt2.read, "vit": vit.read}  # by model_type
CLASSES = {
    "translation": "Translator",
    "classification": "Classifier",
    "images": "Classifier",
    "language_model": "LanguageModel",
}


def import_model(
    folder: PathLike,
    workdir: PathLike,
    *,
    source_language: str = "",
    target_language: str = "",
    check: bool = True,
) -> list[str]:
    """Makes the work directory `workdir` of a model of another system.

    >>> transformer.import_model("opus-mt-en-de", "runs/opus")
    >>> transformer.Translator.from_checkpoint("runs/opus").translate(["It is closed."])

    Args:
      folder: of Hugging Face, with a model of type marian (OPUS-MT), m2m_100 (M2M100, NLLB), mbart
        (mBART-50), bert, gpt2 or vit; or of Marian, with decoder.yml.
      workdir: a new folder, local or gs://, for `Translator` and its like, eval.py, and to start
        training from (training.init_from). A local one appears when everything is written.
      source_language, target_language: as a model of many languages names them: "en" of M2M100,
        "eng_Latn" of NLLB, "en_XX" of mBART-50.
      check: whether the run is compared with the library transformers on a few texts, where that
        and torch are installed.

    Returns sentences that say what was done. Raises ValueError for a folder that is damaged or
    incomplete, or whose model cannot be computed here, and if `workdir` is not empty.
    """
    target = locate(workdir)
    with new_folder(target) as place:
        with phase(f"reading {folder}"):
            imported = read_folder(folder, source_language, target_language)
        said, config = imported.notes, imported.config
        size = write_run(imported, place)
        del imported  # the check loads both sides
        if check and not (Path(folder) / "config.json").is_file():
            said.append("not checked: that would need Marian itself")
        elif check:
            with phase("comparing with transformers"):
                said.append(check_transformers(restore(place, dtype="float32"), folder))
    kind, data = task_kind(config.task), config.data
    what = kind.replace("_", " ")
    if kind == "translation":
        what += f" from {data.source_language} to {data.target_language}"
        said.append(f"translate: python eval.py --workdir={target} --input=FILE --output=FILE")
    if kind in CLASSES:
        said.append(f'in Python: transformer.{CLASSES[kind]}.from_checkpoint("{target}")')
    task = " --config.task=classification" if kind == "masked_lm" else ""
    fine_tune = f"python train.py --config=configs/fine_tune.py:{target} --workdir=NEW{task}"
    said.append(f"fine-tune: {fine_tune} --config.data.corpus=CORPUS")
    return [f"{target}: {what}, {size}, of {folder}", *said]


def read_folder(
    folder: PathLike, source_language: str = "", target_language: str = ""
) -> PortableModel:
    """Reads a folder of any system that is known; see `import_model` for arguments and errors."""
    folder, languages = Path(folder), (source_language, target_language)
    with naming(folder):
        if not folder.is_dir():
            raise ValueError("This is no local folder: name one that holds a model.")
        if not (folder / "config.json").is_file():
            if (folder / "decoder.yml").is_file():
                return read_marian(folder, *languages)
            raise ValueError("It has neither config.json, as Hugging Face has, nor decoder.yml.")
        settings = read_settings(folder)
        kind = str(settings.get("model_type"))
        if kind in FAMILIES:
            return read_seq2seq(folder, *languages)
        if kind in ONE_STACK and not any(languages):
            return ONE_STACK[kind](folder)
        if kind in ONE_STACK:
            raise ValueError(f"It holds a model of type {kind}, which has no languages.")
        if "model_type" not in settings and "task" in settings:
            raise ValueError("This is a work directory of this package: it needs no import.")
        known = ", ".join([*FAMILIES, *ONE_STACK])
        raise ValueError(f"A model of type {kind} is not known; known are {known}.")


def write_run(imported: PortableModel, workdir: PathLike) -> str:
    """Writes a work directory, config.json last; returns the number of parameters as text.

    `imported.params` is empty afterwards.
    """
    flat = imported.params
    # As Orbax copies arrays of numpy; one after the other, so that no model is in memory twice.
    device = host_device()
    on_device = {name: jax.device_put(flat.pop(name), device) for name in list(flat)}
    params = unflatten_dict(on_device, sep="/")
    run = Run.in_memory(imported.config, imported.tokenizers, imported.labels, params)
    with phase("writing the run"):
        save_run(run, workdir)
    return count_parameters(params)
