"""Wrong limits: op_cache.ini, the environment, -1, and values that are not valid."""

import re
from contextlib import suppress
from dataclasses import replace

from pytest_ascendcache.qualification.catalogue import Override, defect, override
from pytest_ascendcache.reference.cache.aging import AgingPolicy
from pytest_ascendcache.reference.cache.directory import DirectoryPolicy
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.limits import (
    RATIO_KEY,
    RATIO_VARIABLE,
    SIZE_KEY,
    SIZE_VARIABLE,
    Found,
    LimitPolicy,
    Limits,
)
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.errors import AtcError

INI = "aging/creates-ini"
NEEDS_BOTH = "aging/needs-both"
MINUS_ONE = "aging/minus-one"
BOTH_KEYS = "aging/ini-needs-both-keys"
INI_FIRST = "aging/ini-beats-environment"
BAD = "aging/bad-values"
ALL_USERS = "aging/ini-for-all-users"


@override(LimitPolicy.find)
def remembers_the_run(self, right, fs, root, kernel_cache, environ):
    """Remembers the cache's root and the environment while limits are looked for."""
    self.memory.root, self.memory.environ = root, environ
    return right(fs, root, kernel_cache, environ)


@defect(INI, overrides=DirectoryPolicy.prepare)
def ini_not_created(self, right, fs, root, soc, *_):
    """op_cache.ini is not created."""
    fs.make_directories("open.mkdir", self.soc(root, soc))


@defect(INI, ALL_USERS, overrides=DirectoryPolicy.prepare)
def ini_one_level_down(self, right, fs, root, soc, origin):
    """op_cache.ini is in kernel_cache, as in CANN (T5)."""
    right(fs, self.kernel_cache(root), f"../{soc}", origin)


@ini_one_level_down.also(LimitPolicy.places)
def _(self, right, root, kernel_cache):
    return (kernel_cache / "op_cache.ini",)


@defect(INI, overrides=Fs.write_temporary)
def ini_without_section(self, right, point, target, data):
    """The created op_cache.ini has no section."""
    return right(point, target, b"" if point == "open.ini" else data)


@defect(INI, overrides=DirectoryPolicy.prepare)
def ini_written_anew(self, right, fs, root, soc, origin):
    """Every run overwrites op_cache.ini."""
    (root / "op_cache.ini").unlink(missing_ok=True)
    right(fs, root, soc, origin)


@defect(INI, overrides=PurgePolicy.upgrade)
def upgrade_resets_ini(self, right, fs, kernel_cache, stamp):
    """An upgrade overwrites op_cache.ini."""
    before = self.stamp(fs, kernel_cache / "version.info")
    if before not in (None, stamp):
        (kernel_cache.parent / "op_cache.ini").write_text("[op_compiler_cache]\n")
    return right(fs, kernel_cache, stamp)


@defect(ALL_USERS, overrides=LimitPolicy.of_file)
def ini_needs_version_keys(self, right, fs, path, *arguments):
    """A file without CANN's version keys does not count (T4)."""
    with suppress(OSError):
        text = path.read_text(errors="replace")
        if "\nadk_version=" not in text or "\nops_version=" not in text:
            return None
    return right(fs, path, *arguments)


@ini_needs_version_keys.also(Fs.write_temporary)
def _(self, right, point, target, data):
    if point == "open.ini":
        data += b"adk_version=7.7\nops_version=7.7\n"
    return right(point, target, data)


@defect(ALL_USERS, overrides=LimitPolicy.of_environment, also=[remembers_the_run])
def environment_is_written_down(self, right, environ, *arguments):
    """The limits of the environment are written to op_cache.ini, for every user."""
    limits = right(environ, *arguments)
    if SIZE_VARIABLE in environ:
        with (self.memory.root / "op_cache.ini").open("a") as file:
            file.write(
                f"[op_compiler_cache]\n{SIZE_KEY}={limits.megabytes}\n{RATIO_KEY}={limits.ratio}\n"
            )
    return limits


@defect(ALL_USERS, overrides=LimitPolicy.of_values, also=[remembers_the_run])
def ini_of_its_first_user(self, right, *arguments):
    """op_cache.ini counts only for its first user."""
    owner = self.memory.root / "kernel_cache" / "owner.lock"
    if not owner.exists():
        owner.write_text(self.memory.environ["HOME"])
    mine = owner.read_text() == self.memory.environ["HOME"]
    return right(*arguments) if mine else None


