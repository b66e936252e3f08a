"""What only a repository names: a cloned lock must not lead its reader's machine into a private network."""

import pytest

from skillhub.errors import UnsafeTransfer
from skillhub.world.fetch import Answer, unnamed
from skillhub.world.http import Http
from skillhub.world.wire import Patience


class Recorder:
    def __init__(self):
        self.asked = []

    def ask(self, url, *, cap, named_by=None, headers=None):
        self.asked.append((url, named_by))
        return Answer(url, b"")

    def get(self, url, *, cap, named_by=None):
        return self.ask(url, cap=cap, named_by=named_by)


@pytest.mark.parametrize(
    "url",
    ["https://10.0.0.7/", "https://169.254.169.254/latest/", "http://skills.example/", "https://[fd00::1]/"],
)
def test_attack_a_lock_that_points_into_a_private_network(url):
    for named_by in (None, url):  # what lies at a site is named by the site, and that by nobody
        with Http(patience=Patience(pauses=())) as http, pytest.raises(UnsafeTransfer) as caught:
            unnamed(http).get(url, cap=100, named_by=named_by)
        assert f"skillhub install {url}" in caught.value.hint


@pytest.mark.parametrize("url", ["https://skills.example/x", "http://127.0.0.1:8000/x"])
def test_no_person_is_said_to_have_named_it_so_nobody_is_told_who_asks(url):
    web = Recorder()
    unnamed(web).get(url, cap=1)
    unnamed(web).ask(url, cap=1)
    unnamed(web).ask(url, cap=1, named_by="https://other.example/")
    (_, first), (_, second), (_, third) = web.asked
    assert first == second
    assert first not in (None, url)
    assert third == "https://other.example/"
