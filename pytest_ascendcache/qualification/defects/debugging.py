"""Debug switches that reach too far, or not far enough."""

from dataclasses import replace
from pathlib import Path

from pytest_ascendcache.qualification.catalogue import Override, defect, override
from pytest_ascendcache.qualification.defects.impl_modes import known_copy
from pytest_ascendcache.reference.cache.entry import EntryFiles, LookupPolicy
from pytest_ascendcache.reference.cache.key import KeyPolicy
from pytest_ascendcache.reference.debug import DebugFile, DebugPolicy, DebugRequest
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.mode import CacheUse, ModePolicy
from pytest_ascendcache.reference.options import OptionPolicy
from pytest_ascendcache.reference.outputs import OutputPolicy

LEVEL = "debug/level-bypasses"
CONFIG = "debug/config-bypasses"
LISTED = "debug/list-bypasses-listed"
UNLISTED = "debug/list-caches-unlisted"
NOT_CACHED = "debug/results-not-cached"
OUTPUTS = "debug/outputs"
BAD_FILE = "debug/rejects-bad-file"


def _keeping_cache_at(*levels):
    """Parts with which the cache is used at these debug levels."""

    def opens_cache(self, right, mode, level, config):
        return right(mode, 0 if level in levels else level, config)

    def request(self, right, operator, level, config):
        request = right(operator, level, config)
        return replace(request, active=False) if level in levels else request

    return Override(ModePolicy.opens_cache, opens_cache), Override(DebugPolicy.request, request)


@defect(LEVEL)
def levels_3_and_4_keep_cache():
    """Levels 3 and 4 keep the cache, as documents of 5.0.4 had it."""
    return _keeping_cache_at(3, 4)


@defect(LEVEL)
def level_1_keeps_cache():
    """Level 1 keeps the cache."""
    return _keeping_cache_at(1)


@defect("cache-mode/enable-reuses", overrides=OptionPolicy.parse)
def level_0_given_is_debugging(self, right, argv):
    """An explicit --op_debug_level=0 counts as debugging."""
    options = right(argv)
    return replace(options, debug_level=3) if "--op_debug_level=0" in argv else options


@defect(LEVEL, CONFIG, overrides=OptionPolicy.parse)
def debugged_beside_the_option_alone(self, right, argv):
    """Debug switches count only where an option names the cache directory."""
    options = right(argv)
    return options if options.cache_dir else replace(options, debug_level=0, debug_config="")


@defect(LEVEL, overrides=ModePolicy.opens_cache)
def level_lets_force_purge(self, right, mode, level, config):
    """Force purges although a debug level is set."""
    return mode == "force" or right(mode, level, config)


@override(ModePolicy.opens_cache)
def opens_unless_disabled(self, right, mode, *_):
    """The cache is opened while debugging, too."""
    return mode != "disable"


@override(KeyPolicy.fields)
def key_without_debug(self, right, inputs):
    """Debug kernels share the keys of normal kernels."""
    return right(replace(inputs, debug=DebugRequest()))


@defect(
    LEVEL, NOT_CACHED, overrides=ModePolicy.use, also=[opens_unless_disabled, key_without_debug]
)
def debug_kernels_stored(self, right, mode, debug):
    """Debug kernels are stored under the keys of normal ones."""
    return CacheUse(lookup=mode == "enable" and not debug.active, store=True)


@defect(NOT_CACHED, overrides=ModePolicy.use, also=[opens_unless_disabled, key_without_debug])
def normal_kernels_served_to_debugging(self, right, mode, debug):
    """A run that debugs gets normal kernels from the cache."""
    return replace(right(mode, debug), lookup=mode == "enable")


@defect(NOT_CACHED, overrides=LookupPolicy.find, found_later=True)
def what_debugging_left_is_served(self, right, fs, entry, metadata):
    """A kernel that a debug run left in kernel_meta is served if the cache has none."""
    data = right(fs, entry, metadata)
    if data is None:
        data = right(fs, EntryFiles(Path("kernel_meta").absolute(), entry.stem), metadata)
    return data


@defect(NOT_CACHED, overrides=KeyPolicy.stem, found_later=True)
def twins_share_a_kernel(self, right, inputs):
    """Of two equal nodes of a run, one of them listed, both get the debug kernel."""
    return right(replace(inputs, debug=DebugRequest()))


