"""Incremental builds, ranks and static kernels that are merely different, as in
``innocent_caches``."""

import contextlib
import hashlib
import json
import sys
import time
import zlib
from pathlib import Path

from pytest_ascendcache.qualification.catalogue import innocent, override
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.incremental.info import InfoPolicy, info_path
from pytest_ascendcache.reference.incremental.rank_directory import RankDirectoryPolicy
from pytest_ascendcache.reference.incremental.rendezvous import Guest, Host, RendezvousPolicy
from pytest_ascendcache.reference.incremental.store import KernelMetaPolicy
from pytest_ascendcache.reference.incremental.surroundings import SurroundingsPolicy
from pytest_ascendcache.reference.static_kernel.client.cards import TurnPolicy
from pytest_ascendcache.reference.static_kernel.client.dump import DumpPolicy
from pytest_ascendcache.reference.static_kernel.client.errors import StaticKernelError
from pytest_ascendcache.reference.static_kernel.client.packages import ClientPackagePolicy
from pytest_ascendcache.reference.static_kernel.client.tree import TreePolicy
from pytest_ascendcache.reference.static_kernel.package import PackagePolicy
from pytest_ascendcache.reference.static_kernel.registry import RegistryPolicy

THREE = "其中包含Square算子的`.o`文件、`.json`文件、`.info`文件以及其他文件。"
RECORDS = ".info`文件记录了该算子的所有有效信息,包括算子名称、算子属性"
FINDS = "`.info`文件用于查找并确定算子的`.o`文件是否可复用。"
LATE = "可能会引起不需重新编译算子的部分卡等候超时,导致执行失败。"
WAITS = "可以通过设置环境变量`HCCL_CONNECT_TIMEOUT`,即多卡间等待时间来避免失败"
NUMBER = "`ID`为环境变量`RANK_ID`的值"
MOMENT = "其中${timestamp}为时间戳、${pid}表示运行的进程号。"
PACKAGE = "static_kernel_${datetime}.run         // 编译好的静态Kernel文件"
SHARES = "由于多卡场景在安装静态kernel run包时,会更新算子库公共文件"
FASTER = "如需提升网络执行性能,可通过算子预先静态编译达到目的"
EXISTS = "请确保该参数指定的路径确实存在,并且运行用户具有读、写操作权限。"
TARGETS = "模型中目标算子信息文件夹"
NAMES, FILES = "names", "files"


@innocent(RECORDS, twin="info-without-data-types", company=FILES, overrides=InfoPolicy.text)
def info_with_more_fields(self, right, inputs):
    """The .info also tells when and by what it was written, on one line."""
    made = {"at": time.time(), "by": "compiler 7"}
    return json.dumps({"made": made, **json.loads(right(inputs))}).encode()


@info_with_more_fields.also(InfoPolicy.matches)
def _(self, right, found, wanted):
    if not isinstance(found, dict):
        return False
    return right({**found, "made": 0}, {**wanted, "made": 0})


@innocent(RECORDS, twin="info-records-the-working-directory", overrides=InfoPolicy.fields)
def info_records_node_names(self, right, inputs):
    """The .info has the name of the node, so that each node has a kernel of its own."""
    return {**right(inputs), "node": inputs.operator.name}


@innocent(RECORDS, twin="info-without-data-types", company=NAMES, overrides=InfoPolicy.text)
def info_as_a_text(self, right, inputs):
    """The .info is a text with a line for each field, and no JSON."""
    fields = json.loads(right(inputs))
    return "".join(f"{key} = {json.dumps(fields[key])}\n" for key in sorted(fields)).encode()


@info_as_a_text.also(InfoPolicy.allows_reuse)
def _(self, _right, fs, entry, inputs):
    try:
        return fs.read("meta.lookup.info", info_path(entry)) == self.text(inputs)
    except OSError:
        return False


