"""As much of ELF64 little endian as observation needs: bounds, symbols, and adding a note section.

x86-64 and AArch64 objects share this layout. Nothing here loads or runs an object.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

MAGIC = b"\x7fELF\x02\x01"
"""The first bytes of every object."""

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SHT_SYMTAB, _SHT_NOTE, _SHT_NOBITS = 2, 7, 8
_GLOBAL_FUNCTION = 0x12


class ElfError(ValueError):
    """The data is not a complete ELF64 little-endian object."""


class _Header(NamedTuple):
    ident: bytes
    type: int
    machine: int
    version: int
    entry: int
    segment_table: int
    section_table: int
    flags: int
    header_size: int
    segment_size: int
    segment_count: int
    section_size: int
    section_count: int
    names_index: int


class _Section(NamedTuple):
    name: int
    type: int
    flags: int = 0
    address: int = 0
    offset: int = 0
    size: int = 0
    link: int = 0
    info: int = 0
    alignment: int = 0
    entry_size: int = 0


@dataclass(frozen=True)
class _Elf:
    header: _Header
    sections: tuple[_Section, ...]
    size: int
    """Bytes from the start to the end of the last part."""


def _not_elf(head: bytes | memoryview) -> str:
    """What there is instead of the header of an object."""
    if bytes(head).startswith(b"version https://git-lfs"):
        return "a pointer of git-lfs, whose object was not fetched: git lfs pull"
    return "no ELF64 little-endian header"


def _parse(data: bytes | memoryview) -> _Elf:
    return _read(lambda offset, size: data[offset : offset + size], len(data))


def _read(read: Callable[[int, int], bytes | memoryview], available: int) -> _Elf:
    """Parse the headers of an object, and check that all its parts are among ``available`` bytes.

    Only the headers are read: ``read(offset, size)`` returns bytes of the object.
    """
    head = read(0, _HEADER.size)
    if len(head) < _HEADER.size or head[: len(MAGIC)] != MAGIC:
        raise ElfError(_not_elf(head))
    header = _Header(*_HEADER.unpack(head))
    count, start = header.section_count, header.section_table
    if header.section_size != _SECTION.size or not 0 < count < 0xFF00:
        raise ElfError("no section table")
    size = count * _SECTION.size
    if start + size > available or len(table := read(start, size)) < size:
        raise ElfError("the section table lies outside the file")
    sections = tuple(map(_Section._make, _SECTION.iter_unpack(table)))
    ends = [each.offset + each.size for each in sections if each.type != _SHT_NOBITS]
    end = max([start + size, _HEADER.size, *ends])
    if end > available:
        raise ElfError("a section lies outside the file")
    if header.names_index >= count:
        raise ElfError("the section name table does not exist")
    return _Elf(header, sections, end)


def object_size(data: bytes | memoryview) -> int:
    """The size in bytes of the object at the start of ``data``, all its sections included.

    Raises ``ElfError`` if ``data`` does not begin with a complete object.
    """
    return _parse(data).size


def object_extent(read: Callable[[int, int], bytes], available: int) -> int:
    """Like :func:`object_size`, for an object of which only parts are in memory.

    ``read(offset, size)`` returns bytes of the object; at most ``available`` bytes exist. Only the
    header and the section table are read. Raises ``ElfError`` if no complete object begins there.
    """
    return _read(read, available).size


def check_extent(read: Callable[[int, int], bytes], available: int) -> None:
    """Raise ``ElfError`` unless a file of ``available`` bytes holds all parts of its object.

    Unlike :func:`object_extent` it looks at segments, too, takes an object without sections as
    loaders do, and builds nothing: an audit asks it about each of a million objects.
    """
    head = read(0, _HEADER.size)
    if len(head) < _HEADER.size or head[: len(MAGIC)] != MAGIC:
        raise ElfError(_not_elf(head))
    fields = _HEADER.unpack(head)
    segments, sections, count, number = fields[5], fields[6], fields[10], fields[12]
    if not count and not number:
        raise ElfError("no section table")
    if number and fields[13] >= number:
        raise ElfError("the section name table does not exist")
    for what, layout, start, many in (
        ("section", _SECTION, sections, number),
        ("segment", _SEGMENT, segments, count),
    ):
        if not many:
            continue
        size = many * layout.size
        if start + size > available or len(table := read(start, size)) < size:
            raise ElfError(f"the {what} table lies outside the file")
        for each in layout.iter_unpack(table):
            if layout is _SEGMENT:
                end = each[2] + each[5]
            else:
                end = 0 if each[1] == _SHT_NOBITS else each[4] + each[5]
            if end > available:
                raise ElfError(f"a {what} lies outside the file")


def named_sections(data: bytes) -> tuple[tuple[bytes, int, int, bytes], ...]:
    """Name, type, flags and content of every section, in order.

    The content is empty for a section that has none in the file. Raises ``ElfError`` if ``data`` is
    not a complete object.
    """
    elf = _parse(data)
    texts = _content(data, elf.sections[elf.header.names_index])
    return tuple(
        (_text(texts, each.name), each.type, each.flags, _content(data, each))
        for each in elf.sections
    )


def functions(data: bytes) -> tuple[str, ...]:
    """The sorted names of the functions that an object exports.

    Raises ``ElfError`` if ``data`` is not a complete object.
    """
    symbols = _symbols(data, _parse(data))
    names = {name.decode("utf-8", "replace") for _, _, name, exported in symbols if exported}
    return tuple(sorted(names))


def embedded_objects(data: bytes) -> Iterator[bytes]:
    """Every complete ELF object that is contained unchanged in ``data``, in order."""
    view = memoryview(data)
    start = data.find(MAGIC)
    while start >= 0:
        try:
            size = object_size(view[start:])
        except ElfError:
            size = len(MAGIC)
        else:
            yield data[start : start + size]
        start = data.find(MAGIC, start + size)


def add_note(data: bytes, section: str, owner: str, description: bytes) -> bytes:
    """Append a note section that is not loaded; loaders and linkers ignore it.

    Raises ``ElfError`` if ``data`` is not a complete object.
    """
    elf = _parse(data)
    names = _content(data, elf.sections[elf.header.names_index])
    new_names = names + section.encode() + b"\0"
    owner_bytes = owner.encode() + b"\0"
    note = struct.pack("<III", len(owner_bytes), len(description), 1)
    note += _padded(owner_bytes) + _padded(description)

    grown = bytearray(_padded(data, 8))
    note_offset = len(grown)
    grown += _padded(note, 8)
    names_offset = len(grown)
    grown += _padded(new_names, 8)
    note_section = _Section(
        name=len(names), type=_SHT_NOTE, offset=note_offset, size=len(note), alignment=4
    )
    sections = [*elf.sections, note_section]
    sections[elf.header.names_index] = elf.sections[elf.header.names_index]._replace(
        offset=names_offset, size=len(new_names)
    )
    header = elf.header._replace(section_table=len(grown), section_count=len(sections))
    grown += b"".join(_SECTION.pack(*each) for each in sections)
    grown[: _HEADER.size] = _HEADER.pack(*header)
    return bytes(grown)


def rename_symbol(data: bytes, old: str, new: str) -> bytes:
    """Rename a symbol. The new name may have any length; everything else stays the same.

    Raises ``ElfError`` if ``data`` is not a complete object or has no such symbol.
    """
    elf = _parse(data)
    symbols = _symbols(data, elf)
    places = [(link, offset) for link, offset, name, _ in symbols if name == old.encode()]
    if not places:
        raise ElfError(f"no symbol is called {old!r}")
    link, offset = places[0]
    # A longer string table is appended at the end; only its section header refers to it.
    names = elf.sections[link]
    texts = _content(data, names)
    grown = bytearray(_padded(data, 8))
    place = len(grown)
    grown += texts + new.encode() + b"\0"
    struct.pack_into("<I", grown, offset, len(texts))
    moved = names._replace(offset=place, size=len(grown) - place)
    _SECTION.pack_into(grown, elf.header.section_table + link * _SECTION.size, *moved)
    return bytes(grown)


def _symbols(data: bytes, elf: _Elf) -> Iterator[tuple[int, int, bytes, bool]]:
    """The symbols of all symbol tables.

    Each is the index of its string table, its offset in the file, its name, and whether it is an
    exported function.
    """
    for table in elf.sections:
        if table.type != _SHT_SYMTAB or table.link >= len(elf.sections):
            continue
        texts = _content(data, elf.sections[table.link])
        for index in range(table.size // _SYMBOL.size):
            offset = table.offset + index * _SYMBOL.size
            name, info, _, section, _, _ = _SYMBOL.unpack_from(data, offset)
            exported = info == _GLOBAL_FUNCTION and section != 0
            yield table.link, offset, _text(texts, name), exported


def _content(data: bytes, section: _Section) -> bytes:
    return (
        b"" if section.type == _SHT_NOBITS else data[section.offset : section.offset + section.size]
    )


def _text(texts: bytes, start: int) -> bytes:
    """The string that begins at ``start`` in a string table."""
    return texts[start : texts.find(b"\0", start)]


def _padded(data: bytes, alignment: int = 4) -> bytes:
    return data + b"\0" * (-len(data) % alignment)
