"""A work directory on gs://, against a Cloud Storage of our own: no network, no account."""

import gzip
import os
import socket
import time
import warnings
from functools import partial
from importlib.util import find_spec

import pytest

from tests.checkpoint.test_checkpoints import make_state, save
from tests.helpers.fake_cloud_storage import FakeCloudStorage
from tests.helpers.fake_translator import FakeTranslator, Killed
from tests.helpers.scored import evaluation
from tests.helpers.scripts import run, write_config
from transformer import storage
from transformer.checkpoint.checkpoints import Checkpoints
from transformer.checkpoint.fingerprint import fingerprints
from transformer.config import Config
from transformer.data.simple_tokenizers import PiecesTokenizer
from transformer.data.tokenizer_files import load_tokenizers, save_tokenizers
from transformer.evaluate import plots
from transformer.inference.file_job import Job
from transformer.inference.run_job import run_job
from transformer.inference.translator import Translator
from transformer.train.progress import Progress
from transformer.workdir import WorkDir

pytestmark = pytest.mark.skipif(not find_spec("gcsfs"), reason="gs:// needs the extra 'gcs'")


@pytest.fixture(scope="module")
def server():
    import fsspec

    with FakeCloudStorage() as fake, pytest.MonkeyPatch.context() as patch:
        for name, value in fake.environment.items():
            patch.setenv(name, value)
        fsspec.config.set_conf_env(fsspec.config.conf)
        yield fake


@pytest.fixture
def cloud(server):
    """The same server with nothing in it, and nothing asked of it."""
    server.objects.clear()
    server.requests.clear()
    return server


def make_run():
    workdir = WorkDir("gs://bucket/a b/rün")
    workdir.open_for_training(Config())
    workdir.save_config(Config())
    return workdir


def test_a_run_is_found_again(cloud):
    """Catches a path that local rules have mangled, as `gs:/bucket`, and a probe left behind."""
    assert not WorkDir("gs://bucket/a b/rün").has_run
    assert str(make_run().path) == "gs://bucket/a b/rün"
    assert cloud.names() == ["a b/rün/config.json"]
    assert WorkDir("gs://bucket/a b/rün").load_config() == Config()


def test_lines_are_added_to_those_of_the_process_before(cloud):
    """Catches a resumed run whose first report overwrites all that was reported before."""
    first = make_run()
    for step in (1, 2, 3):
        first.append_metrics({"step": step})
    first.append_samples(3, [("a", "b", "ü")])
    second = WorkDir(first.path)
    second.forget_metrics_after(2)
    second.append_metrics({"step": 3, "loss": 1.0})
    second.forget_metrics_after(3)
    second.append_metrics({"step": 4})
    second.append_samples(4, [("c", "d", "e")])
    assert second.read_metrics() == [
        *({"step": s} for s in (1, 2)),
        {"step": 3, "loss": 1.0},
        {"step": 4},
    ]
    samples = (second / "samples.txt").read_text(encoding="utf-8")
    assert samples == "step 3\n    a\n    = b\n    > ü\nstep 4\n    c\n    = d\n    > e\n"


def test_a_report_reads_nothing_back(cloud):
    """Catches read-modify-write: the traffic of a run would grow with the square of its reports."""
    workdir = make_run()
    workdir.append_metrics({"step": 1})
    cloud.requests.clear()
    workdir.append_metrics({"step": 2})
    assert [request for request in cloud.requests if request.startswith("GET")] == []


def test_vocabularies_are_found_again(cloud):
    """Catches a folder listed by local rules, and a vocabulary of a start that came to nothing."""
    workdir = make_run()
    tokenizer = PiecesTokenizer.train(["a b c"], "")
    save_tokenizers(workdir.path, tokenizer, tokenizer)
    save_tokenizers(workdir.path, tokenizer, PiecesTokenizer.train(["x y"], ""))
    source, target = load_tokenizers(workdir.path)
    assert (source.vocab_size, target.vocab_size) == (7, 6)
    with pytest.raises(ValueError, match="holds no tokenizer"):
        load_tokenizers(storage.locate("gs://bucket/elsewhere"))


