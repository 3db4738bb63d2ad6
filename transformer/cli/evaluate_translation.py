"""The evaluate command for a run of translation.

Scores it, compares it with other runs, translates, or draws its attention.
"""

from transformer.cli import compile_cache
from transformer.cli.compare_runs import compare_runs
from transformer.cli.draw_attention import draw_attention
from transformer.cli.evaluate_flags import EvaluateFlags
from transformer.cli.hosts import connect_hosts
from transformer.cli.process import exit_process
from transformer.cli.score_translation import open_translator, score_checkpoints
from transformer.config import Config
from transformer.console import ask_for_lines, say
from transformer.inference.file_job import Job
from transformer.inference.run_job import run_job
from transformer.model import costs
from transformer.parallel import devices, hosts
from transformer.search.options import SearchOptions
from transformer.signals import DONE
from transformer.training.next_commands import this_command


def evaluate_translation(flags: EvaluateFlags, config: Config) -> int:
    """Does what the checked flags ask for; returns the exit code. config: the run's."""
    if flags.input and not (flags.is_scoring or flags.attention):
        make_job(flags).check()
    SearchOptions.from_config(config.decoding, **flags.search_options)  # refuses wrong values
    compile_cache.turn_on(say)
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


def make_job(flags: EvaluateFlags) -> Job:
    """Returns the `Job` that the flags describe."""
    return Job(
        input=flags.input,
        output=flags.output,
        nbest=flags.nbest,
        scores=flags.scores,
        jsonl=flags.jsonl,
        alignments=flags.alignments,
        score=flags.score,
        prefixes=flags.prefixes,
        chunk_lines=flags.chunk_lines,
        options=flags.search_options,
    )


def write_translations(flags: EvaluateFlags) -> None:
    """Translates --input."""
    translator = open_translator(flags)
    if flags.input == "-":
        ask_for_lines("a sentence")
    code = run_job(translator, make_job(flags), say=say, command=this_command())
    if code != DONE:
        exit_process(code)
    if flags.output:
        most = translator.max_num_programs(**flags.search_options)
        say(f"compiled {translator.num_programs()} programs of at most {most} for this search")
    num_cut = sum(map(int, hosts.gather_from_hosts(str(translator.num_truncated).encode())))
    if num_cut:
        say(
            f"warning: {num_cut:,} sentences were longer than {translator.largest_bucket()} tokens "
            f"and were cut there"
        )
