"""A work directory on gs://, with a fake Cloud Storage in this process: no network, no account."""

import gzip
import json
import os
import sys
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from itertools import count
from threading import RLock, Thread
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

import transformer
from tests.checkpoint.test_checkpoints import make_state, save
from tests.data.test_pair_files import write_jsonl, write_parquet, write_sides, write_tsv
from tests.helpers.fake_translator import FakeTranslator, Killed
from tests.helpers.random_runs import make_config
from tests.helpers.scripts import write_corpus
from transformer.checkpoint.checkpoints import Checkpoints
from transformer.checkpoint.fingerprint import fingerprints
from transformer.cli.commands import evaluate, train
from transformer.config import Config, DataConfig
from transformer.data.corpora.corpus_facts import find_languages, missing_splits
from transformer.data.corpora.training_text import TrainingText, load_evaluation_pairs
from transformer.files import storage
from transformer.inference.file_job import translate_file
from transformer.inference.translator import Translator
from transformer.training.trainer import Trainer
from transformer.workdir import WorkDir

pytestmark = pytest.mark.skipif(not find_spec("gcsfs"), reason="gs:// needs the extra 'gcs'")


DENIED = "run@project.iam.gserviceaccount.com does not have {} access to the bucket"


class Refusal(Exception):
    """An error response: (HTTP status, message)."""


