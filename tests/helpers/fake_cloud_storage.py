"""A Cloud Storage server in this process, with the part of its JSON interface that tests need.

`with FakeCloudStorage() as storage:` serves the buckets `bucket`, `read-only` (which refuses
writing) and `forbidden` (which refuses everything). The variables in `storage.environment` direct
gcsfs, google-cloud-storage and tensorstore to it.
"""

import itertools
import json
import sys
import threading
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

Response = dict | tuple[int, bytes, dict[str, str]]
DENIED = "run@project.iam.gserviceaccount.com does not have {} access to the bucket"


class Refusal(Exception):
    """An error response: (HTTP status, message)."""


class FakeCloudStorage:
    """The server, which runs inside a `with` block.

    objects: {(bucket, name): (content, generation)}.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], tuple[bytes, int]] = {}
        self.uploads: dict[str, tuple[str, bytes]] = {}  # {id: (name, content so far)}
        self.lock, self.generations = threading.RLock(), itertools.count(1)
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.storage = self

    def __enter__(self) -> "FakeCloudStorage":
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that direct every client here, without an account."""
        return {
            "STORAGE_EMULATOR_HOST": self.url,
            "TENSORSTORE_GCS_HTTP_URL": self.url,
            "GOOGLE_AUTH_TOKEN_FOR_TESTING": "token",
            "FSSPEC_GCS_TOKEN": "anon",
        }

    def names(self, bucket: str = "bucket") -> list[str]:
        """Returns the names of a bucket's objects, sorted."""
        return sorted(name for owner, name in self.objects if owner == bucket)

    def put(self, bucket: str, name: str, content: bytes, query: dict[str, str]) -> dict:
        """Writes an object, unless the query demands another generation than it has."""
        with self.lock:
            present = self.objects.get((bucket, name), (b"", 0))[1]
            if int(query.get("ifGenerationMatch", present)) != present:
                raise Refusal(412, "conditionNotMet")
            self.objects[bucket, name] = (content, next(self.generations))
            return self.about(bucket, name)

    def about(self, bucket: str, name: str) -> dict:
        """Returns the metadata of an object; raises Refusal if there is none."""
        if (bucket, name) not in self.objects:
            raise Refusal(404, f"No such object: {bucket}/{name}")
        content, generation = self.objects[bucket, name]
        return {
            "kind": "storage#object",
            "bucket": bucket,
            "name": name,
            "size": str(len(content)),
            "generation": str(generation),
            "metageneration": "1",
            "updated": "2026-01-01T00:00:00.000Z",
            "timeCreated": "2026-01-01T00:00:00.000Z",
        }

    def list(self, bucket: str, query: dict[str, str]) -> dict:
        """Returns one page of the objects and, with a delimiter, the folders below a prefix."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        found: dict[str, dict | None] = {}  # None: a folder
        with self.lock:
            for name in self.names(bucket):
                first, last = query.get("startOffset", ""), query.get("endOffset")
                if not name.startswith(prefix) or name < first or (last and name >= last):
                    continue
                head, separator, _ = name[len(prefix) :].partition(delimiter or "\0")
                folder = prefix + head + separator if separator else None
                found[folder or name] = None if folder else self.about(bucket, name)
        rest = [key for key in found if key > query.get("pageToken", "")]
        page = rest[: int(query.get("maxResults", 1000))]
        answer = {
            "kind": "storage#objects",
            "items": [found[key] for key in page if found[key]],
            "prefixes": [key for key in page if not found[key]],
        }
        return answer | ({"nextPageToken": page[-1]} if len(page) < len(rest) else {})


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores a client that went away: gcsfs asks twice and drops the later answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept open
    disable_nagle_algorithm, wbufsize = True, -1  # a response is sent at once and as a whole

    def _serve(self) -> None:
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

    def _check(self, bucket: str) -> None:
        """Raises Refusal for a bucket that does not exist or does not allow the request."""
        if bucket not in ("bucket", "read-only", "forbidden"):
            raise Refusal(404, "The specified bucket does not exist.")
        if bucket == "forbidden":
            raise Refusal(403, DENIED.format("storage.buckets.get"))
        if bucket == "read-only" and self.command != "GET":
            raise Refusal(403, DENIED.format("storage.objects.create"))

    def _answer(
        self, bucket: str, name: str, query: dict[str, str], body: bytes, is_object: bool
    ) -> Response:
        """Returns a dict to send as JSON, or (status, content, headers)."""
        storage = self.server.storage
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

    def _upload(self, bucket: str, query: dict[str, str], body: bytes) -> Response:
        """Takes an object in one request, or in several to an address that the first one gives."""
        storage = self.server.storage
        if query["uploadType"] == "media":
            return storage.put(bucket, query["name"], body, query)
        if query["uploadType"] == "multipart":
            head = f"Content-Type: {self.headers['Content-Type']}\n\n".encode()
            about, content = BytesParser().parsebytes(head + body).get_payload()
            name = json.loads(about.get_payload())["name"]
            return storage.put(bucket, name, content.get_payload(decode=True), query)
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

    def _content(self, bucket: str, name: str) -> Response:
        """Returns an object's content, or the bytes that the header Range asks for."""
        content, generation = self.server.storage.objects[bucket, name]
        headers = {"x-goog-generation": str(generation), "x-goog-metageneration": "1"}
        if not (wanted := self.headers.get("Range")):
            return 200, content, headers
        first, last = wanted.removeprefix("bytes=").split("-")
        start = int(first) if first else max(0, len(content) - int(last))
        stop = min(len(content), int(last) + 1 if first and last else len(content))
        if start >= stop:
            raise Refusal(416, "Requested range not satisfiable")
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(content)}"
        return 206, content[start:stop], headers

    def _send(self, code: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        headers = {"Content-Type": "application/json; charset=UTF-8"} | (headers or {})
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Prints nothing."""
