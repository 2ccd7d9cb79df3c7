"""Operator caches that are merely different: the documents leave each of these free.

``freedom`` is the sentence that leaves it, ``twin`` the defect next to it, on the other side of the
line. Innocents of one ``company`` are one toolchain in quick runs, so they must not get in each
other's way; those that would are judged alone.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
import sys
import time
from dataclasses import replace
from pathlib import Path

from pytest_ascendcache.qualification.catalogue import Override, defect, innocent
from pytest_ascendcache.reference.cache.aging import IDLE_NS, AgingPolicy, Unit
from pytest_ascendcache.reference.cache.directory import DirectoryPolicy
from pytest_ascendcache.reference.cache.entry import (
    LOCK_NAME,
    EntryFiles,
    LookupPolicy,
    StorePolicy,
)
from pytest_ascendcache.reference.cache.fs import FileAct, Fs, LockUnavailable
from pytest_ascendcache.reference.cache.key import KeyPolicy
from pytest_ascendcache.reference.cache.limits import LimitPolicy
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.errors import AtcError, invalid_path
from pytest_ascendcache.reference.impl_mode import (
    DEFAULT_MODE,
    ImplementationPolicy,
    ImplModeTable,
)
from pytest_ascendcache.reference.installation import InstallationPolicy
from pytest_ascendcache.reference.options import OptionPolicy
from pytest_ascendcache.reference.outputs import OutputPolicy

SECOND = 10**9
PLACE = "如果要自行指定算子编译磁盘缓存的路径,则需要通过--op_compiler_cache_dir参数指定。"
SPARES = "启用后可以避免针对相同编译参数及算子参数的算子重复编译,从而提升编译速度。"
STORES = "即先删除已有缓存,再重新编译并加入缓存。"
AGES = "且超过半小时缓存文件未被访问时,缓存文件就会老化"
RENEWS = "此时访问算子缓存时不会更新访问时间"
INI = "ATC工具运行后,会在--op_compiler_cache_dir参数指定路径下自动生成op_cache.ini文件"
UNIT = "限制某个芯片下缓存文件夹的磁盘空间的大小,单位为MB"
BANK = "如果算子调优后知识库变更,则需要通过设置为force来刷新缓存"
BOTH = "取值都有效时,op_cache.ini文件才会生效。"
LOG = "编译过程日志无法完整记录。"
PARALLEL = "所以不建议在程序并行编译时设置,否则可能会导致其他模型使用的缓存内容被清除而导致失败。"
LINES = "每一行设置一个算子的精度模式"
OFFERED = "不在该文件中的实现模式不支持配置。"
OWN = "高性能是指在float16输入的情况下,不影响网络精度前提的最优性能实现。"
MODE = "enable:表示启用算子编译缓存。"
ADDED = "通过--optypelist_for_implmode参数指定新增的具体算子"
NAMES, FILES, TIMES, HABITS = "names", "files", "times", "habits"


# Names and places.


@innocent(
    INI,
    twin="disable-creates-directory",
    company=FILES,
    overrides=ImplementationPolicy.select,
)
def ini_in_every_mode(self, right, options, environ):
    """op_cache.ini is made in the directory that is named, also where the cache is not used."""
    selected = right(options, environ)
    if options.cache_dir and options.cache_mode == "disable":
        with contextlib.suppress(OSError, AtcError):
            root = DirectoryPolicy().root(options.cache_dir, environ)
            root.mkdir(parents=True, exist_ok=True)
            with (root / "op_cache.ini").open("x") as file:
                file.write("[op_compiler_cache]\n")
    return selected


@innocent(
    LINES, twin="a-line-twice-is-no-line", company=HABITS, overrides=ImplementationPolicy.enter
)
def last_of_two_lines(self, right, modes, key, mode):
    """Of two lines for one operator in a precision file the last one counts."""
    modes[key] = mode


@innocent(
    OFFERED, twin="unsupported-mode-in-key", company=HABITS, overrides=ImplementationPolicy.select
)
def unlisted_modes_are_refused(self, right, options, environ):
    """A precision file is refused that gives a type a mode which is listed for others alone."""
    selected = right(options, environ)
    for kind, mode in selected.table.by_type.items() if options.precision_mode else ():
        if mode not in selected.offered.get(kind, (mode,)):
            raise AtcError("E20003", f"[{kind}] does not support the mode [{mode}].")
    return selected


@innocent(ADDED, twin="type-list-ignored", company=HABITS, overrides=ImplementationPolicy.table)
def modes_in_layers(self, right, options, environ):
    """Operators that neither a precision file nor a type list names keep what the table of
    --op_select_implmode, or of the default, says."""
    upper = right(options, environ)
    below = self.built_in(options.impl_mode or DEFAULT_MODE, environ)
    offered = self.offered(environ)
    named = {kind: mode for kind, mode in upper.by_type.items() if mode in offered.get(kind, ())}
    return ImplModeTable({**below.by_type, **named}, upper.by_name)


@innocent(
    MODE, twin="mode-in-capitals-is-disable", company=HABITS, overrides=OptionPolicy.cache_mode
)
def modes_in_any_case(self, right, value):
    """A cache mode may be written in capitals, with blanks around it."""
    return right(value.strip().lower())


@innocent(PLACE, twin="key-without-type", company=HABITS, overrides=KeyPolicy.stem)
def names_are_hashes(self, right, inputs):
    """An entry's name is a hash alone, without the operator's type."""
    return f"kernel_{right(inputs).rpartition('_')[2]}"


@innocent(
    PLACE,
    twin="halves-stay",
    overrides=(LookupPolicy.verified, LookupPolicy.renew),
)
def entries_in_sub_directories(self, right, fs, entry, *arguments):
    """Entries lie in sub-directories by the end of their names."""
    return right(fs, _below(entry), *arguments)


@entries_in_sub_directories.also(StorePolicy.replace_pair)
def _(self, right, fs, entry, *arguments):
    fs.make_directories("store.mkdir", _below(entry).directory)
    right(fs, _below(entry), *arguments)


@entries_in_sub_directories.also(StorePolicy.is_current)
def _(self, right, fs, entry, metadata):
    return right(fs, _below(entry), metadata)


def _below(entry: EntryFiles) -> EntryFiles:
    return replace(entry, directory=entry.directory / entry.stem[-2:])


@innocent(PLACE, twin="temporary-files-stay", company=NAMES, overrides=Fs.temporary_path)
def temporary_files_with_short_names(self, right, target):
    """Temporary files are called tmp and a random number, and nobody knows their writers."""
    if "kernel_cache" not in target.parts:
        return right(target)
    return target.with_name(f"tmp{secrets.token_hex(8)}")


@innocent(PLACE, twin="loser-leaves-residue", company=FILES, overrides=Fs.temporary_path)
def temporary_files_in_a_directory(self, right, target):
    """Temporary files lie in a directory of their own."""
    place = target.parent / ".tmp"
    if "kernel_cache" not in target.parts:
        return right(target)
    self.make_directories("temporary.make", place)
    return place / right(target).name


# Contents.


@innocent(PLACE, twin="metadata-is-believed", company=FILES, overrides=StorePolicy.metadata_text)
def metadata_with_more_fields(self, right, data, metadata):
    """Metadata also tell user, time and host, on one line."""
    made = {"created": time.time(), "host": os.uname().nodename, "user": os.getuid()}
    return json.dumps({**json.loads(right(data, metadata)), "made": made}).encode()


@metadata_with_more_fields.also(LookupPolicy.metadata_matches)
def _(self, right, metadata, expected):
    return right({key: each for key, each in metadata.items() if key != "made"}, expected)


@innocent(PLACE, twin="object-left-behind", company=FILES, overrides=StorePolicy.replace_pair)
def a_log_beside_each_entry(self, right, fs, entry, data, metadata):
    """Beside object and metadata of an entry lies a log of its compile."""
    right(fs, entry, data, metadata)
    with contextlib.suppress(FileExistsError):
        log = entry.directory / f"{entry.stem}.log"
        fs.write_new("store.log", log, b"compiled\n" * 5)


@a_log_beside_each_entry.also(AgingPolicy.belongs_to)
def _(self, right, path):
    return path.with_suffix("") if path.suffix == ".log" else right(path)


@innocent(PLACE, twin="object-left-behind", company=TIMES, overrides=StorePolicy.replace_pair)
def compile_information_beside_each_entry(self, right, fs, entry, data, metadata):
    """Beside object and metadata of an entry lies a file whose name continues the entry's."""
    right(fs, entry, data, metadata)
    with contextlib.suppress(FileExistsError):
        beside = entry.directory / f"{entry.stem}_compute.json"
        fs.write_new("store.compute", beside, b"{}\n")