def test_checkpoints_are_kept_and_found(cloud):
    """Catches a listing that gcsfs remembers while tensorstore writes beside it."""
    folder = WorkDir("gs://bucket/run").checkpoints
    checkpoints = save(folder, [(1, 5.0), (2, 9.0), (3, None), (4, 1.0)], keep=2)
    assert checkpoints.steps() == [2, 3, 4]
    assert not [name for name in cloud.names() if name.startswith("run/checkpoints/1/")]
    assert fingerprints(checkpoints.restore(make_state(0))) == fingerprints(make_state(4))
    reader = Checkpoints(folder, keep=2, read_only=True)
    assert reader.load("best").name == "best (2)"
    mean = reader.load("average:2")
    assert (mean.name, mean.params["a"]["w"][0, 0]) == ("mean of 2 (3 to 4)", 3.5)
    assert all(bucket == "bucket" for bucket, _ in cloud.objects)


def test_a_save_that_was_cut_short_is_no_step(cloud):
    """Catches a preemption in the middle of a save, which leaves objects but no commit."""
    folder = WorkDir("gs://bucket/run").checkpoints
    save(folder, [(1, None), (2, None)]).close()
    del cloud.objects["bucket", "run/checkpoints/2/commit_success.txt"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checkpoints = Checkpoints(folder, keep=2)
        assert int(checkpoints.restore(make_state(0)).step) == 1
        checkpoints.save(make_state(2))
        checkpoints.wait()
    assert Checkpoints(folder, keep=1, read_only=True).steps() == [1, 2]


def test_a_flipped_bit_is_noticed(cloud):
    """Catches fingerprints that only local files are compared with."""
    folder = WorkDir("gs://bucket/run").checkpoints
    save(folder, [(1, None), (2, None)]).close()
    names = [n for n in cloud.names() if n.startswith("run/checkpoints/2/params/") and "/d/" in n]
    for name in names:
        content, generation = cloud.objects["bucket", name]
        flipped = bytes([*content[:-1], content[-1] ^ 1])
        cloud.objects["bucket", name] = (flipped, generation)
    with pytest.warns(UserWarning, match="Checkpoint 2 cannot be used"):
        restored = Checkpoints(folder, keep=1, read_only=True).restore(make_state(0))
    assert fingerprints(restored) == fingerprints(make_state(1))


def test_scores_pictures_and_events_lie_beside_the_run(cloud):
    """Catches a picture or an events file in a local folder named `gs:`."""
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    workdir = make_run()
    progress = Progress(workdir, 10, 0)
    progress.log(1, {"loss": 2.0})
    progress.close()
    plots.plot_curves(workdir.read_metrics(), workdir / "curves.png")
    evaluation().save(workdir, "test")
    names = [name.removeprefix("a b/rün/") for name in cloud.names()]
    events, *others = sorted(names, key=lambda name: not name.startswith("events.out.tfevents."))
    kept = ("report.html", "report.json", "segments.jsonl", "translations.txt")
    kept = [f"results/test/{name}" for name in kept]
    assert others == ["config.json", "curves.png", "metrics.jsonl", *kept]
    assert b"loss" in cloud.objects["bucket", f"a b/rün/{events}"][0]
    assert not os.path.exists("gs:")


def test_a_failure_to_write_events_does_not_stop_the_training(cloud, monkeypatch):
    """Catches the thread of tensorboardX that dies, and then a queue that nobody empties."""
    workdir = make_run()
    monkeypatch.setattr(storage.GrowingObject, "flush", lambda self: 1 / 0)
    progress = Progress(workdir, 10, 0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(100):
            progress._events.add_scalar("loss", 1.0, number)
        progress.close()
    assert "events for TensorBoard were not written" in str(caught[0].message)


def test_a_corpus_is_translated_there_and_gone_on_with(cloud):
    """Catches parts in a local folder named `gs:`, and a failure that uploads half a file."""
    lines = [f"line {n}" for n in range(9)]
    storage.locate("gs://bucket/c").joinpath("in").write_text("\n".join(lines))
    job = Job("gs://bucket/c/in", "gs://bucket/c/out.gz", chunk_lines=2)
    do = partial(run_job, job=job, say=str, command="")
    with pytest.raises(Killed):
        do(FakeTranslator(dies_at="line 5"))
    assert len([name for name in cloud.names() if "out.gz.parts/0000" in name]) == 2
    again = FakeTranslator()
    assert do(again) == 0
    assert again.sentences == lines[4:]
    assert cloud.names() == ["c/in", "c/out.gz"]
    content = gzip.decompress(cloud.objects["bucket", "c/out.gz"][0]).decode()
    assert content == "".join(f"{line[::-1]}\n" for line in lines)
    path = storage.locate("gs://bucket/c/big")
    with pytest.raises(Killed), storage.open_atomically(path) as file:
        file.write(b"x" * 2**20)
        raise Killed
    assert "c/big" not in cloud.names() and not os.path.exists("gs:")


# ---- what a user can mend


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("gs://nowhere/run", "there is no bucket nowhere"),
        ("gs://forbidden/run", "run@project.iam.gserviceaccount.com does not have storage.buckets"),
        ("gs://bucket", "gs://BUCKET/NAME"),
        ("gs://", "gs://BUCKET/NAME"),
        ("s3://bucket/run", "gs://BUCKET/NAME"),
    ],
)
def test_a_place_that_cannot_be_read_is_named(cloud, path, said):
    """Catches a traceback of gcsfs, and a local folder with the name of a bucket."""
    with pytest.raises(ValueError, match=said) as caught:
        WorkDir(path)
    assert path in str(caught.value) and "\n" not in str(caught.value)
    assert "roles/storage" in str(caught.value) or "forbidden" not in path


