"""Buckets of S3 and Google Cloud Storage, for reading items and for publishing results.

Hides obstore, the endpoints (`AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, `STORAGE_EMULATOR_HOST`), where credentials are
found, how long a service may be silent, and the words for what it answers: everything that fails is a StorageError.
"""

import datetime
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from .failpoints import failpoint

SCHEMES = ("s3", "gs")
CONNECT_S = 5
SILENCE_S = 30
REQUEST_S = 600
"""A whole request, however slowly its bytes come."""
RETRIES = 3
RETRY_S = 15
_MAX_CHARACTERS = 300
_EXTRA = "pip install 'jurybox[s3]'"
_CREDENTIALS_REJECTED = re.compile(r"InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken")
_NO_PERMISSION = re.compile(r"AccessDenied|Forbidden|\b40[13]\b(?!\.)")
_NO_CREDENTIALS = re.compile(r"169\.254\.169\.254|computeMetadata|metadata\.google")
_UNREACHABLE = re.compile(r"error sending request|timed out|NETWORK_CONNECTION|curlCode|[Cc]ould not (connect|resolve)")


class StorageError(Exception):
    """The service cannot be reached, or does not do what it is asked for; the message holds no secret."""


class Bucket:
    """A bucket, or what is below a prefix of it. Keys are relative to the prefix."""

    def __init__(self, scheme: str, name: str, prefix: str = "") -> None:
        self._scheme = scheme
        self._name = name
        self._prefix = prefix
        self._opened: Any = None

    def head(self, key: str) -> tuple[int, str] | None:
        """An object's size in bytes and its ETag (or, without one, the time of its last change), if there is one."""
        with self._translate_errors("read"):
            try:
                meta = self._store().head(key)
            except FileNotFoundError:
                return None
            return meta["size"], meta["e_tag"] or meta["last_modified"].isoformat()

    def read(self, key: str) -> bytes | None:
        """An object's content, if there is one."""
        with self._translate_errors("read"):
            try:
                return bytes(self._store().get(key).bytes())
            except FileNotFoundError as error:
                if "NoSuchBucket" in str(error):
                    raise
                return None

    def read_range(self, key: str, start: int, length: int) -> memoryview:
        """Some of an object's bytes."""
        with self._translate_errors("read"):
            return memoryview(self._store().get_range(key, start=start, length=length))

    def keys(self, folder: str, after: str = "", recursive: bool = True) -> Iterator[str]:
        """The keys below a folder, in no order; with `after` those behind that key."""
        with self._translate_errors("listed"):
            if recursive:
                for page in self._store().list(folder or None, offset=after or None):
                    yield from (entry["path"] for entry in page)
            else:
                yield from (entry["path"] for entry in self._store().list_with_delimiter(folder or None)["objects"])

    def create(self, key: str, content: bytes) -> bool:
        """Put an object; False: there is one of that key, which stays as it is."""
        from obstore.exceptions import AlreadyExistsError

        failpoint("after-tmp")
        with self._translate_errors("written"):
            try:
                self._store().put(key, content, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
            return True

    def replace(self, key: str, content: bytes) -> None:
        """Put an object in the place of what is there."""
        with self._translate_errors("written"):
            self._store().put(key, content)

    def _store(self) -> Any:
        if self._opened is None:
            self._opened = _open_store(self._scheme, self._name, self._prefix, _endpoint(self._scheme))
        return self._opened

    @contextmanager
    def _translate_errors(self, action: str) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            raise StorageError(_describe_error(error, action, endpoint_note(self._scheme))) from None


def is_remote(location: str) -> bool:
    """Whether it is the URL of an object or a bucket."""
    scheme, mark, _ = location.partition("://")
    return bool(mark) and scheme in SCHEMES


def split_url(url: str) -> tuple[str, str, str]:
    """Scheme, bucket and key. ValueError where it holds credentials, or names no bucket or no key."""
    scheme, _, path = url.partition("://")
    bucket, _, key = path.partition("/")
    # A secret may hold slashes: of `ID:SECRET@bucket` the colon alone is sure to stand before the first. Not repeated.
    if "@" in bucket or ":" in bucket:
        raise ValueError("a URL must not hold credentials; they come from the environment or a profile")
    if not bucket or not key:
        raise ValueError(f"{url} must name a bucket and an object, as in {scheme}://bucket/folder/items.jsonl")
    return scheme, bucket, key


def without_secrets(url: str) -> str:
    """The URL as it may be printed: without what stands before its host, and without its query, which may be a key."""
    scheme, mark, rest = url.partition("://")
    host = rest.partition("/")[0]
    if (":" in host or "@" in host) and "@" in rest:
        rest = f"…@{rest.rpartition('@')[2]}"
    bare, query, _ = rest.partition("?")
    return f"{scheme}{mark}{bare}{'?…' if query else ''}"


def publish_url(publish: str, base: Path, name: str) -> str:
    """Where a run of this name is published, by its config's `publish`. Directories are relative to `base`."""
    # As any file system and any bucket takes it.
    folder = re.sub(r"[^\w.-]|^\.+", "_", name)
    return f"{publish.rstrip('/')}/{folder}" if is_remote(publish) else str((base / publish).resolve() / folder)


def endpoint_note(scheme: str) -> str:
    """` at ADDRESS`, where the environment names another service than the provider's."""
    endpoint = _endpoint(scheme)
    return f" at {without_secrets(endpoint)}" if endpoint else ""


def _endpoint(scheme: str) -> str | None:
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL") if scheme == "s3" else ("STORAGE_EMULATOR_HOST",)
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _open_store(scheme: str, bucket: str, prefix: str, endpoint: str | None) -> Any:
    from obstore.store import GCSStore, S3Store

    options: dict[str, Any] = {
        "prefix": prefix or None,
        "client_options": {
            "connect_timeout": f"{CONNECT_S}s",
            "read_timeout": f"{SILENCE_S}s",
            "timeout": f"{REQUEST_S}s",
            "allow_http": endpoint is not None and not endpoint.startswith("https://"),
        },
        "retry_config": {"max_retries": RETRIES, "retry_timeout": datetime.timedelta(seconds=RETRY_S)},
    }
    if scheme == "gs":
        if endpoint is not None:
            address = endpoint if "://" in endpoint else f"http://{endpoint}"
            # An emulator asks for no credentials. With skip_signature some are looked for all the same.
            options["config"] = {"base_url": address.rstrip("/"), "bearer_token": "emulated"}
        return GCSStore(bucket, **options)
    if endpoint is not None:
        options["endpoint"] = endpoint
    elif not (os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")):
        options["region"] = _find_region(bucket)
    return S3Store(bucket, **options, **_profile_credentials())


@cache
def _find_region(bucket: str) -> str:
    from pyarrow.fs import resolve_s3_region

    region: str = resolve_s3_region(bucket)
    return region


def _profile_credentials() -> dict[str, Any]:
    """Credentials of a profile, which only Amazon's own library can read; nothing where obstore finds others itself."""
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        return {}
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        file = Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or Path.home() / ".aws" / "credentials")
        if profile := os.environ.get("AWS_PROFILE") or (file.is_file() and file):
            raise ValueError(f"the credentials of the profile ({profile}) are read by boto3: {_EXTRA}") from None
        return {}
    try:
        return {"credential_provider": Boto3CredentialProvider()}
    except ValueError:  # there are none
        return {"skip_signature": True}
    except Exception as error:  # it has no common root of its errors
        raise ValueError(f"the credentials of the profile: {error}") from None


def _describe_error(error: Exception, action: str, place: str) -> str:
    """What failed, in one line. `action`: what could not be done; `place`: the note of the endpoint."""
    text = " ".join(str(error).partition("\n\nDebug source")[0].split())
    if code := re.search(r"<Code>(.*?)</Code>", text):
        message = re.search(r"<Message>(.*?)</Message>", text)
        text = code[1] + (f": {message[1]}" if message else "")
    text = re.sub(r"://\S*@", "://…@", text)
    text = text if len(text) <= _MAX_CHARACTERS else text[:_MAX_CHARACTERS] + "…"
    # A put says that an object is absent where its bucket is.
    if re.search(r"NoSuchBucket|Bucket '[^']*' not found", text) or (
        isinstance(error, FileNotFoundError) and action == "written"
    ):
        return f"there is no such bucket{place}: {text}"
    if isinstance(error, FileNotFoundError):
        return f"there is no such object{place}"
    if _CREDENTIALS_REJECTED.search(text):
        return f"the credentials are not accepted{place}: {text}"
    if _NO_CREDENTIALS.search(text):
        hint = f"a profile needs boto3 ({_EXTRA}), a public bucket AWS_SKIP_SIGNATURE=true"
        return f"no credentials are found in the environment or of this machine; {hint}: {text}"
    if _NO_PERMISSION.search(text):
        return f"no permission{place} (or, in a bucket that may not be listed, no such object): {text}"
    if _UNREACHABLE.search(text):
        return f"the service cannot be reached{place}: {text}"
    return f"cannot be {action}{place}: {text}"
