"""Datasets of the Hugging Face Hub, or of a directory laid out as one, as rows.

Hides the `datasets` library, an optional extra: rows are streamed, nothing is copied to the disk, and what is read is
the commit that was found when the run was planned, whatever the branch points to meanwhile.
"""

import hashlib
import re
from collections.abc import Callable, Generator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from runner.errors import ConfigError, ItemError
from runner.items_config import Hub

from .files import Row
from .table_reader import arrow_rows

_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
_TIMEOUT_S = 20.0
_BATCH = 512
_MAX_NAMES = 20
_DISK_DATASET, _DISK_SPLITS = "state.json", "dataset_dict.json"
"""What `save_to_disk` writes: into the directory of one split, of several."""

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class DatasetSource:
    """One split of a dataset."""

    hub: Hub
    directory: Path | None
    """Where it lies, if on this machine's disk."""
    commit: str | None
    """What is read of the Hub's."""
    system: str | None = None

    @property
    def name(self) -> str:
        parts = [str(self.directory or self.hub.path), self.hub.config, self.hub.split]
        return " ".join(part for part in parts if part)

    def stamp(self) -> dict[str, Any]:
        """The commit; of a directory a digest of its files' names, sizes and times."""
        if self.directory is None:
            return {"path": self.hub.path, "revision": self.commit}
        digest = hashlib.blake2b(digest_size=16)
        files = sorted(path for path in self.directory.rglob("*") if path.is_file())
        for path in files:
            status = path.stat()
            digest.update(f"{path.relative_to(self.directory)}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
        return {"path": self.hub.path, "files": len(files), "digest": digest.hexdigest()}

    def rows(self) -> Generator[Row, None, None]:
        import datasets

        has_bars = not datasets.are_progress_bars_disabled()
        datasets.disable_progress_bars()  # the library's own, between ours
        try:
            split = self._select_split(_translate_errors(self._open, datasets.exceptions.DatasetNotFoundError))
        finally:
            if has_bars:
                datasets.enable_progress_bars()
        number = 0
        try:
            for batch in split.with_format("arrow").iter(batch_size=_BATCH):
                for row in arrow_rows(batch):
                    number += 1
                    yield number, row
        except Exception as error:  # of the network, the file system, Arrow or the format: each library has its own
            raise ItemError(f"items.hf: {self.name}: cannot be read after row {number}: {_short(error)}") from None

    def _open(self) -> Any:
        import datasets

        if self.directory is not None and (self.directory / _DISK_DATASET).is_file():
            return datasets.DatasetDict({"": datasets.load_from_disk(str(self.directory))})
        if self.directory is not None and (self.directory / _DISK_SPLITS).is_file():
            return datasets.load_from_disk(str(self.directory))
        location = self.hub.path if self.directory is None else str(self.directory)
        try:
            return datasets.load_dataset(location, self.hub.config, revision=self.commit, streaming=True)
        except ValueError as error:
            # Of several configs none is named, or the named one does not exist; else the files themselves are wrong.
            names = datasets.get_dataset_config_names(location, revision=self.commit)
            if self.hub.config in names or (self.hub.config is None and len(names) == 1):
                raise ConfigError(f"items.hf.path: {self.hub.path}: cannot be read: {_short(error)}") from None
            problem = "must name one" if self.hub.config is None else f"there is no config {self.hub.config!r}"
            raise ConfigError(f"items.hf.config: {problem} of {self.hub.path}: {_join_names(names)}") from None

    def _select_split(self, splits: Any) -> Any:
        """The split that the config names, without its images and sounds, which no judge reads."""
        import datasets

        name = self.hub.split
        if name is None and len(splits) == 1:
            name = next(iter(splits))
        if list(splits) == [""] and self.hub.split is not None:
            raise ConfigError(f"items.hf.split: {self.hub.path} was saved as one split without a name; leave split out")
        if name is None or name not in splits:
            problem = "must name one" if name is None else f"there is no split {name!r}"
            raise ConfigError(f"items.hf.split: {problem} of {self.hub.path}: {_join_names(list(splits))}")
        split = splits[name]
        media = (datasets.Image, datasets.Audio, datasets.Video)
        dropped = [column for column, kind in (split.features or {}).items() if isinstance(kind, media)]
        if dropped and isinstance(split, datasets.IterableDataset):
            split = split.decode(False)  # or they are decoded before they are left out
        return split.remove_columns(dropped) if dropped else split


def dataset_source(hub: Hub, base: Path) -> DatasetSource:
    """The dataset with its commit; ConfigError where there is none, or the extra is not installed."""
    # Looked for, not imported: that takes seconds, and a run with nothing to do only asks for the commit.
    if find_spec("datasets") is None:
        raise ConfigError("items.hf needs the datasets library: pip install 'jurybox[hf]'")
    directory = base / hub.path
    if directory.is_dir():
        if hub.revision is not None:
            raise ConfigError(f"items.hf.revision: {directory} is a directory on disk, which has no revisions")
        return DatasetSource(hub, directory, None)
    if directory.is_file():
        raise ConfigError(f"items.hf.path: {directory} is a file; name it under items.path")
    if not _HUB_NAME.fullmatch(hub.path):
        raise ConfigError(f"items.hf.path: there is no directory {directory}, and no dataset of the Hub is named so")
    return DatasetSource(hub, None, _translate_errors(lambda: _find_commit(hub)))


def _find_commit(hub: Hub) -> str:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RevisionNotFoundError

    if hub.revision is not None and _COMMIT.fullmatch(hub.revision):
        return hub.revision
    api = HfApi()
    try:
        commit = api.dataset_info(hub.path, revision=hub.revision, timeout=_TIMEOUT_S).sha
    except RevisionNotFoundError:
        refs = api.list_repo_refs(hub.path, repo_type="dataset")
        names = [ref.name for ref in (*refs.branches, *refs.tags)]
        raise ConfigError(
            f"items.hf.revision: there is no revision {hub.revision!r} of {hub.path}: {_join_names(names)}"
        ) from None
    if commit is None:
        raise ConfigError(f"items.hf.path: the Hub names no commit of {hub.path}")
    return commit


def _translate_errors(call: Callable[[], _Result], *absent: type[Exception]) -> _Result:
    """The libraries' answer; their errors become ConfigErrors. `absent`: errors that mean there is no dataset."""
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    missing: tuple[type[Exception], ...] = (RepositoryNotFoundError, *absent)
    try:
        return call()
    except ConfigError:
        raise
    except GatedRepoError as error:
        raise ConfigError(f"items.hf.path: access must be granted on the Hub first: {_short(error)}") from None
    except missing as error:
        raise ConfigError(
            f"items.hf.path: no such dataset on the Hub, or it is private and HF_TOKEN is not set: {_short(error)}"
        ) from None
    except Exception as error:  # httpx, OSError, pyarrow, yaml: what a dataset can fail with has no common root
        raise ConfigError(f"items.hf: cannot be opened: {_short(error)}") from None


def _join_names(names: list[str]) -> str:
    return ", ".join(names[:_MAX_NAMES]) + (", …" if len(names) > _MAX_NAMES else "") or "none"


def _short(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:300] + "…"