def test_a_place_that_can_only_be_read_is_refused_to_a_trainer(cloud):
    """Catches a run that learns of its missing permission at the first checkpoint."""
    workdir = WorkDir("gs://read-only/run")
    with pytest.raises(ValueError, match=r"storage\.objects\.create.*roles/storage\.objectAdmin"):
        workdir.open_for_training(Config())


def test_without_an_account_that_is_said(monkeypatch, tmp_path):
    """Catches gcsfs, which goes on as nobody and fails later with a word of its own."""
    leave_google(monkeypatch, tmp_path, "127.0.0.1:1")
    with pytest.raises(ValueError, match=r"needs a Google account.*gcloud auth"):
        WorkDir("gs://bucket/no-account")


def test_who_does_not_answer_is_not_waited_for(monkeypatch):
    """Catches the two minutes for which Google's client tries again."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://{}:{}".format(*silent.getsockname()))
        monkeypatch.setattr(storage, "ANSWER_TIMEOUT", 0.5)
        start = time.monotonic()
        with pytest.raises(ValueError, match=r"cannot be reached \(no answer within 0.5 s\)"):
            WorkDir("gs://bucket/silence")
        assert time.monotonic() - start < 5


def leave_google(monkeypatch, folder, metadata_server):
    """The environment of somebody without an account on a machine that is not Google's."""
    for name in ("STORAGE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("GCE_METADATA_IP", "GCE_METADATA_HOST"):
        monkeypatch.setenv(name, metadata_server)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(folder))


# ---- the scripts


def test_trains_resumes_and_evaluates(cloud, tmp_path):
    """Catches any way into the work directory that is still a local one."""
    config = write_config(tmp_path)
    arguments = [f"--config={config}", "--workdir=gs://bucket/run", "--config.training.log_every=5"]
    short = [*arguments, "--config.training.num_train_steps=15"]
    code, _, err = run("train.py", *short, env=cloud.environment)
    assert code == 0, err
    code, _, err = run(
        "train.py", *arguments, "--config.training.num_train_steps=25", env=cloud.environment
    )
    assert code == 0, err
    assert "resuming at step 15" in err
    assert "gs://bucket/run/results/test/report.json" in err
    for (_, name), content in list(cloud.objects.items()):
        cloud.objects["read-only", name] = content
    code, out, err = run("eval.py", "--workdir=gs://read-only/run", env=cloud.environment)
    assert code == 0, err
    assert b"BLEU" in out and "warning: the scores were not saved: Forbidden" in err
    steps = [r["step"] for r in WorkDir("gs://bucket/run").read_metrics() if "loss" in r]
    assert steps == [1, 5, 10, 15, 20, 25]
    assert Translator.from_checkpoint("gs://bucket/run", "last").checkpoint == "last (25)"


@pytest.mark.parametrize("script", ["train.py", "eval.py"])
def test_a_script_says_it_in_a_line(script, monkeypatch, tmp_path):
    """Catches a traceback, log lines of Google's libraries, and a compile before the answer."""
    leave_google(monkeypatch, tmp_path, "127.0.0.1:1")
    start = time.monotonic()
    code, _, err = run(script, "--workdir=gs://bucket/run")
    assert (code, err.count("\n")) == (2, 1), err
    assert err.startswith("error: gs://bucket/run needs a Google account with roles/storage.")
    assert time.monotonic() - start < 30
