"""As much of ELF64 little endian as observation needs: bounds, and adding a note section.

x86-64 and AArch64 objects share this layout. Nothing here loads or runs an object.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_MAGIC = b"\x7fELF\x02\x01"
_SYMBOL = struct.Struct("<IBBHQQ")
_SHT_SYMTAB, _SHT_NOTE, _SHT_NOBITS = 2, 7, 8
_GLOBAL_FUNCTION = 0x12


class ElfError(ValueError):
    """Bytes that are not a complete ELF64 little-endian object."""


class _Section(NamedTuple):
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int

    def pack(self) -> bytes:
        return _SECTION.pack(*self)


@dataclass(frozen=True)
class _Elf:
    header: tuple[bytes, int, int, int, int, int, int, int, int, int, int, int, int, int]
    sections: tuple[_Section, ...]

    @property
    def machine(self) -> int:
        return self.header[2]

    @property
    def names_index(self) -> int:
        return self.header[13]

    @property
    def size(self) -> int:
        table = self.header[6] + len(self.sections) * _SECTION.size
        ends = [each.offset + each.size for each in self.sections if each.type != _SHT_NOBITS]
        return max([table, _HEADER.size, *ends])


def _parse(data: bytes | memoryview) -> _Elf:
    if len(data) < _HEADER.size or data[: len(_MAGIC)] != _MAGIC:
        raise ElfError("no ELF64 little-endian header")
    header = _HEADER.unpack_from(data)
    table, entry_size, count = header[6], header[11], header[12]
    if entry_size != _SECTION.size or not 0 < count < 0xFF00:
        raise ElfError("no section table")
    if table + count * _SECTION.size > len(data):
        raise ElfError("the section table lies outside the file")
    table_bytes = data[table : table + count * _SECTION.size]
    sections = tuple(map(_Section._make, _SECTION.iter_unpack(table_bytes)))
    elf = _Elf(header, sections)
    if elf.size > len(data):
        raise ElfError("a section lies outside the file")
    if elf.names_index >= count:
        raise ElfError("the section name table does not exist")
    return elf


def object_size(data: bytes | memoryview) -> int:
    """Bytes the object at the start of ``data`` occupies; every section lies within.

    Raises:
        ElfError: where ``data`` does not begin with a complete object.
    """
    return _parse(data).size


def machine(data: bytes) -> int:
    """The ``e_machine`` number: 62 for x86-64, 183 for AArch64."""
    return _parse(data).machine


def named_sections(data: bytes) -> tuple[tuple[bytes, int, int, bytes], ...]:
    """Name, type, flags and content of every section, in order; a section without content in the
    file has none.

    Raises:
        ElfError: where ``data`` is no complete object.
    """
    elf = _parse(data)
    names = elf.sections[elf.names_index]
    texts = data[names.offset : names.offset + names.size]
    return tuple(
        (
            texts[each.name : texts.find(b"\0", each.name)],
            each.type,
            each.flags,
            b"" if each.type == _SHT_NOBITS else data[each.offset : each.offset + each.size],
        )
        for each in elf.sections
    )


def object_extent(read: Callable[[int, int], bytes], available: int) -> int:
    """Bytes of an object of which only parts are in memory: ``read(offset, size)`` gives those of
    the ``available`` bytes from its first one on. Nothing but its two tables is read.

    Raises:
        ElfError: where no complete object begins there.
    """
    head = read(0, _HEADER.size)
    if len(head) < _HEADER.size or head[: len(_MAGIC)] != _MAGIC:
        raise ElfError("no ELF64 little-endian header")
    header = _HEADER.unpack(head)
    table, entry_size, count = int(header[6]), header[11], header[12]
    if entry_size != _SECTION.size or not 0 < count < 0xFF00:
        raise ElfError("no section table")
    end: int = table + count * _SECTION.size
    if end > available:
        raise ElfError("the section table lies outside the file")
    data = read(table, count * _SECTION.size)
    if len(data) < count * _SECTION.size:
        raise ElfError("the section table lies outside the file")
    for each in _SECTION.iter_unpack(data):
        section = _Section(*each)
        if section.type != _SHT_NOBITS:
            end = max(end, section.offset + section.size)
    if end > available:
        raise ElfError("a section lies outside the file")
    if header[13] >= count:
        raise ElfError("the section name table does not exist")
    return max(end, _HEADER.size)


def functions(data: bytes) -> tuple[str, ...]:
    """Names of the functions that an object defines for others, sorted.

    Raises:
        ElfError: where ``data`` is no complete object.
    """
    elf, found = _parse(data), set()
    for table in elf.sections:
        if table.type != _SHT_SYMTAB or table.link >= len(elf.sections):
            continue
        names = elf.sections[table.link]
        texts = data[names.offset : names.offset + names.size]
        for name, info, _, section, _, _ in _SYMBOL.iter_unpack(
            data[table.offset : table.offset + table.size // _SYMBOL.size * _SYMBOL.size]
        ):
            if info == _GLOBAL_FUNCTION and section:
                found.add(texts[name : texts.find(b"\0", name)].decode("utf-8", "replace"))
    return tuple(sorted(found))


MAGIC = _MAGIC
"""What every object begins with."""


def embedded_objects(data: bytes) -> Iterator[bytes]:
    """Every complete ELF object carried unchanged inside ``data``, first to last."""
    view = memoryview(data)
    start = data.find(_MAGIC)
    while start >= 0:
        try:
            size = object_size(view[start:])
        except ElfError:
            size = len(_MAGIC)
        else:
            yield data[start : start + size]
        start = data.find(_MAGIC, start + size)


def add_note(data: bytes, section: str, owner: str, description: bytes) -> bytes:
    """Append a non-loaded note section; loaders and linkers carry it along unread.

    Raises:
        ElfError: where ``data`` is no complete object.
    """
    elf = _parse(data)
    names = elf.sections[elf.names_index]
    name_bytes = data[names.offset : names.offset + names.size]
    new_names = name_bytes + section.encode() + b"\0"
    owner_bytes = owner.encode() + b"\0"
    note = struct.pack("<III", len(owner_bytes), len(description), 1)
    note += _padded(owner_bytes) + _padded(description)

    grown = bytearray(_padded(data, 8))
    note_offset = len(grown)
    grown += _padded(note, 8)
    names_offset = len(grown)
    grown += _padded(new_names, 8)
    table_offset = len(grown)
    for index, each in enumerate(elf.sections):
        if index == elf.names_index:
            each = each._replace(offset=names_offset, size=len(new_names))
        grown += each.pack()
    grown += _Section(
        name=len(name_bytes),
        type=_SHT_NOTE,
        flags=0,
        address=0,
        offset=note_offset,
        size=len(note),
        link=0,
        info=0,
        alignment=4,
        entry_size=0,
    ).pack()
    header = list(elf.header)
    header[6], header[12] = table_offset, len(elf.sections) + 1
    grown[: _HEADER.size] = _HEADER.pack(*header)
    return bytes(grown)


def rename_symbol(data: bytes, old: str, new: str) -> bytes:
    """Give a symbol another name, of any length; everything else stays.

    Raises:
        ElfError: where ``data`` is no complete object or has no such symbol.
    """
    elf = _parse(data)
    for table in elf.sections:
        if table.type != _SHT_SYMTAB or table.link >= len(elf.sections):
            continue
        names = elf.sections[table.link]
        texts = data[names.offset : names.offset + names.size]
        for offset in range(table.offset, table.offset + table.size, _SYMBOL.size):
            name, *rest = _SYMBOL.unpack_from(data, offset)
            if texts[name : texts.find(b"\0", name)] != old.encode():
                continue
            # The grown string table goes to the end; its header is all that points at it.
            grown = bytearray(_padded(data, 8))
            place = len(grown)
            grown += texts + new.encode() + b"\0"
            _SYMBOL.pack_into(grown, offset, len(texts), *rest)
            moved = names._replace(offset=place, size=len(grown) - place)
            header = elf.header[6] + table.link * _SECTION.size
            grown[header : header + _SECTION.size] = moved.pack()
            return bytes(grown)
    raise ElfError(f"no symbol is called {old!r}")


def _padded(data: bytes, alignment: int = 4) -> bytes:
    return data + b"\0" * (-len(data) % alignment)