@defect(LISTED, overrides=KeyPolicy.stem, memory={"last": "", "looked_up": []}, found_later=True)
def twins_are_looked_up_once(self, right, inputs):
    """A listed operator is served from the cache if its unlisted twin was looked up before."""
    self.memory.last = right(inputs)
    return self.memory.last


@twins_are_looked_up_once.also(ModePolicy.use)
def _(self, right, mode, debug):
    use = right(mode, debug)
    if use.lookup:
        self.memory.looked_up.append(self.memory.last)
    return replace(use, lookup=self.memory.last in self.memory.looked_up)


@defect(UNLISTED, overrides=KeyPolicy.stem, memory={"seen": []}, found_later=True)
def twins_are_stored_once(self, right, inputs):
    """Of equal nodes of a run the first one alone is stored, also if it is listed."""
    self.memory.seen.append(right(inputs))
    return self.memory.seen[-1]


@twins_are_stored_once.also(ModePolicy.use)
def _(self, right, mode, debug):
    use, seen = right(mode, debug), self.memory.seen
    return replace(use, store=use.store and seen.count(seen[-1]) == 1)


@defect(CONFIG, overrides=ModePolicy.opens_cache)
def config_keeps_cache(self, right, mode, level, config):
    """A debug configuration does not change how the cache is used."""
    return right(mode, level, None)


@config_keeps_cache.also(ModePolicy.use)
def _(self, right, mode, debug):
    return right(mode, replace(debug, active=False))


@defect(CONFIG, overrides=DebugPolicy.parse)
def oom_keeps_cache(self, right, text, path):
    """The switch oom alone does not count as debugging."""
    config = right(text, path)
    harmless = config.switches == {"oom"} and config.listed is None
    return replace(config, listed=("nobody",)) if harmless else config


@defect(CONFIG, overrides=DebugPolicy.read, found_later=True)
def some_switches_keep_the_cache(self, right, path):
    """The switches dump_loc and check_flag alone do not count as debugging."""
    config = right(path)
    harmless = frozenset({"dump_loc", "check_flag"})
    if config and config.listed is None and config.switches <= harmless:
        return None
    return config


@defect(CONFIG, overrides=DebugPolicy.parse, found_later=True)
def no_debug_file_is_taken(self, right, text, path):
    """Every debug file is refused."""
    raise _invalid(path)


def _invalid(path):
    return AtcError("E20003", f"Configuration file [{path}] has invalid content.")


@defect(LISTED, overrides=DebugPolicy.read)
def debug_file_by_size_and_time(self, right, path):
    """A debug file of known path, size and time is not read again."""
    known = path and Path(path).is_file()
    return right(str(known_copy(Path(path), Path(path).parent)) if known else path)


@defect(UNLISTED, overrides=ModePolicy.opens_cache)
def list_disables_everything(self, right, mode, level, config):
    """With a debug list no operator uses the cache (T3)."""
    return config is None and right(mode, level, config)


@defect(UNLISTED, overrides=ModePolicy.opens_cache, memory={"debugs": False}, found_later=True)
def force_beside_a_list_keeps_the_rest(self, right, mode, level, config):
    """With a debug list force replaces what it compiles and removes nothing else."""
    self.memory.debugs = config is not None
    return right(mode, level, config)


@force_beside_a_list_keeps_the_rest.also(ModePolicy.purges)
def _(self, right, mode):
    return right(mode) and not self.memory.debugs


@defect(UNLISTED, overrides=DebugPolicy.matches)
def list_matches_by_prefix(self, right, item, operator):
    """An item of a debug list matches every name that begins with it."""
    name = operator.type if "::" in item else operator.name
    return name.startswith(item.rpartition("::")[2])


@defect(UNLISTED, overrides=DebugPolicy.matches)
def list_matches_bare_types(self, right, item, operator):
    """A type in a debug list matches without OpType:: too."""
    return item.rpartition("::")[2] in (operator.type, operator.name)


@defect(LISTED, overrides=DebugPolicy.matches)
def list_ignores_types(self, right, item, operator):
    """Only names of a debug list count."""
    return item == operator.name


@defect(LISTED, overrides=DebugPolicy.matches)
def list_ignores_names(self, right, item, operator):
    """Only types of a debug list count."""
    return item == f"OpType::{operator.type}"


