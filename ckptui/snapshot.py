"""A copy of the training state in one buffer that every save uses again.

The copy of a save is made while the next forward and backward pass run, which only read the
weights; whoever changes them waits for it first. Tensors of one file lie side by side in the
buffer, so that the file is written from it as it stands.

torch is imported inside functions only; `Any` stands for its types.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from typing import TYPE_CHECKING, Any

from ckptui.tensor_files import in_file_order, size_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Files = Mapping[str, Mapping[str, Any]]
    """Name of a file -> name of a tensor -> the tensor."""

_ALIGNMENT = 64
"""Bytes; more than any dtype needs, and what processors copy best."""


def so_far(tensors: Iterable[Any]) -> dict[Any, Any]:
    """CUDA device -> an event after all that the present stream of it was given so far.

    To be called by the thread that trains: a copy in another thread begins after these.
    """
    import torch  # noqa: PLC0415 - there is a tensor

    devices = {tensor.device for tensor in tensors if tensor.is_cuda}
    return {device: torch.cuda.current_stream(device).record_event() for device in devices}


def samples(tensor: Any) -> bytes | None:
    """Some bytes of a tensor's beginning, middle and end; None where they cannot be had quickly.

    Changes through `.data` or numpy count no version; those of a whole tensor show here.
    """
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        return None
    size, start = size_of(tensor), tensor.data_ptr()
    if size <= 3 * _SAMPLE:
        return ctypes.string_at(start, size)
    places = (start, start + size // 2, start + size - _SAMPLE)
    return b"".join(ctypes.string_at(place, _SAMPLE) for place in places)


_SAMPLE = 64
"""Bytes."""


class Buffer:
    """Memory for one copy of the state: made by the first copy, used again by the later ones."""

    def __init__(self) -> None:
        self._memory: Any = None
        self._pinned = False
        self._outline: list[Any] = []
        """What the places are for: the files, and of each tensor its name, shape and dtype."""
        self._places: dict[str, dict[str, Any]] = {}
        """File -> name of a tensor -> its place in the memory, as a tensor like it."""
        self._streams: dict[Any, Any] = {}

    @property
    def size(self) -> int:
        """Bytes that are held."""
        return 0 if self._memory is None else int(self._memory.numel())

    def copy(self, files: Files, begun: Mapping[Any, Any]) -> Copy:
        """Copy the tensors of some files into the buffer, in place of what it held.

        Those on the CPU are copied when this returns; for those on a CUDA device the copy is under
        way on a stream of its own, see `Copy`.

        Args:
            files: The tensors; nothing may change them until the copy is made.
            begun: From `so_far`.
        """
        self._make_places(files, pinned=bool(begun))
        copy = Copy(files, self._places)
        for file, tensors in files.items():
            places = self._places[file]
            for name, source in tensors.items():
                if source.is_cuda:
                    self._copy_aside(copy, places[name], source, begun)
                else:
                    _copy(places[name], source)
        copy.events = [stream.record_event() for stream in copy.streams.values()]
        return copy

    def reserve(self, files: Files, *, pinned: bool) -> None:
        """Take the memory for a copy of such files now: pages that are new cost much more."""
        self._make_places(files, pinned=pinned)
        ctypes.memset(self._memory.data_ptr(), 0, self.size)

    def _make_places(self, files: Files, *, pinned: bool) -> None:
        """Lay the buffer out for these tensors; mostly it is so already, from the save before."""
        outline = [
            (file, [(name, t.shape, t.dtype) for name, t in tensors.items()])
            for file, tensors in files.items()
        ]
        if outline == self._outline and pinned <= self._pinned:
            return
        self._outline, self._places = [], {}
        sizes = {file: sum(map(size_of, tensors.values())) for file, tensors in files.items()}
        total = sum(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes.values())
        if total > self.size or pinned > self._pinned:
            self._memory = None  # first give back, then take
            self._memory = _allocate(total, pinned=pinned)
            self._pinned = pinned
        start = 0
        for file, tensors in files.items():
            position = start
            places = self._places[file] = {}
            for name in in_file_order(tensors):
                size = size_of(tensors[name])
                part = self._memory[position : position + size]
                places[name] = part.view(tensors[name].dtype).view(tensors[name].shape)
                position += size
            start += -(-sizes[file] // _ALIGNMENT) * _ALIGNMENT
        self._outline = outline

    def _copy_aside(self, copy: Copy, into: Any, source: Any, begun: Mapping[Any, Any]) -> None:
        """Copy a CUDA tensor on a stream of its own, after what its device has been given to do."""
        import torch  # noqa: PLC0415 - there is a tensor

        device = source.device
        stream = copy.streams.get(device)
        if stream is None:
            stream = self._streams.get(device)
            if stream is None:
                stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
                self._streams[device] = stream
            stream.wait_event(begun[device])
            copy.streams[device] = stream
        with torch.cuda.stream(stream):
            into.copy_(source, non_blocking=True)


class Copy:
    """One copy in the buffer."""

    def __init__(self, source: Files, files: Files) -> None:
        self._source: Files | None = source
        """Kept until the copy is made: freed memory could be given to something else."""
        self.files = files
        """The tensors of each file, in the buffer."""
        self.streams: dict[Any, Any] = {}
        """Device -> the stream on which its tensors are copied."""
        self.events: list[Any] = []
        """CUDA events: what changes the weights makes its stream wait for them."""

    def hold_back(self) -> None:
        """Make the current stream of every device wait for the copy; the CPU does not wait."""
        import torch  # noqa: PLC0415 - there is a tensor

        for device, event in zip(self.streams, self.events, strict=True):
            torch.cuda.current_stream(device).wait_event(event)

    def finish(self) -> None:
        """Wait until the copy is made."""
        for event in self.events:
            event.synchronize()
        self._source = None


def _copy(into: Any, source: Any) -> None:
    if source.device.type == "cpu" and source.is_contiguous():
        # One thread and no lock of the interpreter: torch's own copy would start a second pool of
        # threads, which competes with the one that trains.
        ctypes.memmove(into.data_ptr(), source.data_ptr(), size_of(source))
    else:
        into.copy_(source)


def _allocate(size: int, *, pinned: bool) -> Any:
    """Memory of `size` bytes, as a tensor."""
    import torch  # noqa: PLC0415 - there is a tensor

    if pinned:
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)
    if not size:
        return torch.empty(0, dtype=torch.uint8)
    if hasattr(mmap, "MAP_PRIVATE"):
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        # Large pages are taken faster; and a data worker that is forked needs none of this: it
        # would keep the old content alive whenever a save overwrites it.
        for advice in ("MADV_HUGEPAGE", "MADV_DONTFORK"):
            if hasattr(mmap, advice):
                with contextlib.suppress(OSError):
                    memory.madvise(getattr(mmap, advice))
    else:
        memory = mmap.mmap(-1, size)
    return torch.frombuffer(memory, dtype=torch.uint8)