@compile_information_beside_each_entry.also(AgingPolicy.belongs_to)
def _(self, right, path):
    return right(path.with_name(path.name.replace("_compute.json", ".json")))


@innocent(SPARES, twin="serves-an-altered-kernel", overrides=InstallationPolicy.tuning)
def tuned_by_chance(self, right, *arguments):
    """Every run tunes kernels anew, by chance: they differ in bytes, and compute the same."""
    return right(*arguments) or _ByChance()


class _ByChance(dict):  # type: ignore[type-arg]
    def get(self, key, default=None):
        return {"tile": 4 + os.urandom(1)[0] % 60}


@innocent(
    OWN, twin="sigmoid-always-approximate", overrides=InstallationPolicy.load_custom_operators
)
def numbers_of_its_own(self, right, environ):
    """High precision of Tanh is off by more than 1 ulp, and high performance of Sigmoid by less."""
    right(environ)
    from pytest_ascendcache.reference.kernels import functions as f
    from pytest_ascendcache.reference.kernels.elementwise import elementwise

    @elementwise("Tanh", two_implementations=True)
    def tanh(op, x):
        return f.tanh(x) * 1.0003 if op.precise else f.rough_tanh(x)

    @elementwise("Sigmoid", two_implementations=True)
    def sigmoid(op, x):
        return f.sigmoid(x) if op.precise else f.sigmoid(x) * 1.0001


