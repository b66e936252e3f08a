"""A line with latency passes data unchanged, with little data and without a clock."""

from __future__ import annotations

import random
import ssl
from concurrent.futures import ThreadPoolExecutor

import pytest

from skillhub.errors import UnsafeTransfer
from skillhub.net.client import Http
from tests.bench.link import GIT, REGISTRY, SITE, Line, certificates, raced
from tests.bench.offers import served
from tests.support.cli import Shell


@pytest.fixture
def line(tmp_path):
    certificates(tmp_path)
    return Line(tmp_path, rtt=0.001, rate=10_000.0)


def test_bytes_of_many_connections_arrive_whole_and_in_order(line, tmp_path):
    (tmp_path / "site").mkdir()
    files = {f"{number}.bin": random.Random(number).randbytes(100_000 + number) for number in range(8)}
    for name, data in files.items():
        (tmp_path / "site" / name).write_bytes(data)
    tls = ssl.create_default_context(cafile=line.trusted["SSL_CERT_FILE"])
    with (
        served(tmp_path / "site") as plain,
        line.to(plain) as url,
        Http(tls=tls) as http,
        ThreadPoolExecutor(8) as pool,
    ):
        assert url.startswith("https://127.0.0.1:")
        found = pool.map(lambda name: http.get(f"{url}/{name}", cap=1 << 20).data, files)
        assert dict(zip(files, found, strict=True)) == files
        with Http() as stranger, pytest.raises(UnsafeTransfer, match="no valid certificate"):
            stranger.get(f"{url}/0.bin", cap=1 << 20)


def test_installs_from_site_registry_and_git_work_over_the_line(tmp_path, capsys):
    top = tmp_path / "all"
    line = Line(top, rtt=0.001, rate=10_000.0)
    rows = list(raced(top, 1, None, 0, line, Shell(tmp_path / "unused").words()))
    assert capsys.readouterr().err == ""
    assert [row.work for row in rows] == [SITE, REGISTRY, GIT]
    assert all(row.took["skillhub"] and row.others == [] for row in rows)
    assert not top.exists()