def _ini_does_not_count(if_spoiled):
    """op_cache.ini is ignored if its bytes are spoiled in some way."""

    def of_file(self, right, fs, path, *arguments):
        is_spoiled = path.exists() and if_spoiled(path.read_bytes())
        return None if is_spoiled else right(fs, path, *arguments)

    return Override(LimitPolicy.of_file, of_file)


@defect(BOTH_KEYS, found_later=True)
def ini_without_blanks():
    """op_cache.ini does not count with blanks around '='."""
    return [_ini_does_not_count(lambda data: b" = " in data or b"\t=" in data)]


@defect(BOTH_KEYS, found_later=True)
def ini_without_carriage_returns():
    """op_cache.ini does not count with carriage returns."""
    return [_ini_does_not_count(lambda data: b"\r" in data)]


@defect(MINUS_ONE, overrides=LimitPolicy.find)
def minus_one_purges(self, right, fs, root, kernel_cache, environ):
    """-1 is a size like others: every cache is larger and is emptied."""
    found = right(fs, root, kernel_cache, environ)
    return replace(found, limits=Limits(0, 1)) if found.limits.off else found


@defect(MINUS_ONE, overrides=LimitPolicy.find)
def minus_one_is_the_default(self, right, fs, root, kernel_cache, environ):
    """-1 means the default of 500 MB, which ages."""
    found = right(fs, root, kernel_cache, environ)
    return replace(found, limits=self.default) if found.limits.off else found


@defect(MINUS_ONE, overrides=AgingPolicy.renews)
def minus_one_renews(*_):
    """A hit renews the access time at -1, too."""
    return True


@defect("aging/hit-renews", overrides=AgingPolicy.renews, also=[remembers_the_run])
def variable_stops_renewals(self, right, limits):
    """-1 in the variable stops renewals where the file's limit counts, by which entries age."""
    return right(limits) and self.memory.environ.get(SIZE_VARIABLE) != "-1"


@defect(MINUS_ONE, overrides=LimitPolicy.of_values)
def minus_one_not_in_the_file(self, right, values, path, warnings):
    """-1 counts only in the environment, not in the file."""
    limits = right(values, path, warnings)
    return None if limits is None or limits.off else limits


@defect(NEEDS_BOTH, overrides=LimitPolicy.find, found_later=True)
def one_user_switches_off_for_all(self, right, fs, root, kernel_cache, environ):
    """A -1 of the environment is written to op_cache.ini, for every user."""
    found = right(fs, root, kernel_cache, environ)
    if environ.get(SIZE_VARIABLE) == "-1":
        with (root / "op_cache.ini").open("a") as file:
            file.write(f"{SIZE_KEY}=-1\n{RATIO_KEY}=50\n")
    return found


@defect(BOTH_KEYS, overrides=LimitPolicy.size, found_later=True)
def one_megabyte_is_no_limit(self, right, text):
    """A limit of 1 MB means no limit."""
    size = right(text)
    return -1 if size == 1 else size


def _completed(policy, values, other):
    """The limits of a file, in which other limits stand for a value that is missing or invalid."""
    size, ratio = policy.size(values.get(SIZE_KEY, "")), policy.ratio(values.get(RATIO_KEY, ""))
    if size is None and ratio is None:
        return None
    return Limits(
        other.megabytes if size is None else size, other.ratio if ratio is None else ratio
    )


@defect(BOTH_KEYS, overrides=LimitPolicy.of_values)
def one_key_is_enough(self, right, values, *_):
    """One valid value is enough; the default stands for the other."""
    return _completed(self, values, self.default)


@defect(BOTH_KEYS, overrides=LimitPolicy.of_values, also=[remembers_the_run])
def half_a_file_is_mixed_in(self, right, values, *_):
    """A file with one valid value is mixed with the environment."""
    return _completed(self, values, self.of_environment(self.memory.environ, []))


@defect(BOTH_KEYS, overrides=LimitPolicy.of_values)
def half_a_file_hides_the_environment(self, right, values, path, warnings):
    """A file with one valid value hides the environment: the default counts."""
    return right(values, path, warnings) or self.default


@defect(INI_FIRST, overrides=LimitPolicy.find)
def environment_beats_ini(self, right, fs, root, kernel_cache, environ):
    """The environment beats the file."""
    if SIZE_VARIABLE in environ or RATIO_VARIABLE in environ:
        return Found(self.of_environment(environ, []))
    return right(fs, root, kernel_cache, environ)


@defect(INI_FIRST, overrides=LimitPolicy.of_environment)
def environment_does_not_count(self, *_):
    """The environment does not count."""
    return self.default