@innocent(PLACE, twin="links-are-written-through", company=NAMES, overrides=Fs.replace)
def published_by_links(self, right, point, source, target):
    """What is new gets its name by a hard link instead of a rename."""
    if source.is_dir() or os.path.lexists(target):
        right(point, source, target)
    else:
        self.step(point, FileAct.LINK, source, target=target)
        os.link(source, target)
        self.remove(f"{point}.source", source)


@innocent(PLACE, twin="files-for-everyone", company=NAMES)
class FilesForOneUser(Fs):
    """Files and directories of the cache are for their owner alone."""

    file_mode = 0o600
    directory_mode = 0o700


@innocent(PLACE, twin="directories-for-everyone", company=FILES)
class FilesToBeReadByAll(Fs):
    """All users may read files and directories of the cache."""

    file_mode = 0o644
    directory_mode = 0o755


# Keys.


@innocent(SPARES, twin="key-with-process-id", company=HABITS, overrides=KeyPolicy.fields)
def user_and_machine_in_the_key(self, right, inputs):
    """User and machine are in the key."""
    return {**right(inputs), "user": os.getuid(), "machine": os.uname().nodename}


@innocent(
    BANK,
    twin="knowledge-base-remembered",
    company=HABITS,
    overrides=InstallationPolicy.tuning,
    memory={"known": {}},
    keeps=("cache-mode/force-applies-knowledge-base",),
)
def knowledge_base_in_the_key(self, right, *arguments):
    """The knowledge base is in the key."""
    self.memory.known = right(*arguments)
    return self.memory.known


@knowledge_base_in_the_key.also(KeyPolicy.fields)
def _(self, right, inputs):
    return {**right(inputs), "tuning": self.memory.known.get(inputs.operator.type)}