class FakeCloudStorage(ThreadingHTTPServer):
    """A server with the part of Cloud Storage's JSON interface that is needed here.

    It has the buckets `bucket`, `read-only` (which refuses writing) and `forbidden` (which refuses
    everything). objects: {(bucket, name): (content, generation)}.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects = {}
        self.uploads = {}  # {id: (name, content so far)}
        self.lock, self.generations = RLock(), count(1)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        """Ignores a client that went away: gcsfs asks twice and drops the later answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def names(self, bucket="bucket"):
        return sorted(name for owner, name in self.objects if owner == bucket)

    def put(self, bucket, name, content, query):
        """Writes an object, unless the query demands another generation than it has."""
        with self.lock:
            present = self.objects.get((bucket, name), (b"", 0))[1]
            if int(query.get("ifGenerationMatch", present)) != present:
                raise Refusal(412, "conditionNotMet")
            self.objects[bucket, name] = (content, next(self.generations))
            return self.about(bucket, name)

    def about(self, bucket, name):
        """Returns the metadata of an object; raises Refusal if there is none."""
        if (bucket, name) not in self.objects:
            raise Refusal(404, f"No such object: {bucket}/{name}")
        content, generation = self.objects[bucket, name]
        numbers = {"size": str(len(content)), "generation": str(generation), "metageneration": "1"}
        times = dict.fromkeys(("updated", "timeCreated"), "2026-01-01T00:00:00.000Z")
        return {"kind": "storage#object", "bucket": bucket, "name": name} | numbers | times

    def list(self, bucket, query):
        """Returns the objects and, with a delimiter, the folders below a prefix."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        found = {}  # None: a folder
        with self.lock:
            for name in self.names(bucket):
                first, last = query.get("startOffset", ""), query.get("endOffset")
                if not name.startswith(prefix) or name < first or (last and name >= last):
                    continue
                head, separator, _ = name[len(prefix) :].partition(delimiter or "\0")
                folder = prefix + head + separator if separator else None
                found[folder or name] = None if folder else self.about(bucket, name)
        items = [about for about in found.values() if about]
        prefixes = [name for name, about in found.items() if not about]
        return {"kind": "storage#objects", "items": items, "prefixes": prefixes}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept open
    disable_nagle_algorithm, wbufsize = True, -1  # a response is sent at once and as a whole

    def _serve(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        _, _, rest = url.path.partition("/storage/v1/b/")
        bucket, _, name = (unquote(part) for part in rest.partition("/o"))
        try:
            self._check(bucket)
            answer = self._answer(bucket, name.removeprefix("/"), query, body, "/o" in rest)
        except Refusal as refusal:
            code, message = refusal.args
            answer = {"error": {"code": code, "message": message}}
            return self._send(code, json.dumps(answer).encode())
        if isinstance(answer, dict):
            return self._send(200, json.dumps(answer).encode())
        return self._send(*answer)

    do_GET = do_POST = do_PUT = do_DELETE = _serve

    def _check(self, bucket):
        """Raises Refusal for a bucket that does not exist or does not allow the request."""
        if bucket not in ("bucket", "read-only", "forbidden"):
            raise Refusal(404, "The specified bucket does not exist.")
        if bucket == "forbidden":
            raise Refusal(403, DENIED.format("storage.buckets.get"))
        if bucket == "read-only" and self.command != "GET":
            raise Refusal(403, DENIED.format("storage.objects.create"))

    def _answer(self, bucket, name, query, body, is_object):
        """Returns a dict to send as JSON, or (status, content, headers)."""
        storage = self.server
        if not is_object:
            return {"kind": "storage#bucket", "name": bucket, "id": bucket}
        if self.path.startswith("/upload/"):
            return self._upload(bucket, query, body)
        if not name:
            return storage.list(bucket, query)
        about = storage.about(bucket, name)
        if self.command == "DELETE":
            del storage.objects[bucket, name]
            return 204, b"", {}
        return self._content(bucket, name) if query.get("alt") == "media" else about

    def _upload(self, bucket, query, body):
        """Takes an object in one request, or in several to an address that the first one gives."""
        storage = self.server
        if query["uploadType"] == "media":
            return storage.put(bucket, query["name"], body, query)
        if "upload_id" not in query:
            upload = str(next(storage.generations))
            storage.uploads[upload] = (json.loads(body)["name"], b"")
            path = urlsplit(self.path).path
            location = f"{storage.url}{path}?uploadType=resumable&upload_id={upload}"
            return 200, b"", {"Location": location}
        name, content = storage.uploads[query["upload_id"]]
        content += body
        storage.uploads[query["upload_id"]] = (name, content)
        total = self.headers["Content-Range"].rpartition("/")[2]
        if total == str(len(content)):
            return storage.put(bucket, name, content, query)
        return 308, b"", {"Range": f"bytes=0-{len(content) - 1}"}

    def _content(self, bucket, name):
        """Returns an object's content, or the bytes that the header Range asks for."""
        content, generation = self.server.objects[bucket, name]
        headers = {"x-goog-generation": str(generation), "x-goog-metageneration": "1"}
        if not (wanted := self.headers.get("Range")):
            return 200, content, headers
        first, last = wanted.removeprefix("bytes=").split("-")
        start = int(first) if first else max(0, len(content) - int(last))
        stop = min(len(content), int(last) + 1 if first and last else len(content))
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(content)}"
        return 206, content[start:stop], headers

    def _send(self, code, content, headers=()):
        self.send_response(code)
        own = {"Content-Type": "application/json; charset=UTF-8", "Content-Length": len(content)}
        for name, value in (own | dict(headers)).items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Prints nothing."""


@pytest.fixture(scope="module")
def server():
    """The fake, to which gcsfs, google-cloud-storage and tensorstore are directed."""
    import fsspec

    with FakeCloudStorage() as fake, pytest.MonkeyPatch.context() as patch:
        Thread(target=fake.serve_forever, args=(0.05,), daemon=True).start()
        patch.setenv("STORAGE_EMULATOR_HOST", fake.url)
        patch.setenv("TENSORSTORE_GCS_HTTP_URL", fake.url)
        patch.setenv("GOOGLE_AUTH_TOKEN_FOR_TESTING", "token")
        patch.setenv("FSSPEC_GCS_TOKEN", "anon")
        fsspec.config.set_conf_env(fsspec.config.conf)
        yield fake
        fake.shutdown()


@pytest.fixture
def cloud(server):
    """The same server, without objects."""
    server.objects.clear()
    return server


def make_run():
    """Starts a run; a blank and an umlaut are in its path."""
    workdir = WorkDir("gs://bucket/a b/rün")
    workdir.open_for_training(Config())
    workdir.save_config(Config())
    return workdir


def test_lines_are_added_to_those_of_the_process_before(cloud):
    """Catches a resumed run whose first report overwrites all that was reported before, a path that
    local rules have mangled, as `gs:/bucket`, and a probe that is left behind."""
    assert not WorkDir("gs://bucket/a b/rün").has_run
    first = make_run()
    assert cloud.names() == ["a b/rün/config.json"]
    assert WorkDir(str(first.path)).load_config() == Config()
    for step in (1, 2, 3):
        first.append_metrics({"step": step})
    first.append_samples(3, ["    a", "    > ü"])
    second = WorkDir(first.path)
    second.forget_metrics_after(2)
    second.append_metrics({"step": 3, "loss": 1.0})
    second.forget_metrics_after(3)
    second.append_metrics({"step": 4})
    second.append_samples(4, ["    b"])
    records = [dict(record) for record in second.read_metrics()]
    assert all(record.pop("time") for record in records)
    assert records == [{"step": 1}, {"step": 2}, {"step": 3, "loss": 1.0}, {"step": 4}]
    samples = (second / "samples.txt").read_text(encoding="utf-8")
    assert samples == "step 3\n    a\n    > ü\nstep 4\n    b\n"


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


def test_a_cut_or_damaged_checkpoint_is_passed_over(cloud):
    """Catches a preemption in the middle of a save, which leaves objects but no commit, and
    fingerprints that only local files are compared with."""
    folder = WorkDir("gs://bucket/run").checkpoints
    save(folder, [(1, None), (2, None)]).close()
    whole = cloud.objects.pop(("bucket", "run/checkpoints/2/commit_success.txt"))
    with warnings.catch_warnings(action="ignore"):
        checkpoints = Checkpoints(folder, keep=2)
        assert int(checkpoints.restore(make_state(0)).step) == 1
        checkpoints.save(make_state(2))
        checkpoints.wait()
    assert Checkpoints(folder, keep=1, read_only=True).steps() == [1, 2]
    cloud.objects["bucket", "run/checkpoints/2/commit_success.txt"] = whole
    for name in cloud.names():
        if name.startswith("run/checkpoints/2/params/") and "/d/" in name:
            content, generation = cloud.objects["bucket", name]
            flipped = bytes([*content[:-1], content[-1] ^ 1])
            cloud.objects["bucket", name] = (flipped, generation)
    with pytest.warns(UserWarning, match="Checkpoint 2 cannot be used"):
        restored = Checkpoints(folder, keep=1, read_only=True).restore(make_state(0))
    assert fingerprints(restored) == fingerprints(make_state(1))


def test_a_corpus_is_translated_there_and_resumed(cloud):
    """Catches parts in a local folder named `gs:`, and a failure that uploads half a file."""
    lines = [f"line {n}" for n in range(9)]
    storage.locate("gs://bucket/c").joinpath("in").write_text("\n".join(lines))
    files = "gs://bucket/c/in", "gs://bucket/c/out.gz"
    with pytest.raises(Killed):
        translate_file(FakeTranslator(dies_at="line 5"), *files, chunk_lines=2)
    assert len([name for name in cloud.names() if "out.gz.parts/0000" in name]) == 2
    again = FakeTranslator()
    translate_file(again, *files, chunk_lines=2)
    assert again.sentences == lines[4:]
    assert cloud.names() == ["c/in", "c/out.gz"]
    content = gzip.decompress(cloud.objects["bucket", "c/out.gz"][0]).decode()
    assert content == "".join(f"{line[::-1]}\n" for line in lines)
    path = storage.locate("gs://bucket/c/big")
    with pytest.raises(Killed), storage.open_atomically(path) as file:
        file.write(b"x" * 2**20)
        raise Killed
    assert "c/big" not in cloud.names() and not os.path.exists("gs:")


NO_PATH = "must be a local path or gs://BUCKET/NAME"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        *((path, NO_PATH) for path in ("gs://bucket", "gs://", "s3://bucket/run")),
        ("gs://nowhere/run", r"cannot be written \(.*b/nowhere/o"),
        ("gs://read-only/run", r"cannot be written \(.*does not have storage.objects.create"),
    ],
)
def test_a_path_that_cannot_be_written_is_refused(cloud, path, said):
    """Catches a local folder with the name of a bucket, and a run that learns of its missing
    permission at the first checkpoint."""
    with pytest.raises(ValueError, match=said) as caught:
        WorkDir(path).open_for_training(Config())
    assert path in str(caught.value) and "\n" not in str(caught.value)


# ---- the commands, in this process


def test_trains_resumes_and_evaluates(cloud, tmp_path, capsys):
    """Catches any access to the work directory that still takes it for a local folder, as a picture
    or an events file in one named `gs:`."""
    config = make_config(d_model=8, d_ff=8, num_heads=1)
    config.data.corpus, config.data.row_length = str(write_corpus(tmp_path, num_train=40)), 16
    config.data.validation_split = config.data.test_split = "val"
    config.training.batch_tokens, config.training.log_every = 64, 1
    config.decoding.beam_size, config.decoding.max_extra_length = 1, 0
    for num_steps in (3, 5):
        config.training.num_train_steps = num_steps
        assert not WorkDir("gs://bucket/run").is_finished(config)
        assert transformer.train(config, "gs://bucket/run").exit_code == 0
    assert WorkDir("gs://bucket/run").is_finished(config)
    err = capsys.readouterr().err
    assert "resuming at step 3" in err
    assert "gs://bucket/run/results/val/report.html" in err
    reports = ("report.html", "report.json", "segments.jsonl", "translations.txt")
    files = {"curves.png"} if find_spec("matplotlib") else set()
    files |= {"metrics.jsonl", *(f"results/val/{name}" for name in reports)}
    assert {f"run/{name}" for name in files} <= set(cloud.names())
    events = [content for (_, name), (content, _) in cloud.objects.items() if ".tfevents." in name]
    assert all(b"loss" in content for content in events) and events and not os.path.exists("gs:")
    for (_, name), content in list(cloud.objects.items()):
        cloud.objects["read-only", name] = content
    scores = transformer.evaluate("gs://read-only/run", save=True)
    err = capsys.readouterr().err
    assert scores.primary.name == "BLEU" and "warning: the scores were not saved: Forbidden" in err
    steps = [r["step"] for r in WorkDir("gs://bucket/run").read_metrics() if "loss" in r]
    assert steps == [1, 2, 3, 4, 5]
    assert Translator.from_checkpoint("gs://bucket/run", "last").run.checkpoint == "last (5)"


def test_a_corpus_in_a_bucket_reads_as_a_local_one(cloud, tmp_path):
    """Catches a folder, a pattern or a format that is looked for on the local disk alone."""
    pairs = [(f"a {n}", f"b {n}") for n in range(9)]
    write_sides(tmp_path / "train.1", pairs[:2], ".gz")
    write_parquet(tmp_path / "train.2", pairs[2:5])
    write_jsonl(tmp_path / "train.10", pairs[5:], ".xz")
    write_tsv(tmp_path / "val", pairs[:1])
    for path in tmp_path.iterdir():
        (storage.locate("gs://bucket/my text") / path.name).write_bytes(path.read_bytes())
    for corpus in (tmp_path, "gs://bucket/my text", "gs://bucket/my text/train.*"):
        config = DataConfig(corpus=f"{corpus}@2")
        text = TrainingText(config)
        assert list(text.pairs()) == pairs
        assert [file.name for file in text.files[0]][-1] == "train.10.jsonl.xz"
    config = DataConfig(corpus="gs://bucket/my text", source_language="auto")
    assert find_languages(config) == ("en", "de") and missing_splits(config) == ["test"]
    config = DataConfig(corpus="gs://bucket/my text")
    assert load_evaluation_pairs(config, "validation") == pairs[:1]
    with pytest.raises(ValueError, match=r"must hold test\.en and test\.de .*it holds train\.1\."):
        load_evaluation_pairs(config, "test")
    with pytest.raises(ValueError, match="there is no such folder"):
        TrainingText(DataConfig(corpus="gs://bucket/none"))


@pytest.mark.parametrize("command", [train, evaluate])
def test_a_command_without_access_ends_with_a_line(cloud, command, monkeypatch, capfd):
    """Catches a traceback, log lines of Google's libraries, and a compile before the answer."""
    # A process in which JAX has computed cannot join others any more.
    monkeypatch.setattr(command, "connect_hosts", lambda *_: True)
    monkeypatch.setattr(Trainer, "__init__", pytest.fail)  # which compiles
    with pytest.raises(SystemExit) as end:
        command.main(["command", "--workdir=gs://forbidden/run"])
    err = capfd.readouterr().err
    assert (end.value.code, err.count("\n")) == (2, 1), err
    assert "error: Cloud Storage: Forbidden" in err and "storage.buckets.get access" in err
