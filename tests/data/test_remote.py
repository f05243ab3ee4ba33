"""Text elsewhere gives the same store as here, also over connections that break."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import logging
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from moto.server import ThreadedMotoServer
from pyarrow import parquet
from tiny import write_byte_tokenizer, write_lines

from bydore_pyro.data.build import Build
from bydore_pyro.data.documents import CorpusConfig
from bydore_pyro.data.plan import make_plan
from bydore_pyro.data.preparation import prepare
from bydore_pyro.data.remote import (
    is_remote,
    list_anew,
    opened,
    path_of,
    readable_place,
    size_and_time,
)
from bydore_pyro.data.rows import RowConfig, read_rows, read_text
from bydore_pyro.data.sources import list_files
from bydore_pyro.data.store import TokenStore
from bydore_pyro.data.streams import Part
from bydore_pyro.data.tokenizer import TokenizerConfig
from bydore_pyro.errors import DataError

KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("remote"), np.random.default_rng(0)
    rows = [{"text": rng.bytes(400).hex(" ", 3)} for _ in range(800)]
    write_lines(folder / "text/lines.jsonl", rows[:300])
    write_lines(folder / "text/packed/0.jsonl.gz", rows[300:500])
    table = pyarrow.Table.from_pylist(rows[500:])
    parquet.write_table(table, folder / "text/table.parquet", row_group_size=40)
    (folder / "text/large.txt").write_text("".join(r["text"] + "\n" for r in rows) * 2)
    write_byte_tokenizer(folder / "bytes")
    return folder / "text"


def built(data: str, text: Path, out: Path) -> TokenStore:
    """A sample of the text, which is cut into many parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bydore_pyro.data.sampling.LEAST", 4000)
        patch.setattr("bydore_pyro.data.plan.MEASURED_MEGABYTES", 0.05)
        tokenizer = TokenizerConfig(tokenizer=str(text.parent / "bytes"))
        corpus = CorpusConfig(validation_fraction=0.2)
        return prepare(make_plan(data, corpus, None, tokenizer, tokens=400_000), out)