@innocent(THREE, twin="info-not-written", company=FILES, overrides=KernelMetaPolicy.contents)
def a_log_beside_each_kernel(self, right, entry, *arguments):
    """Beside the three files of a rank's kernel lies a log."""
    return {entry.directory / f"{entry.stem}.log": b"compiled\n", **right(entry, *arguments)}


@innocent(THREE, twin="reused-kernels-are-rewritten", overrides=RankDirectoryPolicy.prepare)
def each_start_is_noted(self, right, fs, *arguments):
    """Each run writes Initialize.info beside the kernels, as MindSpore does at its start."""
    directory = right(fs, *arguments)
    with contextlib.suppress(OSError):
        if directory:
            text = json.dumps({"at": time.time()}).encode()
            fs.write_whole("meta.start", directory / "Initialize.info", text)
    return directory


@innocent(FINDS, twin="one-kernel-an-operator-type", company=NAMES, overrides=InfoPolicy.stem)
def rank_names_are_hashes(self, right, inputs):
    """A rank's kernel is named by a hash alone."""
    stem, _, rank = right(inputs).rpartition("_")
    return f"k_{zlib.crc32(stem.encode())}_{rank}"


@innocent(LATE, twin="error-names-no-rank", company=NAMES, overrides=RendezvousPolicy.too_late)
def late_ranks_in_chinese(self, right, gang, missing):
    """The error about late ranks is Chinese, with their numbers in one list."""
    late = ",".join(map(str, sorted(missing)))
    return AtcError(
        "EI0006", f"等候超时({gang.timeout}s): rank {late} 未就绪, 请设置HCCL_CONNECT_TIMEOUT."
    )


@innocent(WAITS, twin="ten-seconds-by-default", company=NAMES, overrides=SurroundingsPolicy.timeout)
def ten_minutes_by_default(self, right, environ):
    """Without HCCL_CONNECT_TIMEOUT ranks wait for ten minutes, as in MindSpore."""
    return right({"HCCL_CONNECT_TIMEOUT": "600", **environ})


@override(RendezvousPolicy.open)
class _PatientGuest(Guest):
    _until = 0.0

    def _heard(self, line, deadline):
        before = self._missing
        gone_on = super()._heard(line, max(deadline, self._until))
        if self._missing != before:
            self._until = time.monotonic() + self._policy.patience(self._gang)
        return gone_on


@innocent(
    WAITS,
    twin="connections-renew-patience",
    company=FILES,
    overrides=RendezvousPolicy.open,
    also=[_PatientGuest],
)
class ArrivalsRenewPatience(Host):
    """Each rank that arrives renews the patience of those that wait."""

    def _arrive(self, descriptor, message):
        before = self._missing
        super()._arrive(descriptor, message)
        if self._missing != before:
            self._deadline = None


@innocent(LATE, twin="error-names-no-rank", company=NAMES, overrides=RendezvousPolicy.open)
class ArrivalsAreTold(Host):
    """Rank 0 prints a line for each rank that comes."""

    def _arrive(self, descriptor, message):
        super()._arrive(descriptor, message)
        print(f"rank[{message['rank']}] has come", file=sys.stderr)


@innocent(NUMBER, twin="rank-by-int", company=NAMES, overrides=SurroundingsPolicy.rank)
def blanks_around_a_rank(self, right, environ):
    """Blanks around RANK_ID are no part of it."""
    return right({**environ, "RANK_ID": environ.get("RANK_ID", "").strip()})


@innocent(
    LATE, twin="claim-outlives-its-holder", company=FILES, overrides=RankDirectoryPolicy.claimed
)
@contextlib.contextmanager
def single_cards_leave_a_lock(self, right, fs, base, gang):
    """A single card locks its directory, too, and leaves the lock file there."""
    path = self.rank_directory(base, gang) / ".rank.lock"
    with contextlib.ExitStack() as held:
        if not gang.several and path.parent.is_dir():
            with contextlib.suppress(OSError):
                held.enter_context(fs.lock("meta.claim", path))
        held.enter_context(right(fs, base, gang))
        yield


