"""Errors for answers with other statuses than 200."""

import time

import pytest

from skillhub.errors import NotFound, RateLimited, SourceError
from skillhub.net.fetch import Response, is_limited, whole


def answered(status, **headers):
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response("https://site.example/a", b"", status=status, headers=fields)


def test_answer_without_status_and_headers_is_complete():
    found = Response("https://site.example/a", b"x")
    assert (found.content_type, found.status, found.headers) == ("", 200, {})
    assert whole(found) is found


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, NotFound) for status in (403, 404, 410)),
        *((status, SourceError) for status in (201, 204, 299, 304, 400, 401, 402, 405, 409, 411, 429, 500)),
    ],
)
def test_other_statuses_than_200_raise_their_error(status, kind):
    with pytest.raises(SourceError, match=str(status)) as caught:
        whole(answered(status))
    assert (type(caught.value), caught.value.where) == (kind, "https://site.example/a")
    assert ("token" in (caught.value.hint or "")) is (status == 401)


@pytest.mark.parametrize("status", [403, 429])
def test_403_and_429_are_rate_limits_only_with_the_fields_of_a_limit(status):
    for limited in (answered(status, retry_after="5"), answered(status, x_ratelimit_remaining="0")):
        with pytest.raises(RateLimited):
            whole(limited)
    for other in (answered(status), answered(status, x_ratelimit_remaining="1")):
        assert is_limited(other.status, other.headers) is False


@pytest.mark.parametrize("status", [200, 402, 404, 428, 430, 503])
def test_other_statuses_are_no_rate_limit(status):
    assert is_limited(status, {"retry-after": "5", "x-ratelimit-remaining": "0"}) is False


def resets(**headers):
    with pytest.raises(RateLimited) as caught:
        whole(answered(429, **{"x_ratelimit_remaining": "0", **headers}))
    return caught.value.resets


def test_end_of_a_rate_limit_is_read_from_the_headers():
    for pause in ("0", "999999999"):
        assert int(time.time()) <= resets(retry_after=pause, x_ratelimit_reset="7") - int(pause) <= time.time()
    assert resets(x_ratelimit_reset="99999999999") == 99_999_999_999
    assert resets(retry_after="Wed, 21 Oct 2026 07:28:00 GMT", x_ratelimit_reset="7") == 7
    for value in ("", "-1", "1.5", "soon", "1" * 10):
        assert resets(retry_after=value) is None
    assert resets(x_ratelimit_reset="1" * 12) is None