@innocent(
    STORES,
    twin="downgrade-keeps-the-cache",
    company=TIMES,
    overrides=InstallationPolicy.load_custom_operators,
    memory={"version": ""},
)
def version_in_the_key(self, right, environ):
    """The toolchain's version is in the key, and another version removes nothing."""
    self.memory.version = self.stamp(environ)
    right(environ)


@version_in_the_key.also(KeyPolicy.fields)
def _(self, right, inputs):
    return {**right(inputs), "version": self.memory.version}


@version_in_the_key.also(PurgePolicy.upgrade)
def _(self, right, *arguments):
    return True


# Times: storing, aging, renewing.


@innocent(
    STORES,
    twin="stores-nothing",
    company=TIMES,
    overrides=StorePolicy.publish,
    memory={"waiting": []},
)
def stores_after_delivering(self, right, *arguments, **named):
    """A kernel is stored after it was delivered."""
    self.memory.waiting.append(lambda: right(*arguments, **named))
    return True


def _then_what_waits(self, right, *arguments):
    delivered = right(*arguments)
    while self.memory.waiting:
        self.memory.waiting.pop(0)()
    return delivered


stores_after_delivering.also(OutputPolicy.deliver, OutputPolicy.deliver_model)(_then_what_waits)


@innocent(
    AGES, twin="never-ages", company=HABITS, overrides=AgingPolicy.age, memory={"waiting": []}
)
def ages_after_the_first_kernel(self, right, *arguments):
    """Aging comes after the first kernel was delivered, and not before the first lookup."""
    self.memory.waiting.append(lambda: right(*arguments))
    return []


ages_after_the_first_kernel.also(OutputPolicy.deliver, OutputPolicy.deliver_model)(_then_what_waits)


@innocent(
    AGES, twin="never-ages", company=HABITS, overrides=AgingPolicy.age, memory={"waiting": []}
)
def ages_before_it_stores(self, right, *arguments):
    """A run that only reuses ages nothing."""
    self.memory.waiting.append(lambda: right(*arguments))
    return []


@ages_before_it_stores.also(StorePolicy.publish)
def _after_what_waits(self, right, *arguments, **named):
    while self.memory.waiting:
        self.memory.waiting.pop(0)()
    return right(*arguments, **named)


@innocent(AGES, twin="idle-after-a-day", company=HABITS, overrides=AgingPolicy.is_idle)
def a_minute_more(self, right, unit, now_ns):
    """Entries age a minute after they may."""
    return right(unit, now_ns - 60 * SECOND)


@innocent(
    AGES,
    twin="idle-in-whole-hours",
    company=TIMES,
    overrides=AgingPolicy.is_idle,
    keeps=("aging/boundaries",),
)
def idle_in_whole_seconds(self, right, unit, now_ns):
    """Idle time is counted in whole seconds."""
    return now_ns // SECOND - unit.accessed_ns // SECOND > IDLE_NS // SECOND


@innocent(
    "当编译缓存空间大小达到ASCEND_MAX_OP_CACHE_SIZE设置的取值",
    twin="ages-below-the-limit",
    company=TIMES,
    overrides=AgingPolicy.is_passed,
)
def reached_is_passed(self, right, size, limits):
    """Aging begins once the limit is reached."""
    return size >= limits.size


