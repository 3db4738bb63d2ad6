"""Times translation against CTranslate2 and Hugging Face's Marian with the same weights.

python benchmarks/translate.py --torch_python=PYTHON
python benchmarks/translate.py --torch_python=PYTHON --workdir=RUN --input=FILE --reference=FILE

PYTHON is one that has ctranslate2, torch, transformers and sentencepiece (default: this one). A
contestant that is not there is left out with a line that says so.

Without a run: a model with random weights, sentences of equal length, as many pieces out for all,
so that it is speed alone that is compared. With a run: text to text, the tokenizer's time included,
with BLEU if there is a reference (two lines of it equal: the same text comes out).

Each contestant lives in a process of its own and waits while another is at work; in every round
another one is first. One pass over all sentences is the warm-up and is not measured, nor is what
the others try to find their best batches. Seconds are medians over the rounds; a ratio is the
median of the rounds' ratios, and more than 1 means faster. "same" is the share of sentences that
come out as ours: with random weights all W live hypotheses of the last place but one.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import shutil
import sys
import tempfile

import sacrebleu
from referee import BUSY, describe_machine, measure, start_workers
from search_models import NUM_PIECES, SHAPES, SOURCE_LENGTH, make_corpus, make_random, read_lines
from search_table import format_searches

CONTESTANTS = "ours", "ctranslate2", "marian"
SHAPES_OF = {"cpu": ["base"], "gpu": list(SHAPES)}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--device", choices=list(SHAPES_OF), default="cpu")
    parser.add_argument("--shape", help="one of the device's shapes (default: all of them)")
    parser.add_argument("--sentences", type=int, help="of random weights, all in one batch")
    parser.add_argument("--workdir", help="a trained run, to translate --input with")
    parser.add_argument("--input", help="a text file, or .gz")
    parser.add_argument("--reference", help="its translation, for BLEU")
    parser.add_argument("--batch_size", type=int, default=0, help="of ours with a run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2, help="of a CPU")
    parser.add_argument("--torch_python", default=sys.executable, help="a Python with the others")
    parser.add_argument("--contestants", default=",".join(CONTESTANTS))
    parser.add_argument("--json", help="a file for the results of every round")
    arguments = parser.parse_args()
    if arguments.shape not in (None, *SHAPES_OF[arguments.device]):
        parser.error(f"--shape must be one of {', '.join(SHAPES_OF[arguments.device])}")
    if arguments.device == "gpu" and not shutil.which("nvidia-smi"):
        parser.error("--device=gpu needs an NVIDIA GPU, and there is no nvidia-smi to name it")
    if bool(arguments.workdir) != bool(arguments.input):
        parser.error("--workdir and --input go together")
    if not set(arguments.contestants.split(",")) <= set(CONTESTANTS):
        parser.error(f"--contestants must be of {', '.join(CONTESTANTS)}")
    return arguments


def name_contestants(arguments):
    """{name: (python, module, options)}"""
    pythons = {name: arguments.torch_python for name in CONTESTANTS} | {"ours": sys.executable}
    names = arguments.contestants.split(",")
    return {name: (pythons[name], f"search_{name}", {}) for name in names}


def make_workloads(arguments, folder):
    """Yields (workload, searches {name: options}, things that are counted, their unit)."""
    options = {"num_threads": arguments.threads, "device": arguments.device}
    if arguments.workdir:
        options["batch_size"] = arguments.batch_size
        workload, searches = make_corpus(arguments.workdir, arguments.input, folder, **options)
        yield workload, searches, len(workload.sentences()), "sentences"
        return
    for shape in [arguments.shape] if arguments.shape else SHAPES_OF[arguments.device]:
        options["num_sentences"] = arguments.sentences
        workload, searches = make_random(shape, folder, **options)
        yield workload, searches, len(workload.sentences()) * NUM_PIECES, "pieces"


def compare(workers, search, references):
    """{name: {column: text}}: what the contestants found, beside ours and the references."""
    found = {name: find(worker, name, search) for name, worker in workers.items()}
    shown = {name: {} for name in found}
    for name, translations in found.items():
        if "ours" in found:
            pairs = zip(found["ours"], translations, strict=True)
            shown[name]["same"] = f"{sum(a == b for a, b in pairs) / len(translations):.1%}"
        if references:
            best = [hypotheses[0] for hypotheses in translations]
            shown[name]["BLEU"] = f"{sacrebleu.corpus_bleu(best, [references]).score:.2f}"
    return shown


def find(worker, name, search):
    """The translations of each sentence, to be compared with the others'.

    Where all have `num_pieces`, the last piece of ours is the end of sentence and that of the
    others is not: what is compared is all live hypotheses, in any order, one piece before.
    """
    if "num_pieces" in search:
        num_pieces = search["num_pieces"] - (name != "ours")
        search = search | {"num_pieces": num_pieces, "nbest": search["beam_size"]}
    return list(map(sorted, worker.ask(times=1, options=search, show=True)["result"]))


def run(workload, searches, arguments, count, unit):
    """Measures every search and prints its table; returns {search: {contestant: results}}."""
    warm_ups = [{"times": 1, "options": search} for search in searches.values()]
    workers, ready = start_workers(workload, name_contestants(arguments), warm_ups)
    references = read_lines(arguments.reference) if arguments.reference else None
    versions = {k: v for reply in ready.values() for k, v in reply["versions"].items()}
    print(", ".join(map(" ".join, versions.items())))
    report = {}
    for i, (name, search) in enumerate(searches.items()):
        results = measure(workers, arguments.rounds, {"times": 1, "options": search})
        for contestant, shown in compare(workers, search, references).items():
            results[contestant] |= {"show": shown, "first": ready[contestant]["warm_ups"][i]}
        print(f"\n{name}\n{format_searches(results, count, unit)}", flush=True)
        for contestant, result in results.items():
            if result["note"]:
                print(f"{contestant}: {result['note']}")
        report[name] = results
    for worker in workers.values():
        worker.close()
    return report


def describe(workload):
    """The task on one line."""
    cores = f", {workload.num_threads} threads" if workload.device == "cpu" else ""
    sizes = f", {SOURCE_LENGTH} + {NUM_PIECES} pieces each" * (not workload.workdir)
    count = len(workload.sentences())
    return f"{workload.name}: {count:,} sentences{sizes}; {workload.dtype}{cores}"


def main():
    arguments = parse_arguments()
    report = {
        "machine": describe_machine(arguments.device),
        "load": os.getloadavg()[0],
        "date": datetime.date.today().isoformat(),
        "arguments": vars(arguments),
        "workloads": [],
    }
    print(f"{report['date']}, {report['machine']}, load {report['load']:.1f} at the start")
    if report["load"] > 1 and arguments.device == "cpu":
        print(BUSY)
    with tempfile.TemporaryDirectory() as folder:
        for workload, *task in make_workloads(arguments, folder):
            print(f"\n{describe(workload)}")
            results = run(workload, task[0], arguments, *task[1:])
            report["workloads"].append(dataclasses.asdict(workload) | {"results": results})
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