@defect(INI_FIRST, overrides=LimitPolicy.of_values, also=[remembers_the_run])
def smaller_limit_counts(self, right, *arguments):
    """The smaller of two limits counts, wherever it is set."""
    limits = right(*arguments)
    other = self.of_environment(self.memory.environ, [])
    if limits is None or limits.off or other.off:
        return limits
    return min(limits, other, key=lambda each: each.megabytes * each.ratio)


@defect(INI_FIRST)
class DefaultRatioOfTheExample(LimitPolicy):
    """By default 80 % are retained, as in the document's example file."""

    default = Limits(500, 80)


@defect(BAD, overrides=LimitPolicy.of_environment)
def junk_ratio_is_zero(self, right, environ, warnings):
    """A ratio that is no number counts as 0 %: everything idle is removed (T9)."""
    limits = right(environ, warnings)
    text = environ.get(RATIO_VARIABLE, "50")
    return limits if re.match(r"\s*[+-]?[0-9]", text) else replace(limits, ratio=0)


@defect(BAD, overrides=LimitPolicy.size)
def junk_size_is_zero(self, right, text):
    """A size that is no number counts as 0 MB."""
    size = right(text)
    return 0 if size is None else size


@defect(BAD, overrides=LimitPolicy.number)
def leading_digits_count(self, right, text):
    """The leading digits of a value count, whatever follows."""
    leading = re.match(r"\s*-?[0-9]+", text)
    return int(leading[0]) if leading else None


@defect(BOTH_KEYS, overrides=LimitPolicy.number, found_later=True)
def limits_in_octal(self, right, text):
    """A limit that begins with 0 is read as octal."""
    octal = re.fullmatch(r"0[0-7]+", text.strip(" \t\r"))
    return int(octal[0], 8) if octal else right(text)


@defect(NEEDS_BOTH, overrides=LimitPolicy.find)
def limit_in_32_bits(self, right, fs, root, kernel_cache, environ):
    """The limit in bytes is cut to 32 bits."""
    found = right(fs, root, kernel_cache, environ)
    size = found.limits.megabytes
    return replace(found, limits=replace(found.limits, megabytes=size % 4096 if size > 0 else size))


@defect(BAD, overrides=LimitPolicy.find)
def bad_values_in_silence(self, right, fs, root, kernel_cache, environ):
    """Bad values are ignored without a warning."""
    return Found(right(fs, root, kernel_cache, environ).limits)


@defect(BAD, overrides=LimitPolicy.find)
def bad_values_fail(self, right, fs, root, kernel_cache, environ):
    """A bad value fails the compile, and nothing names it."""
    found = right(fs, root, kernel_cache, environ)
    if found.warnings:
        raise AtcError("E10001", "Invalid configuration.")
    return found


@defect(ALL_USERS, overrides=LimitPolicy.of_file, found_later=True)
def ini_in_utf_8_alone(self, right, fs, path, said):
    """An op_cache.ini with a note that is no UTF-8 does not count."""
    with suppress(OSError):
        try:
            path.read_text("utf-8")
        except UnicodeDecodeError:
            return None
    return right(fs, path, said)


@defect(BOTH_KEYS, overrides=Fs.read, found_later=True)
def brackets_in_a_note_begin_a_section(self, right, point, path):
    """Brackets in a note of op_cache.ini begin a section, in which the values do not count."""
    data = right(point, path)
    return re.sub(rb"(?m)^#.*(\[.*\]).*$", rb"\1", data) if point == "limits.read" else data


@defect(BAD, overrides=LimitPolicy.ratio)
def ratio_of_zero_is_taken(self, right, text):
    """A ratio of 0 % is accepted."""
    return 0 if self.number(text) == 0 else right(text)


@defect(BAD, overrides=LimitPolicy.of_values)
def bad_ini_is_replaced(self, right, values, path, said):
    """An op_cache.ini with a bad value is replaced by one with the default values."""
    limits = right(values, path, said)
    if limits is None:
        sizes = f"{SIZE_KEY}={self.default.megabytes}", f"{RATIO_KEY}={self.default.ratio}"
        path.write_text("\n".join(("[op_compiler_cache]", *sizes, "")))
    return limits


@defect(ALL_USERS, overrides=LimitPolicy.places, also=[remembers_the_run], found_later=True)
def limits_are_sought_where_the_option_says(self, right, root, kernel_cache):
    """op_cache.ini does not count where a variable names the cache."""
    by_variable = str(root) == self.memory.environ.get("ASCEND_CACHE_PATH")
    return () if by_variable else right(root, kernel_cache)
