"""An S3-compatible store as a target. This module needs the extra ``s3``.

Endpoint, region and credentials come from the usual settings of AWS tools: ``AWS_ENDPOINT_URL_S3``, ``AWS_REGION``,
``AWS_PROFILE``, ``AWS_ACCESS_KEY_ID``, or the machine's role.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from hashlib import md5
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from skillhub.errors import NotFound, SourceError, StateError, UsageError
from skillhub.formats.text import quote
from skillhub.registry import push_targets
from skillhub.registry.outputs import cache_control, media_type
from skillhub.registry.push_targets import FILE_CAP, SiteFile, SiteFiles, Target

_ADDRESS = re.compile(r"s3://([a-z0-9][a-z0-9._-]{2,62})((?:/[A-Za-z0-9._~+-]+)*)/?", re.ASCII)
_ANSWER_CAP = 16 << 20  # bytes of an answer that is no file, such as 1,000 objects of a list
# Without the newer checksums, which some S3-compatible stores do not support.
_CONFIG = Config(
    connect_timeout=10,
    read_timeout=60,
    retries={"mode": "standard", "total_max_attempts": 4},
    request_checksum_calculation="when_required",
    response_checksum_validation="when_required",
)


class S3Target(Target):
    """A ``Target`` with conditional writes: an object must be missing, or unchanged since the start.

    Args:
        client: The boto3 client for S3; ``close`` closes it.
        bucket: The bucket.
        prefix: The prefix of all keys; empty, or with a slash at the end.

    Raises:
        NotFound: the bucket does not exist.
        SourceError: the store cannot be reached, or refuses.
    """

    pages_max = 10_000  # of a list, with 1,000 objects each
    seconds = 600.0  # for a request and its answer

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:  # noqa: ANN401 - boto3 makes its classes at run time
        self._client, self._bucket, self._prefix = client, bucket, prefix
        self.where = f"s3://{bucket}/{prefix}"
        with self._converted_errors():
            self._tags = dict(self._listed())

    def read(self, path: str) -> bytes | None:
        """Return an object that was listed at the start, or None if it was not listed.

        Raises:
            StateError: another process changed the object since, or it is larger than any file of a site.
            SourceError: the store cannot be reached, or refuses.
        """
        if path not in self._tags:
            return None
        with self._converted_errors(path):
            response = self._client.get_object(**self._key_arguments(path), IfMatch=self._tags[path])
            data = self._body(response)
        if len(data) > FILE_CAP:
            raise push_targets.other_content(path, self.where)
        return data

    def compare(self, file: SiteFile) -> bool | None:
        """Compare the object by its tag if that is an MD5 digest, or else by reading it; None if it does not exist.

        Raises:
            StateError: another process changed the object since the start.
            SourceError: the store cannot be reached, or refuses.
        """
        tag = self._tags.get(file.path)
        if tag is None:
            return None
        data = file.read()
        return tag.strip('"') == md5(data, usedforsecurity=False).hexdigest() or self.read(file.path) == data

    def publish(self, site: SiteFiles, changed: SiteFiles, gone: Sequence[str] = (), records: SiteFiles = ()) -> None:
        """Write the changed objects, many at a time; after an interruption, the next push writes the missing ones.

        Raises:
            StateError: another process published there since the start.
            SourceError: the store cannot be reached, refuses, or accepts a file and does not keep it.
        """
        push_targets.in_stages(changed, self._put)
        for path in gone:
            with self._converted_errors(path):
                self._client.delete_object(**self._key_arguments(path))
        push_targets.in_stages(records, self._put)
        with self._converted_errors():
            self._tags = dict(self._listed())
        for file in (*changed, *records):
            if not self.compare(file):
                raise push_targets.not_kept(file.path, self.where)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _put(self, file: SiteFile) -> None:
        tag, data = self._tags.get(file.path), file.read()
        served = {"ContentType": media_type(file.path), "CacheControl": cache_control(file.path)}
        arguments = {**self._key_arguments(file.path), **served, "Body": data}
        with self._converted_errors(file.path):
            try:
                self._client.put_object(**arguments, **({"IfMatch": tag} if tag else {"IfNoneMatch": "*"}))
            except ClientError as error:
                present_data, present_tag = self._present(file.path)
                if present_data == data:
                    return  # written by this call, whose response was lost, or by another that writes the same
                # A store without conditional writes answers 501; then write if the object is still unchanged.
                if _status(error) != 501 or present_tag != tag:
                    raise
                self._client.put_object(**arguments)

    def _present(self, path: str) -> tuple[bytes | None, str | None]:
        try:
            response = self._client.get_object(**self._key_arguments(path))
        except ClientError as error:
            if _status(error) != 404:
                raise
            return None, None
        return self._body(response), response["ETag"]

    def _body(self, response: Any) -> bytes:  # noqa: ANN401
        data: bytes = push_targets.in_time(self.seconds, lambda: response["Body"].read(FILE_CAP + 1), self.where)
        return data

    def _listed(self) -> Iterator[tuple[str, str]]:
        pages = self._client.get_paginator("list_objects_v2")
        for number, page in enumerate(pages.paginate(Bucket=self._bucket, Prefix=self._prefix)):
            if number == self.pages_max:
                raise SourceError(f"the store lists more than {number} pages", where=self.where)
            for row in page.get("Contents", ()):
                yield row["Key"].removeprefix(self._prefix), row["ETag"]

    def _key_arguments(self, path: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + path}

    @contextmanager
    def _converted_errors(self, path: str = "") -> Iterator[None]:
        """Convert the exceptions of boto3."""
        try:
            yield
        except ClientError as error:
            raise self._refusal(error, path) from error
        except NoCredentialsError as error:
            hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
            raise SourceError("no credentials for S3 were found", where=self.where, hint=hint) from error
        except (BotoCoreError, OSError) as error:
            raise SourceError(f"cannot reach the store: {quote(str(error))}", where=self.where) from error
        except (LookupError, TypeError, ValueError) as error:  # of boto3, for an answer that is not as it expects
            raise SourceError("expected the answer of an S3 store, found another", where=self.where) from error

    def _refusal(self, error: ClientError, path: str) -> SourceError | StateError:
        code = str(error.response.get("Error", {}).get("Code", ""))
        # 412: the condition failed; 409: another write to the key is running; 404: deleted; 501: see `_put`.
        if code == "NoSuchBucket":
            return NotFound("there is no such bucket", where=self.where)
        if path and _status(error) in (404, 409, 412, 501):
            return push_targets.overtaken(path, self.where)
        return SourceError(f"the store refuses the request: {quote(code)}", where=self.where + path)


def open_target(address: str) -> Target:
    """Return the target for ``s3://BUCKET/PREFIX``.

    Raises:
        UsageError: the address or the AWS configuration is invalid.
        NotFound: the bucket does not exist.
        SourceError: the store cannot be reached, or refuses.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or any(part in (".", "..") for part in address.split("/")):
        hint = "a bucket's name has 3 to 63 characters: small letters, digits, dots, hyphens and underscores"
        raise UsageError(f"expected s3://BUCKET or s3://BUCKET/PREFIX, found {quote(address)}", hint=hint)
    bucket, prefix = match[1], match[2].removeprefix("/")
    try:
        client = boto3.session.Session().client("s3", config=_CONFIG)
    except (BotoCoreError, ValueError) as error:
        raise UsageError(f"the AWS configuration is invalid: {quote(str(error))}") from error
    with ExitStack() as stack:
        target = S3Target(stack.enter_context(closing(bounded(client))), bucket, prefix + "/" if prefix else "")
        stack.pop_all()
    return target


def bounded(client: Any, seconds: float = S3Target.seconds) -> Any:  # noqa: ANN401 - as for ``S3Target``
    """Return the client with limits that botocore lacks: of a request's time, and of an answer that is no file."""

    def send(request: Any, **_: object) -> Any:  # noqa: ANN401
        where, size = request.url.partition("?")[0], int(request.headers.get("Content-Length") or 0)
        return push_targets.in_time(seconds, lambda: answered(request, where), where, size)

    def answered(request: Any, where: str) -> Any:  # noqa: ANN401
        is_file, request.stream_output = request.stream_output, True
        response = client._endpoint.http_session.send(request)
        if not is_file or response.status_code >= 300:
            chunks = response.raw.stream(1 << 16)
            response._content = push_targets.read_at_most(_ANSWER_CAP, chunks, "an answer", where)
        return response

    client.meta.events.register("before-send.s3", send)
    return client


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