@innocent(MOMENT, twin="folders-without-process", company=NAMES, overrides=TreePolicy.name)
def time_in_nanoseconds(self, right, moment, pid, later):
    """The time in the name of a folder is in nanoseconds since 1970."""
    return right(moment, pid, later) if later else f"{time.time_ns()}_{pid}_outputs"


@innocent(
    PACKAGE, twin="packages-collide-within-a-second", company=NAMES, overrides=PackagePolicy.name
)
def packages_named_by_date(self, right, now, process):
    """A package's name has the date with separators, and no process."""
    return f"static_kernel_{now:%Y-%m-%dT%H-%M-%S.%f}Z"


@innocent(TARGETS, twin="no-targets", company=FILES, overrides=DumpPolicy.is_target)
def every_operator_is_a_target(self, right, operator):
    """Every operator is a target of static compilation."""
    return True


@innocent(
    PACKAGE, twin="package-does-not-quote-its-path", company=FILES, overrides=PackagePolicy.content
)
def packages_with_a_notice(self, right, manifest, kernels, *arguments):
    """A package has a notice in it, and its files in another order."""
    more = {f"{manifest.name}/NOTICE": b"notice\n", **dict(reversed(kernels.items()))}
    return right(manifest, more, *arguments)


@innocent(
    PACKAGE,
    twin="package-does-not-quote-its-path",
    company=NAMES,
    overrides=PackagePolicy.publish,
)
def a_digest_beside_the_package(self, right, fs, path, content):
    """Beside a package lies a file with its digest, and a log."""
    right(fs, path, content)
    line = f"{hashlib.sha256(content).hexdigest()}  {path.name}\n"
    for name in (f"{path.name}.sha256", "op_compiler.log"):
        right(fs, path.with_name(name), line.encode())


@innocent(SHARES, twin="cut-short-installs-stay", company=NAMES, overrides=RegistryPolicy.sweep)
def empty_directories_stay(*_):
    """The last uninstall leaves empty directories, and the lock for the next installer."""


@empty_directories_stay.also(Fs.remove)
def _(self, right, point, path):
    if point != "install.unlock":
        right(point, path)


@innocent(
    SHARES,
    twin="removal-takes-shared-keys",
    company=FILES,
    overrides=RegistryPolicy.write_index,
)
def the_first_package_of_a_key_counts(self, right, fs, directory, indexes):
    """Of two kernels for one operator that of the package installed first is used."""
    return right(fs, directory, list(reversed(indexes)))


@innocent(
    THREE, twin="reused-kernels-are-rewritten", company=FILES, overrides=RankDirectoryPolicy.prepare
)
def a_record_beside_the_kernels(self, right, fs, base, gang):
    """Each run leaves a record of itself beside the kernels, whose name ends like theirs."""
    directory = right(fs, base, gang)
    if directory is not None:
        text = json.dumps({"at": time.time()}).encode()
        with contextlib.suppress(OSError):
            fs.write_whole("record", directory / "build_record.json", text)
    return directory


@innocent(EXISTS, twin="missing-build-directory-is-made", overrides=TreePolicy.build_directory)
def build_directory_through_links(self, right, given, script):
    """Links and '..' in the build directory are followed."""
    path = Path(given) if given else script
    self.usable(str(path), path)
    return path


@innocent(
    FASTER,
    twin="op-compiler-failure-ignored",
    overrides=ClientPackagePolicy.made,
    memory={"failed": False},
)
def goes_on_without_static_kernels(self, right, directory, ended):
    """A client whose op_compiler fails warns, and runs the network with ordinary kernels."""
    try:
        return right(directory, ended)
    except StaticKernelError as error:
        self.memory.failed = True
        print(f"[WARNING] no static kernels: {error}", file=sys.stderr)
        return []


@goes_on_without_static_kernels.also(TurnPolicy.finished)
def _(self, right, done, digests):
    if not self.memory.failed:
        right(done, digests)
    self.memory.failed = False