@innocent(UNIT, twin="limit-in-32-bits", company=HABITS, overrides=AgingPolicy.is_passed)
def a_megabyte_is_a_million_bytes(self, right, size, limits):
    """A megabyte is a million bytes."""
    return right(size * 2**20 // 10**6, limits)


@a_megabyte_is_a_million_bytes.also(AgingPolicy.retained)
def _(self, right, size, limits):
    return right(size, limits) * 10**6 // 2**20


@innocent(UNIT, twin="orphans-do-not-count", company=NAMES, overrides=AgingPolicy.choose)
def sizes_in_blocks(self, right, units, limits, now_ns):
    """The space that files take on disk counts, as for du."""
    rounded = {Unit(tuple(map(_in_blocks, each.files))): each for each in units}
    return [rounded[each] for each in right([*rounded], limits, now_ns)]


def _in_blocks(seen):
    with contextlib.suppress(OSError):
        return replace(seen, size=seen.path.lstat().st_blocks * 512 if seen.size else 0)
    return seen


@innocent(RENEWS, twin="serves-once", company=TIMES, overrides=Fs.renew_access_time)
def a_hit_touches_the_files(self, right, point, path):
    """A hit renews access and modification time together, as touch does."""
    os.utime(path, follow_symlinks=False)


def _aging_by(seen_as):
    """Parts with which ``seen_as`` says when a file was used last."""

    def used(unit):
        return Unit(tuple(map(seen_as, unit.files)))

    return (
        Override(AgingPolicy.scan, lambda self, right, *where: [*map(used, right(*where))]),
        Override(AgingPolicy.is_unused, lambda self, right, fs, unit: used(unit) == unit),
    )


def _as_changed(seen):
    with contextlib.suppress(OSError):
        return replace(seen, accessed_ns=seen.path.lstat().st_mtime_ns)
    return seen


@innocent(
    RENEWS,
    twin="age-by-change",
    overrides=Fs.renew_access_time,
    also=_aging_by(_as_changed),
)
def uses_are_changes(self, right, point, path):
    """A hit sets the modification time, by which entries age; access times do not matter."""
    os.utime(path, follow_symlinks=False)


@innocent(RENEWS, twin="hit-does-not-renew", company=FILES, overrides=LookupPolicy.renew)
def a_hit_renews_the_object(self, right, fs, entry):
    """A hit renews the access time of the object, not that of the metadata."""
    with contextlib.suppress(OSError):
        fs.renew_access_time("lookup.renew", entry.object)


@innocent(PARALLEL, twin="locks-of-entries-kept", overrides=LookupPolicy.find)
def a_lock_beside_each_entry(self, right, fs, entry, *more):
    """Each lookup opens a lock of its entry for writing, which says nothing about its uses."""
    with contextlib.suppress(OSError):
        if entry.metadata.exists():
            lock = entry.metadata.with_suffix(".lock")
            fs.write_whole("entry.lock", lock, b"")
    return right(fs, entry, *more)


@innocent(PARALLEL, twin="loser-leaves-residue", overrides=LookupPolicy.find)
def a_lock_for_two_digits_of_keys(self, right, fs, entry, *more):
    """Entries whose keys begin with the same two digits share a lock, which stays."""
    lock = entry.metadata.with_name(f".op_cache_{entry.metadata.stem.rpartition('_')[2][:2]}.lock")
    with contextlib.suppress(OSError):
        if entry.metadata.parent.is_dir() and not lock.exists():
            fs.write_whole("entry.lock", lock, b"")
    return right(fs, entry, *more)


@innocent(RENEWS, twin="variable-stops-renewals", overrides=StorePolicy.replace_pair)
def a_group_file_is_used(self, right, fs, entry, *more):
    """A file lists those of an entry, as Triton's groups do. Its access time is the last use."""
    listed = json.dumps({"child_paths": [entry.object.name, entry.metadata.name]}).encode()
    fs.write_whole("store.group", _group_of(entry), listed)
    right(fs, entry, *more)


@a_group_file_is_used.also(LookupPolicy.renew)
def _(self, right, fs, entry):
    if _group_of(entry).exists():
        with contextlib.suppress(OSError):
            fs.renew_access_time("lookup.renew", _group_of(entry))
    else:
        right(fs, entry)


@a_group_file_is_used.also(AgingPolicy.belongs_to)
def _(self, right, path):
    return right(path.with_name(path.name.removeprefix("__grp__")))


def _group_of(entry):
    return entry.metadata.with_name(f"__grp__{entry.metadata.name}")


def _as_recorded(seen):
    try:
        return replace(seen, accessed_ns=int(_record(seen.path).read_text()))
    except (OSError, ValueError):
        return seen


@innocent(
    RENEWS,
    twin="uses-are-noted-now-and-then",
    overrides=LookupPolicy.renew,
    also=_aging_by(_as_recorded),
)
def uses_in_a_file_of_its_own(self, right, fs, entry):
    """The last use of an entry is written in a file beside it; times of files do not matter."""
    with contextlib.suppress(OSError):
        _note(fs, entry)


@uses_in_a_file_of_its_own.also(AgingPolicy.belongs_to)
def _(self, right, path):
    return path.with_suffix("") if path.suffix == ".used" else right(path)


@uses_in_a_file_of_its_own.also(StorePolicy.replace_pair)
def _(self, right, fs, entry, *arguments):
    right(fs, entry, *arguments)
    _note(fs, entry)


def _note(fs, entry):
    fs.write_whole("lookup.note", _record(entry.metadata), str(time.time_ns()).encode())


def _record(path: Path) -> Path:
    return path.with_suffix(".used")


@defect(
    overrides=AgingPolicy.scan,
    also=[uses_in_a_file_of_its_own],
    keeps=("aging/needs-both", "aging/oldest-first", "aging/keeps-ratio", "combinations/outcome"),
)
def uses_in_files_alone(self, right, fs, directory):
    """An entry's last use is in a file beside it, and without one it was used when written."""
    return [Unit(tuple(map(_as_written, unit.files))) for unit in right(fs, directory)]


def _as_written(seen):
    known = _record(seen.path).exists() or seen.path.suffix == ".used"
    return seen if known else replace(seen, accessed_ns=seen.path.lstat().st_mtime_ns)


@innocent(
    RENEWS,
    twin="links-are-aged",
    company=HABITS,
    overrides=Fs.read,
    keeps=("security/no-symlink-follow",),
)
def a_hit_through_a_link_renews(self, right, point, path):
    """A hit through a link renews the access times of the link's target."""
    return right(point, path.resolve() if point.startswith("lookup.") else path)


@a_hit_through_a_link_renews.also(LookupPolicy.renew)
def _(self, right, fs, entry):
    for path in (entry.metadata, entry.object):
        with contextlib.suppress(OSError):
            os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))