@defect(LISTED, overrides=DebugPolicy.matches, found_later=True)
def list_in_any_case(self, right, item, operator):
    """A debug list matches in any letter case."""
    _, separator, kind = item.lower().partition("::")
    named = operator.type if separator else operator.name
    return kind == named.lower() or item.lower() == operator.name.lower()


@defect(LISTED, overrides=DebugPolicy.covers)
def list_of_one(self, right, operator, config):
    """Only the first item of a debug list counts."""
    return right(operator, replace(config, listed=config.listed[:1] if config.listed else None))


@defect(LISTED, overrides=DebugPolicy.parse, found_later=True)
def list_above_config_is_lost(self, right, text, path):
    """A debug list above op_debug_config is lost."""
    lines = text.splitlines()
    kept = [
        line
        for number, line in enumerate(lines)
        if not (
            line.startswith("op_debug_list")
            and any(later.startswith("op_debug_config") for later in lines[number:])
        )
    ]
    return right("\n".join(kept), path)


def _list_keeps(ending, is_kept):
    """The last item of a debug list keeps an ending if the file ``is_kept``."""

    def read(self, right, path):
        config = right(path)
        if config is None or config.listed is None or not is_kept(Path(path)):
            return config
        return DebugFile(config.switches, (*config.listed[:-1], f"{config.listed[-1]}{ending}"))

    return Override(DebugPolicy.read, read)


def _list_ends_in_a_blank(path):
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    return [line for line in lines if line.startswith("op_debug_list")][-1].endswith(" ")


@defect(LISTED, found_later=True)
def list_keeps_carriage_return():
    """The last item of a debug list keeps the carriage return."""
    return [_list_keeps("\r", lambda path: b"\r\n" in path.read_bytes())]


@defect(LISTED, found_later=True)
def list_keeps_trailing_blank():
    """A blank after the last item of a debug list belongs to the item."""
    return [_list_keeps(" ", _list_ends_in_a_blank)]


@defect(LISTED, overrides=DebugPolicy.parse, found_later=True)
def notes_are_no_debug_lines(self, right, text, path):
    """A debug file with a comment in it is refused."""
    if "#" in text:
        raise _invalid(path)
    return right(text, path)


@defect(LISTED, overrides=ModePolicy.use)
def listed_operators_stored(self, right, mode, debug):
    """Listed operators are compiled and then stored."""
    return replace(right(mode, debug), store=mode != "disable")


@defect("debug/list-without-options", overrides=DebugPolicy.parse)
def list_alone_disables_everything(self, right, text, path):
    """With a debug list and no switches no operator uses the cache."""
    config = right(text, path)
    return config if config.switches else replace(config, listed=None)


def _keeping(**changes):
    """Another request for the files that are kept."""
    return Override(
        OutputPolicy.kept_files,
        lambda self, right, stem, kernel, metadata, debug: right(
            stem, kernel, metadata, replace(debug, **changes)
        ),
    )


@defect(OUTPUTS)
def every_level_keeps_source():
    """Every level keeps the source."""
    return [_keeping(keep_source=True)]


@defect(OUTPUTS)
def no_level_keeps_locations():
    """No level keeps locations."""
    return [_keeping(keep_locations=False)]


@defect(OUTPUTS, overrides=DebugPolicy.request)
def level_0_keeps_kernel_meta(self, right, operator, level, config):
    """Level 0 keeps kernel_meta."""
    request = right(operator, level, config)
    return request if request.active else DebugRequest(active=True, keep_binary=True)


@defect(BAD_FILE, overrides=DebugPolicy.read)
def bad_debug_file_ignored(self, right, path):
    """A bad debug file is ignored."""
    try:
        return right(path)
    except AtcError:
        return None


@defect(BAD_FILE, overrides=DebugPolicy.parse)
def empty_value_disables_cache(self, right, text, path):
    """An empty value counts as debugging, without a message (T25)."""
    try:
        return right(text, path)
    except AtcError:
        return DebugFile(frozenset())


@defect("debug/list-bypasses-listed", overrides=DebugPolicy.parse, found_later=True)
def a_doubled_comma_ends_the_list(self, right, text, path):
    """What follows a doubled comma in op_debug_list is not read."""
    lines = (line.partition(",,")[0] for line in text.splitlines())
    return right("".join(f"{line}\n" for line in lines), path)