@pytest.fixture(scope="module")
def expected(text: Path, tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    return built(str(text), text, tmp_path_factory.mktemp("here") / "store")


@pytest.fixture(scope="module")
def bucket(text: Path) -> Iterator[int]:
    """A server of S3 on this machine, with the text; its port."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    port = server.get_host_and_port()[1]
    # Buckets live in this process, longer than a server.
    reset = urllib.request.Request(f"http://127.0.0.1:{port}/moto-api/reset", method="POST")
    urllib.request.urlopen(reset).close()
    with pytest.MonkeyPatch.context() as patch:
        at(patch, port)
        files = fsspec.filesystem("s3", skip_instance_cache=True)
        files.mkdir("bucket")
        files.put(str(text), "bucket/text", recursive=True)
        yield port
    server.stop()


def at(patch: pytest.MonkeyPatch, port: int) -> None:
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}.items():
        patch.setenv(name, value)
    fsspec.get_filesystem_class("s3").clear_instance_cache()


def test_s3_gives_the_same_store(
    bucket: int, text: Path, expected: TokenStore, tmp_path: Path
) -> None:
    """As a folder, and as places of a list."""
    assert built("s3://bucket/text", text, tmp_path / "out").sha256 == expected.sha256
    places = {n: f"s3://bucket/text/{n}*" for n in ("lines", "packed", "table")}
    domains = {**places, "large": {"train": str(text / "large.txt")}}
    (tmp_path / "list.json").write_text(json.dumps({"domains": domains}))
    found, _ = list_files(str(tmp_path / "list.json"), RowConfig())
    here, _ = list_files(str(text), RowConfig())
    assert {s.domain: s.size for s in found} == {s.domain: s.size for s in here}


@contextlib.contextmanager
def breaking(port: int, broken: list[int]) -> Iterator[int]:
    """A server before another, which hangs up in the middle of every ninth long answer."""
    server, ends = socket.create_server(("127.0.0.1", 0)), []
    answers = itertools.count()

    def relay(source: socket.socket, sink: socket.socket, breaks: bool) -> None:
        with contextlib.suppress(OSError):
            while block := source.recv(2**16):
                if breaks and len(block) > 3000 and next(answers) % 9 == 0:
                    broken.append(1)
                    sink.sendall(block[:2000])
                    break
                sink.sendall(block)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                client = server.accept()[0]
                upstream = socket.create_connection(("127.0.0.1", port))
                ends.extend((client, upstream))
                for given in ((client, upstream, False), (upstream, client, True)):
                    threading.Thread(target=relay, args=given, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    for one in (server, *ends):
        one.close()


def test_a_connection_that_breaks_gives_the_same_store(
    bucket: int, text: Path, expected: TokenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken: list[int] = []
    with breaking(bucket, broken) as port:
        at(monkeypatch, port)
        store = built("s3://bucket/text", text, tmp_path / "out")
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    assert len(broken) > 5
    assert store.sha256 == expected.sha256


def test_text_that_changes_while_it_is_read_is_noticed(text: Path, tmp_path: Path) -> None:
    """When all has been read; a listing that is kept would hide it."""
    files = MemoryFileSystem()
    files.put(str(text), "/changing", recursive=True)
    path = path_of("memory://changing/lines.jsonl")
    before = size_and_time(path)
    sound = Build.run

    def run(build: Build, *given: Any) -> None:
        sound(build, *given)
        path.write_bytes(path.read_bytes())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Build, "run", run)
        with pytest.raises(
            DataError, match=r"changing/lines\.jsonl not to change while it is read"
        ):
            built("memory://changing", text, tmp_path / "out")
    assert size_and_time(path) != before
    list_anew([path, None, tmp_path])


@pytest.mark.parametrize("change", ["shorter", "gone"])
def test_text_that_shrinks_while_it_is_read_is_told(
    bucket: int, text: Path, tmp_path: Path, change: str
) -> None:
    """What fails in S3 is told as what it is: the listing that was kept does not hide it."""
    path = path_of("s3://bucket/text/../shrinks/lines.jsonl")
    path.write_bytes((text / "lines.jsonl").read_bytes())
    sound = Build.run

    def run(build: Build, *given: Any) -> None:
        files = fsspec.filesystem("s3", skip_instance_cache=True)
        files.pipe(path.path, b"{}\n") if change == "shorter" else files.rm(path.path)  # type: ignore
        sound(build, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Build, "run", run)
        with pytest.raises(DataError, match=r"bucket/shrinks/lines\.jsonl not to change while"):
            built("s3://bucket/shrinks", text, tmp_path / "out")
    path.fs.invalidate_cache()  # type: ignore[attr-defined]


def test_parts_are_read_in_few_requests_and_no_further(tmp_path: Path) -> None:
    """A part of a compressed file, and of a row group, of which pyarrow would read all."""
    rng = np.random.default_rng(0)
    rows = [{"text": rng.bytes(1000).hex()} for _ in range(4000)]
    write_lines(tmp_path / "a.jsonl.gz", rows)
    table = pyarrow.Table.from_pylist(rows)
    written = {"use_dictionary": False, "write_batch_size": 64, "data_page_size": 10**5}
    parquet.write_table(table, tmp_path / "a.parquet", **written)
    MemoryFileSystem().put(str(tmp_path), "/asked", recursive=True)
    sound, asked = MemoryFileSystem._open, list[int]()

    class Noted(BytesIO):
        def readinto(self, buffer: Any) -> int:
            asked.append(found := super().readinto(buffer))
            return found

        def read(self, count: int | None = -1) -> bytes:
            found = super().read(count)
            asked.append(len(found))
            return found

    def noted(files: MemoryFileSystem, path: str, mode: str = "rb", **given: Any) -> Any:
        file = Noted(sound(files, path, mode, **given).getvalue())
        ahead = given["cache_type"] == "readahead"
        return io.BufferedReader(file, given["block_size"]) if ahead else file  # type: ignore

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryFileSystem, "_open", noted)
        for name, part in (("a.jsonl.gz", Part(0, 2000)), ("a.parquet", Part(0, 3, 0))):
            asked.clear()
            assert list(read_rows(path_of(f"memory://asked/{name}"), RowConfig(), part))
            assert len(asked) <= 5
            assert sum(asked) < 1_000_000
            assert (tmp_path / name).stat().st_size > 4_000_000


def test_what_stays_broken_is_told_and_never_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    path = path_of("memory://broken/a.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b'{"text": "words"}\n')
    assert is_remote(path)
    assert not is_remote(Path("a/b"))
    with opened(path) as file:
        assert file.read() == path.read_bytes()

    def gone(*_: object, **__: object) -> None:
        raise TimeoutError("nobody answers")

    monkeypatch.setattr(MemoryFileSystem, "_open", gone)
    for rows in (
        read_rows(path, RowConfig(on_error="skip")),
        read_text(path, RowConfig(on_error="skip")),
    ):
        with pytest.raises(DataError, match=r"memory://broken/a\.jsonl, found .*nobody answers"):
            list(rows)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("s3://nothing/text", "found no folder 's3://nothing/text'"),
        ("s3://bucket/text/none*", "found no folder 's3://bucket/text/none*'"),
        ("gs://bucket", "found none (Please install gcsfs to access Google Storage): pip install"),
        ("nope://bucket", "Expected a package that reads nope://, found none (Unsupported"),
    ],
)
def test_what_is_not_there_is_told_in_a_line(bucket: int, data: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        list_files(data, RowConfig())
    assert message in str(error.value)
    with pytest.raises(KeyError), readable_place("here"):
        raise KeyError


def test_no_credentials_are_told_in_a_line(
    bucket: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., str]
) -> None:
    files = fsspec.get_filesystem_class("s3")
    with monkeypatch.context() as patch:
        for name in KEYS:
            patch.delenv(name)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
            patch.setenv(name, "/dev/null")
        files.clear_instance_cache()
        told = refused("prepare", "--data", "s3://bucket/text", "--out", tmp_path / "out")
    files.clear_instance_cache()
    assert "Expected to read s3://bucket/text, found NoCredentialsError: Unable to locate" in told