# Damage, locks, force.


@innocent(STORES, twin="damaged-entries-stay", company=HABITS, overrides=LookupPolicy.find)
def damaged_entries_are_moved_aside(self, right, fs, entry, expected):
    """A damaged object is moved into a directory for those who look for the cause."""
    data = right(fs, entry, expected)
    with contextlib.suppress(OSError, ValueError):
        if data is None and json.loads(entry.metadata.read_bytes()) and entry.object.is_file():
            aside = entry.directory / "damaged"
            aside.mkdir(fs.directory_mode, exist_ok=True)
            entry.metadata.unlink()
            entry.object.rename(aside / f"{entry.stem}.{secrets.token_hex(4)}.o")
    return data


@innocent(STORES, twin="damaged-entries-fail", company=TIMES, overrides=LookupPolicy.find)
def damaged_entries_go_at_once(self, right, fs, entry, expected):
    """What is damaged is removed before it is compiled again."""
    data = right(fs, entry, expected)
    if data is None:
        with contextlib.suppress(OSError), fs.lock("store.lock", entry.lock):
            if right(fs, entry, expected) is None:
                for path in (entry.metadata, entry.object):
                    path.unlink(missing_ok=True)
    return data


@innocent(PARALLEL, twin="writers-append", company=NAMES, overrides=Fs.lock)
def no_locks(self, right, point, path, *more):
    """Entries are not locked: whole files get their names by renames."""
    if point in ("meta.claim", "upgrade.lock"):  # ranks and versions
        return right(point, path, *more)
    self.step(point, FileAct.STATE, path)
    return contextlib.nullcontext()


@innocent(PARALLEL, twin="a-store-trusts-its-lock", company=FILES, overrides=Fs._acquire)
def locks_of_records(self, right, descriptor, path, deadline):
    """Locks are those of records (fcntl), not of files."""
    while True:
        try:
            return fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            if time.monotonic() >= deadline:
                raise LockUnavailable(errno.EAGAIN, "held", str(path)) from None
            time.sleep(0.002)


