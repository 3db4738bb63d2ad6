"""The evaluate command for a run of translation.

Scores it, compares it with other runs, translates, or draws its attention.
"""

from functools import partial

from transformer.cli.compare_runs import compare_runs
from transformer.cli.draw_attention import draw_attention
from transformer.cli.evaluate_flags import EvaluateFlags
from transformer.cli.hosts import connect_hosts
from transformer.cli.score_translation import open_translator, score_checkpoints
from transformer.cli.write_output import say_cut, write_output
from transformer.config import Config
from transformer.console import quantity, say
from transformer.exit_codes import DONE
from transformer.inference.file_job import check_files
from transformer.inference.translate_file import translate_file
from transformer.model import costs
from transformer.parallel import devices
from transformer.search.options import SearchOptions


def evaluate_translation(flags: EvaluateFlags, config: Config) -> int:
    """Does what the checked flags ask for; returns the exit code. config: the run's."""
    if flags.input and not (flags.is_scoring or flags.attention):
        companion = flags.score or flags.prefixes
        check_files(flags.output, flags.input, *([companion] if companion else []))
    SearchOptions.from_config(config.decoding, **flags.search_options)  # refuses wrong values
    if costs.fits_a_core(config.model):
        devices.use_cores_as_devices()
    connect_hosts(flags)
    devices.check_accelerator(say)
    if flags.compare:
        compare_runs(flags, config)
    elif flags.attention:
        draw_attention(flags, config)
    elif flags.is_scoring:
        score_checkpoints(flags, config)
    else:
        write_translations(flags)
    return DONE


def write_translations(flags: EvaluateFlags) -> None:
    """Translates --input."""
    translator = open_translator(flags)
    names = ("nbest", "scores", "jsonl", "alignments", "score", "prefixes", "chunk_lines")
    options = {name: getattr(flags, name) for name in names} | flags.search_options
    job = partial(translate_file, translator, flags.input, flags.output, **options)
    write_output(job, flags.input, flags.output, "a sentence")
    if flags.output:
        most = translator.max_num_programs(**flags.search_options)
        programs = quantity(translator.num_programs(), "program")
        say(f"compiled {programs} of at most {most} for this search")
    longest = translator.largest_bucket()
    say_cut(translator.num_truncated, "sentence", f"longer than {longest} tokens, cut there")