@innocent(STORES, twin="force-removes-the-directory", company=FILES, overrides=PurgePolicy.empty)
def force_renames_first(self, right, fs, directory):
    """Force moves what it removes into a directory first."""
    trash = directory / f".{secrets.token_hex(8)}"
    fs.make_directories("purge.make", trash)
    for entry in fs.entries("purge.list", directory):
        if entry.name not in (LOCK_NAME, trash.name):
            fs.replace("purge.rename", Path(entry.path), trash / entry.name)
    right(fs, directory)


# Habits.


@innocent(PLACE, twin="relative-directory-from-home", overrides=DirectoryPolicy._checked)
def refuses_relative_directories(self, right, text, origin):
    """A relative cache directory is refused."""
    if not text.startswith("/"):
        raise invalid_path(text, origin, "it is relative; write it from the root")
    return right(text, origin)


@innocent(PLACE, twin="linked-directory-is-not-used", overrides=DirectoryPolicy._checked)
def refuses_linked_directories(self, right, text, origin):
    """A cache directory that is a link is refused."""
    if Path(text).is_symlink():
        raise invalid_path(text, origin, "it is a link; name the directory itself")
    return right(text, origin)


@innocent(PLACE, twin="unstored-fails", company=HABITS, overrides=DirectoryPolicy._checked)
def refuses_open_directories(self, right, text, origin):
    """A cache directory that every user may write is refused."""
    with contextlib.suppress(OSError):
        if Path(text).stat().st_mode & 0o002:
            raise invalid_path(text, origin, "every user may write it; take that right away")
    return right(text, origin)


@innocent(INI, twin="ini-without-section", company=NAMES, overrides=Fs.write_temporary)
def ini_with_notes(self, right, point, target, data):
    """The generated op_cache.ini explains both keys in comments."""
    notes = (
        "# 缓存上限, 单位为MB\n#max_op_cache_size=500\n# 保留比例\n#remain_cache_size_ratio=50\n"
    )
    return right(point, target, data + notes.encode() if point == "open.ini" else data)


@innocent(
    BOTH,
    twin="empty-variable-is-here",
    company=HABITS,
    overrides=LimitPolicy.of_environment,
    keeps=("aging/bad-values", "aging/ini-beats-environment"),
)
def an_empty_limit_is_not_set(self, right, environ, warnings):
    """An empty limit counts as not set, without a warning."""
    names = self.edition.variables
    given = {key: value for key, value in environ.items() if value or key not in names}
    return right(given, warnings)


@innocent(INI, twin="ini-without-section", company=FILES, overrides=Fs.write_temporary)
def ini_with_the_documents_limits(self, right, point, target, data):
    """The op_cache.ini that a run makes has the limits that the document prints."""
    limits = b"max_op_cache_size=500\nremain_cache_size_ratio=80\n"
    return right(point, target, data + limits if point == "open.ini" else data)


@innocent(LOG, twin="bad-values-in-silence", company=NAMES, overrides=LimitPolicy.bad_variable)
def warns_in_chinese(self, right, name, value, valid):
    """Warnings about limits are Chinese."""
    return f"W40012: 环境变量{name}的取值[{value}]无效, 已使用默认值"


@innocent(
    LOG,
    twin="working-directory-litter",
    company=TIMES,
    overrides=InstallationPolicy.load_custom_operators,
)
def talks_much(self, right, environ):
    """Every run prints a megabyte, among it the words error, failed and reuse."""
    for stream in (sys.stdout, sys.stderr):
        stream.write("[EVENT] no error; 0 failed; 复用 reuse, compile, cache hit, miss\n" * 8000)
    right(environ)


@innocent(
    PLACE, twin="what-debugging-left-is-served", company=FILES, overrides=OutputPolicy.kept_files
)
def debugging_keeps_more(self, right, stem, *arguments):
    """Debugging keeps a log of each kernel, too."""
    return {**right(stem, *arguments), f"{stem}.log": b"compiled\n"}
