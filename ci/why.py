"""Plants causes of misses and scores what ``ascendcache-why`` says of them.

A plant starts from a cache that one run of the embedded reference has filled, and changes the
command, a file or the cache. What the answer has to name is the kinds of its causes, and the
operators of the first one where not all are missed. The score is read from the JSON report.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.operators.opinfo import OperatorInfo
from pytest_ascendcache.operators.opinfo_json import write_opinfo

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
ATC, WHY = BIN / "ascendcache-atc", BIN / "ascendcache-why"
SOC = "Ascend910B1"
HOUR = 3600


def operator(
    kind: str, name: str, *shape: int, dtype: str = "float32", inputs: int = 1
) -> dict[str, Any]:
    tensor = {"format": "ND", "shape": [*shape], "type": dtype}
    return {
        "op": kind,
        "name": name,
        "input_desc": [dict(tensor) for _ in range(inputs)],
        "output_desc": [dict(tensor)],
    }


OPERATORS = [
    operator("Add", "add", 8, 16, dtype="float16", inputs=2),
    operator("Mul", "mul", 8, 16, inputs=2),
    operator("Exp", "exp", 8, 16, dtype="float16"),
    operator("Relu", "relu", 4, 8),
    operator("Sigmoid", "sigmoid", 8, 16, dtype="float16"),
]


@dataclass
class Site:
    """A place with a filled cache: what a plant may change before the command runs."""

    at: Path
    options: dict[str, str]
    environment: dict[str, str]
    arguments: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    """The command, if it is none of atc."""
    kept: str = "cache"
    work: Path | None = None
    before: list[str] = field(default_factory=list)
    """What starts ``ascendcache-why``."""

    @property
    def cache(self) -> Path:
        return self.at / self.kept

    @property
    def chip(self) -> Path:
        return self.cache / "kernel_cache" / SOC

    def entry(self, kind: str, suffix: str = ".o") -> Path:
        return next(iter(self.chip.glob(f"te_{kind}_*{suffix}")))

    def file(self, name: str, text: str) -> str:
        path = self.at / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    def operators(self, change: Callable[[list[dict[str, Any]]], None]) -> None:
        made = json.loads(json.dumps(OPERATORS))
        change(made)
        self.options["singleop"] = self.file("changed.json", json.dumps(made))

    def record(self) -> None:
        """Record this place as it is now, and compare with it later."""
        path = self.at / "hits.why"
        self.why("--record", str(path))
        self.arguments += ["--against", str(path)]

    def argv(self) -> list[str]:
        words = [str(ATC), *(f"--{key}={value}" for key, value in self.options.items())]
        return self.words or words

    def run(self) -> None:
        done = subprocess.run(
            self.argv(), env=self.environment, cwd=self.at, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout

    def why(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        named = ["--cache", str(self.cache)] if self.kept else []
        words = [*self.before, str(WHY), *named, *arguments, "--"]
        return subprocess.run(
            [*words, *self.argv()],
            env=self.environment,
            cwd=self.work or self.at,
            capture_output=True,
            text=True,
        )


@dataclass(frozen=True)
class Plant:
    """``kinds`` are the causes in any order, () if all is served; ``operators`` are those of the
    first cause, or by kind where two come first alike; None for all that are compiled."""

    change: Callable[[Site], object]
    kinds: tuple[str, ...]
    operators: tuple[str, ...] | Mapping[str, tuple[str, ...]] | None = None
    before: Callable[[Site], object] = lambda _: None


def hits(_: Site) -> None:
    """Nothing is planted."""


def option(name: str, value: str | None) -> Callable[[Site], object]:
    def change(site: Site) -> None:
        site.options.pop(name, None)
        if value is not None:
            site.options[name] = value

    return change


def variable(name: str, value: str) -> Callable[[Site], object]:
    return lambda site: site.environment.__setitem__(name, value)


def both(*changes: Callable[[Site], object]) -> Callable[[Site], object]:
    return lambda site: [each(site) for each in changes]


def debug(text: str) -> Callable[[Site], object]:
    return lambda site: site.options.__setitem__("op_debug_config", site.file("debug.cfg", text))


def precision(text: str) -> Callable[[Site], object]:
    return lambda site: site.options.__setitem__("op_precision_mode", site.file("p.ini", text))


def package(version: str) -> Callable[[Site], object]:
    def change(site: Site) -> None:
        opp = site.at / "opp"
        if not opp.exists():
            shutil.copytree(ROOT / "pytest_ascendcache/reference/opp", opp)
        (opp / "version.info").write_text(f"Version={version}\n")
        site.environment["ASCEND_OPP_PATH"] = str(opp)

    return change


def toolkit(version: str) -> Callable[[Site], object]:
    return lambda site: site.environment.__setitem__(
        "ASCEND_TOOLKIT_HOME",
        str(Path(site.file("kit/version.info", f"Version={version}\n")).parent),
    )


def flipped(kind: str) -> Callable[[Site], object]:
    def change(site: Site) -> None:
        data = bytearray(site.entry(kind).read_bytes())
        data[len(data) // 2] ^= 1
        site.entry(kind).write_bytes(data)

    return change


def truncated(kind: str) -> Callable[[Site], object]:
    return lambda site: os.truncate(site.entry(kind), 100)


def removed(kind: str, suffix: str) -> Callable[[Site], object]:
    return lambda site: site.entry(kind, suffix).unlink()


def written(kind: str, suffix: str, text: str) -> Callable[[Site], object]:
    return lambda site: site.entry(kind, suffix).write_text(text)


def refused(kind: str) -> Callable[[Site], object]:
    def change(site: Site) -> None:
        path = site.entry(kind, ".json")
        path.write_text(json.dumps({**json.loads(path.read_text()), "blockDim": 7}))

    return change


def idle(site: Site) -> None:
    """Two large entries that nobody asks for, and entries that were idle for hours."""
    for number in range(2):
        stem = f"te_big_{number:064x}"
        with (site.chip / f"{stem}.o").open("wb") as file:
            file.truncate(2 << 20)
        (site.chip / f"{stem}.json").write_text("{}")
    for place, path in enumerate(
        sorted(site.chip.iterdir(), key=lambda each: "te_big" in each.name)
    ):
        then = time.time() - 9 * HOUR + place
        os.utime(path, (then, then))


def ini(site: Site) -> None:
    text = "[op_compiler_cache]\nmax_op_cache_size=1\nremain_cache_size_ratio=1\n"
    (site.cache / "op_cache.ini").write_text(text)


def moved(site: Site) -> None:
    site.chip.rename(site.at / "elsewhere")
    site.chip.symlink_to(site.at / "elsewhere")


def change(*names: str, **fields: object) -> Callable[[Site], object]:
    """Other fields of the tensors of some operators."""

    def edit(operators: list[dict[str, Any]]) -> None:
        for each in operators:
            for tensor in (
                [*each["input_desc"], *each["output_desc"]] if each["name"] in names else ()
            ):
                tensor.update(fields)

    return lambda site: site.operators(edit)


def one_more(site: Site) -> None:
    site.operators(lambda made: made.append(operator("Tanh", "tanh", 3, 5)))


def model(site: Site) -> None:
    """The command converts a model instead, and its kernels alone are in the cache."""
    path = site.at / "model.onnx"
    script = ROOT / "fixtures/onnx_models.py"
    subprocess.run([sys.executable, str(script), "resnet", str(path)], check=True)
    del site.options["singleop"]
    site.options.update(model=str(path), framework="5", output=str(site.at / "model"))
    shutil.rmtree(site.chip)
    site.run()


def bank(site: Site) -> None:
    """A knowledge base, which is no part of the key."""
    named = Path(site.file("bank/none.json", "{}")).parent
    site.environment["TUNE_BANK_PATH"] = str(named)


def spelled(site: Site) -> None:
    site.options["op_compiler_cache_dir"] = f"{site.at}/./cache/../cache/"


def linked(site: Site) -> None:
    (site.at / "link").symlink_to(site.cache)
    site.options["op_compiler_cache_dir"] = str(site.at / "link")


def old(site: Site) -> None:
    for path in site.chip.iterdir():
        os.utime(path, (0, 0))


def train(site: Site) -> None:
    """The command runs a network instead, and its kernels are in the cache."""
    site.words, site.kept = [str(BIN / "ascendcache-train"), "net.json"], "ms"
    network = json.loads((ROOT / "fixtures/networks/square.json").read_text())
    site.file("net.json", json.dumps(network))
    site.environment["MS_COMPILER_CACHE_PATH"] = str(site.cache)
    site.run()


def cut(site: Site) -> None:
    path = next(iter(site.cache.glob("rank_0/kernel_meta/*.o")))
    path.chmod(0o644)
    os.truncate(path, 100)


def delicate(site: Site) -> None:
    """A script that ends at half a metadata file, as MindSpore does, and one such file."""
    site.file(
        "delicate.sh",
        "#!/bin/sh\nfor each in $MS_COMPILER_CACHE_PATH/rank_0/kernel_meta/*.json; do\n"
        "[ ! -e $each ] || grep -q '}' $each || exit 1\ndone\n"
        f'exec {BIN / "ascendcache-train"} "$@"\n',
    )
    (site.at / "delicate.sh").chmod(0o755)
    site.words[0] = str(site.at / "delicate.sh")
    path = next(iter(site.cache.glob("rank_0/kernel_meta/*.json")))
    path.chmod(0o644)
    os.truncate(path, 20)


def other_network(site: Site) -> None:
    network = json.loads((site.at / "net.json").read_text())
    for tensor in network["tensors"]:
        tensor["shape"] = [each * 2 for each in tensor["shape"]]
    for name, value in network["constants"].items():
        network["constants"][name] = value * 2 if isinstance(value, list) else value
    site.file("net.json", json.dumps(network))


def shapes(site: Site, *wanted: OperatorInfo) -> None:
    shutil.rmtree(site.at / "shapes", ignore_errors=True)
    (site.at / "shapes").mkdir()
    for number, info in enumerate(wanted):
        write_opinfo(site.at / "shapes" / info.file_name(number), info)


def shape(kind: str, *extents: int) -> OperatorInfo:
    tensor = TensorDesc.of("float32", *extents)
    return OperatorInfo.of(OperatorSpec(kind, (tensor,), (tensor,)), "")


def static(site: Site) -> None:
    """The command makes a package instead, and one like it is installed."""
    compiler = str(BIN / "ascendcache-op-compiler")
    site.words = [compiler, "-p", "shapes", "-v", SOC, "-o", f"{site.at}/"]
    site.kept = "packages"
    site.cache.mkdir()
    site.environment["ASCEND_OPP_PATH"] = str(site.cache)
    shapes(site, shape("Relu", 4), shape("Exp", 8))
    site.run()
    (package,) = site.at.glob("*.run")
    subprocess.run([package], env=site.environment, cwd=site.at, check=True, capture_output=True)


def cut_package(site: Site) -> None:
    path = sorted(site.cache.rglob("Relu*.o"))[0]
    path.chmod(0o644)
    os.truncate(path, 60)


def prefixes(site: Site) -> None:
    """Two prefixes; the cache is made with the other one, which is named."""
    for name, version in (("one", "8.0.0"), ("two", "8.0.1")):
        package(version)(site)
        (site.at / "opp").rename(site.at / name)
        site.environment["ASCEND_OPP_PATH"] = str(site.at / name)
        if name == "one":
            site.run()
    site.arguments += ["--against-directory", str(site.at / "one")]


def programs(site: Site) -> None:
    """Two prefixes whose programs differ; the cache is made with that of the other one."""
    shutil.rmtree(site.chip)
    for name, more in (("one", "--op_select_implmode=high_precision"), ("two", "")):
        path = site.at / name / "bin/atc"
        path.parent.mkdir(parents=True)
        path.write_text(f'#!/bin/sh\nexec {ATC} "$@" {more}\n')
        path.chmod(0o755)
        site.words = [str(path), *site.argv()[1:]]
        if name == "one":
            site.run()
    site.arguments += ["--against-directory", str(site.at / "one")]


def caches(site: Site) -> None:
    """Another cache on this machine, and one that is empty."""
    site.cache.rename(site.at / "full")
    site.cache.mkdir()
    site.kept = ""
    site.arguments += ["--against-directory", str(site.at / "full")]


def release(site: Site) -> None:
    options = " ".join(f"--{key}={value}" for key, value in site.options.items())
    site.file("release.toml", f'name = "r"\natc = "{ATC} {options}"\n')
    site.arguments += ["--release", str(site.at / "release.toml")]


ALL = tuple(sorted(each["name"] for each in OPERATORS))
PRECISE = option("op_select_implmode", "high_precision")
RECORD = Site.record
OWN = ("*",)
"""Whatever operators the first cause has."""
PLANTS: Mapping[str, Plant] = {
    "hits": Plant(hits, ()),
    "hits-other-names": Plant(
        lambda site: site.operators(lambda made: made[0].update(name="sum")), ()
    ),
    "hits-other-bank": Plant(bank, ()),
    "hits-against-a-record": Plant(lambda site: variable("MY_OWN", "1")(site), (), before=RECORD),
    "hits-spelled-path": Plant(spelled, ()),
    "hits-through-a-link": Plant(linked, ()),
    "hits-old-times": Plant(old, ()),
    "hits-against-a-release": Plant(release, ()),
    "hits-train": Plant(hits, (), before=train),
    "hits-package": Plant(hits, (), before=static),
    "new-operator": Plant(one_more, ("new",), ("tanh",)),
    "mode-missing": Plant(option("op_compiler_cache_mode", None), ("mode",)),
    "mode-disable": Plant(option("op_compiler_cache_mode", "disable"), ("mode",)),
    "mode-force": Plant(option("op_compiler_cache_mode", "force"), ("force",)),
    "debug-level": Plant(option("op_debug_level", "1"), ("debug_level",)),
    "debug-level-3": Plant(option("op_debug_level", "3"), ("debug_level",)),
    "debug-config": Plant(debug("op_debug_config = oom\n"), ("debug_config",)),
    "debug-list-name": Plant(
        debug("op_debug_config = oom\nop_debug_list = add\n"), ("debug_config",), ("add",)
    ),
    "debug-list-type": Plant(
        debug("op_debug_config = oom\nop_debug_list = OpType::Exp\n"), ("debug_config",), ("exp",)
    ),
    "directory-option": Plant(
        option("op_compiler_cache_dir", "/nonexistent-cache"), ("directory",)
    ),
    "directory-variable": Plant(
        both(
            option("op_compiler_cache_dir", None),
            variable("ASCEND_CACHE_PATH", "/nonexistent-cache"),
        ),
        ("directory",),
    ),
    "directory-home": Plant(option("op_compiler_cache_dir", None), ("directory",)),
    "chip": Plant(option("soc_version", "Ascend910B2"), ("chip",)),
    "package-version": Plant(package("8.0.1"), ("stamp",), before=both(package("8.0.0"), Site.run)),
    "package-none-before": Plant(package("8.0.1"), ("stamp",)),
    "toolkit-version": Plant(toolkit("8.1.0"), ("stamp",)),
    "aged-by-file": Plant(both(idle, ini), ("aged",)),
    "aged-by-variable": Plant(
        both(
            idle,
            variable("ASCEND_MAX_OP_CACHE_SIZE", "1"),
            variable("ASCEND_REMAIN_CACHE_SIZE_RATIO", "1"),
        ),
        ("aged",),
    ),
    "flipped": Plant(flipped("add"), ("damaged",), ("add",)),
    "truncated": Plant(truncated("exp"), ("damaged",), ("exp",)),
    "no-metadata": Plant(removed("mul", ".json"), ("damaged",), ("mul",)),
    "no-object": Plant(removed("mul", ".o"), ("damaged",), ("mul",)),
    "bad-metadata": Plant(written("relu", ".json", "{"), ("damaged",), ("relu",)),
    "refused": Plant(refused("relu"), ("refused",), ("relu",)),
    "two-damaged": Plant(both(flipped("add"), truncated("exp")), ("damaged",), ("add", "exp")),
    "empty": Plant(lambda site: shutil.rmtree(site.chip), ("empty",)),
    "link": Plant(moved, ("link",)),
    "implmode": Plant(PRECISE, ("option",), ("exp",)),
    "implmode-back": Plant(
        option("op_select_implmode", None),
        ("option",),
        ("exp",),
        before=both(PRECISE, lambda site: shutil.rmtree(site.chip), Site.run),
    ),
    "precision-file": Plant(precision("Exp=high_precision\n"), ("option",), ("exp",)),
    "type-list": Plant(
        both(PRECISE, option("optypelist_for_implmode", "Exp")), ("option",), ("exp",)
    ),
    "dtype": Plant(change("add", type="float32"), ("operator",), ("add",)),
    "batch": Plant(change("mul", shape=[9, 16]), ("operator",), ("mul",)),
    "extent": Plant(change("relu", shape=[4, 9]), ("operator",), ("relu",)),
    "format": Plant(change("relu", format="NCHW"), ("operator",), ("relu",)),
    "record-implmode": Plant(PRECISE, ("option",), ("exp",), before=RECORD),
    "record-operators": Plant(
        change("relu", shape=[7, 13, 3]), ("operator",), ("relu",), before=RECORD
    ),
    "record-precision-file": Plant(
        precision("Exp=high_precision\n"),
        ("file",),
        ("exp",),
        before=both(precision("Exp=high_performance\n"), Site.run, RECORD),
    ),
    "record-package": Plant(
        package("8.0.1"), ("file",), before=both(package("8.0.0"), Site.run, RECORD)
    ),
    "record-among-many": Plant(
        both(
            PRECISE,
            *(
                variable(name, "9")
                for name in (
                    "HCCL_BUFFSIZE",
                    "HCCL_EXEC_TIMEOUT",
                    "RANK_SIZE",
                    "DEVICE_ID",
                    "NOBODY_KNOWS",
                    "MS_COMPILER_OP_LEVEL",
                    "ASCEND_GLOBAL_LOG_LEVEL",
                )
            ),
        ),
        ("option",),
        ("exp",),
        before=RECORD,
    ),
    "record-mode": Plant(option("op_compiler_cache_mode", "disable"), ("mode",), before=RECORD),
    "pair-mode-directory": Plant(
        both(option("op_compiler_cache_mode", None), option("op_compiler_cache_dir", None)),
        ("mode", "directory"),
    ),
    "pair-debug-chip": Plant(
        both(option("op_debug_level", "2"), option("soc_version", "Ascend910B2")),
        ("debug_level", "chip"),
    ),
    "pair-damaged-implmode": Plant(
        both(flipped("add"), PRECISE),
        ("option", "damaged"),
        {"option": ("exp",), "damaged": ("add",)},
    ),
    "pair-damaged-dtype": Plant(
        both(flipped("mul"), change("add", type="float32")),
        ("operator", "damaged"),
        {"operator": ("add",), "damaged": ("mul",)},
    ),
    "pair-implmode-dtype": Plant(
        both(PRECISE, change("add", type="float32")),
        ("operator", "option"),
        {"operator": ("add",), "option": ("exp",)},
    ),
    "pair-record-options": Plant(
        both(PRECISE, debug("op_debug_config = oom\nop_debug_list = add\n")),
        ("debug_config", "option"),
        {"debug_config": ("add",), "option": ("exp",)},
        before=RECORD,
    ),
    "pair-record-package-implmode": Plant(
        both(package("8.0.1"), PRECISE),
        ("file", "option"),
        {"file": ALL, "option": ("exp",)},
        before=both(package("8.0.0"), Site.run, RECORD),
    ),
    "pair-force-aged": Plant(
        both(option("op_compiler_cache_mode", "force"), idle, ini), ("force", "aged")
    ),
    "pair-mode-link": Plant(both(option("op_compiler_cache_mode", None), moved), ("mode", "link")),
    "model-hits": Plant(hits, (), before=model),
    "model-mode": Plant(option("op_compiler_cache_mode", None), ("mode",), before=model),
    "model-precision": Plant(
        option("precision_mode", "must_keep_origin_dtype"), ("option",), before=model
    ),
    "model-precision-back": Plant(
        option("precision_mode", None),
        ("option",),
        before=both(option("precision_mode", "must_keep_origin_dtype"), model),
    ),
    "model-implmode": Plant(PRECISE, ("option",), before=model),
    "model-package": Plant(package("8.0.1"), ("stamp",), before=model),
    "model-damaged": Plant(
        lambda site: os.truncate(next(iter(sorted(site.chip.glob("*.o")))), 64),
        ("damaged",),
        before=model,
    ),
    "model-record-fusion": Plant(
        lambda site: option(
            "fusion_switch_file",
            site.file(
                "f.json", '{"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}}'
            ),
        )(site),
        ("option",),
        before=both(model, RECORD),
    ),
    "train-directory": Plant(
        variable("MS_COMPILER_CACHE_PATH", "/nonexistent-cache"), ("directory",), OWN, train
    ),
    "train-rank": Plant(variable("RANK_ID", "2"), ("variable",), OWN, train),
    "train-damaged": Plant(cut, ("damaged",), OWN, train),
    "train-fatal": Plant(delicate, ("fatal",), OWN, train),
    "train-phase": Plant(
        lambda site: site.words.append("--phase=inference"), ("operator",), OWN, train
    ),
    "train-record-phase": Plant(
        lambda site: site.words.append("--phase=inference"), ("option",), OWN, both(train, RECORD)
    ),
    "train-shape": Plant(other_network, ("operator",), OWN, train),
    "train-record-network": Plant(other_network, ("file",), OWN, both(train, RECORD)),
    "train-empty": Plant(lambda site: shutil.rmtree(site.cache / "rank_0"), ("empty",), OWN, train),
    "package-directory": Plant(
        variable("ASCEND_OPP_PATH", "/nonexistent-opp"), ("directory",), OWN, static
    ),
    "package-shape": Plant(
        lambda site: shapes(site, shape("Relu", 5), shape("Exp", 8)), ("operator",), OWN, static
    ),
    "package-new": Plant(
        lambda site: shapes(site, shape("Tanh", 4), shape("Exp", 8)), ("unpacked",), OWN, static
    ),
    "package-damaged": Plant(cut_package, ("damaged",), OWN, static),
    "package-chip": Plant(
        lambda site: site.words.__setitem__(4, "Ascend910_9391"), ("chip",), OWN, static
    ),
    "two-prefixes": Plant(prefixes, ("file",)),
    "two-programs": Plant(programs, ("program",), ("exp",)),
    "two-caches": Plant(caches, ("directory",)),
    "release-implmode": Plant(PRECISE, ("option",), ("exp",), before=release),
    "pair-train-rank-directory": Plant(
        both(variable("RANK_ID", "2"), variable("MS_COMPILER_CACHE_PATH", "/nonexistent-cache")),
        ("variable", "directory"),
        OWN,
        train,
    ),
    "pair-directory-implmode": Plant(
        both(PRECISE, option("op_compiler_cache_dir", "/nonexistent-cache")),
        ("directory", "option"),
        {"directory": ALL, "option": ("exp",)},
    ),
    "pair-stamp-damaged": Plant(both(package("8.0.1"), flipped("add")), ("stamp", "damaged")),
    "pair-list-new": Plant(
        both(debug("op_debug_config = oom\nop_debug_list = add\n"), one_more),
        ("debug_config", "new"),
        ("add",),
    ),
}


def home(site: Site) -> None:
    """The cache is where HOME says, and nothing else says where it is."""
    site.options.pop("op_compiler_cache_dir")
    (site.at / "home").mkdir()
    site.cache.rename(site.at / "home/atc_data")
    site.kept = "home/atc_data"


def elsewhere(site: Site) -> None:
    """A relative path, in another working directory."""
    site.options["op_compiler_cache_dir"] = "cache"
    site.work = site.at / "elsewhere"
    site.work.mkdir()


def made_in_work(site: Site) -> None:
    train(site)
    del site.environment["MS_COMPILER_CACHE_PATH"]
    site.words[1] = str(site.at / "net.json")
    site.work = site.at / "elsewhere"
    site.work.mkdir()


def unreadable(site: Site, path: Path) -> None:
    """A file that the user may not read. Root may, unless it gives that up."""
    path.chmod(0)
    if os.geteuid() == 0:
        site.before = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]


def swapped(site: Site) -> None:
    one, other = site.entry("exp"), site.entry("sigmoid")
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def of_three_chips(site: Site) -> None:
    option("soc_version", "Ascend910B2")(site)
    site.run()
    option("soc_version", "Ascend910B3")(site)


def unset(name: str) -> Callable[[Site], object]:
    return lambda site: site.environment.pop(name)


def table(site: Site) -> None:
    """A recorded operator package, and one whose table of precise operators has another line."""
    package("8.0.0")(site)
    shutil.rmtree(site.chip)
    site.options["op_select_implmode"] = "high_precision"
    site.run()
    RECORD(site)


def other_table(site: Site) -> None:
    for path in (site.at / "opp").rglob("high_precision.ini"):
        path.write_text("".join(f"{each}=high_precision\n" for each in ("AvgPoolV2", "Relu")))


OUTSIDERS: Mapping[str, Plant] = {
    "o-home-moved": Plant(variable("HOME", "/nonexistent-home"), ("directory",), before=home),
    "o-home-and-level": Plant(
        both(variable("HOME", "/nonexistent-home"), option("op_debug_level", "1")),
        ("directory", "debug_level"),
        before=home,
    ),
    "o-path-capital": Plant(
        lambda site: option("op_compiler_cache_dir", str(site.at / "Cache"))(site), ("directory",)
    ),
    "o-path-relative": Plant(elsewhere, ("directory",)),
    "o-train-elsewhere": Plant(hits, ("directory",), OWN, made_in_work),
    "o-entry-unreadable": Plant(
        lambda site: unreadable(site, site.entry("mul")), ("unreadable",), ("mul",)
    ),
    "o-chip-unreadable": Plant(lambda site: unreadable(site, site.chip), ("unreadable",)),
    "o-stamp-of-other": Plant(
        lambda site: (site.cache / "kernel_cache/version.info").write_text("adk_version=7\n"),
        ("stamp",),
    ),
    "o-downgrade": Plant(package("8.0.0"), ("stamp",), before=both(package("8.0.1"), Site.run)),
    "o-of-three-chips": Plant(of_three_chips, ("chip",)),
    "o-limit-in-kernel-cache": Plant(
        both(
            idle,
            lambda site: (site.cache / "kernel_cache/op_cache.ini").write_text(
                "[op_compiler_cache]\nmax_op_cache_size=1\nremain_cache_size_ratio=1\n"
            ),
        ),
        ("aged",),
    ),
    "o-debug-list-two": Plant(
        debug("op_debug_config = oom\nop_debug_list = add, exp\n"),
        ("debug_config",),
        ("add", "exp"),
    ),
    "o-implmode-for-all": Plant(
        option("op_select_implmode", "high_precision_for_all"), ("option",), ("exp",)
    ),
    "o-no-bytes": Plant(written("sigmoid", ".o", ""), ("damaged",), ("sigmoid",)),
    "o-swapped": Plant(swapped, ("damaged",), ("exp", "sigmoid")),
    "o-record-table": Plant(other_table, (), before=table),
    "o-record-type-list": Plant(
        option("optypelist_for_implmode", "Relu"),
        (),
        before=both(PRECISE, lambda site: shutil.rmtree(site.chip), Site.run, RECORD),
    ),
    "o-one-more-dimension": Plant(change("mul", shape=[1, 8, 16]), ("operator",), ("mul",)),
    "o-other-type": Plant(
        lambda site: site.operators(lambda made: made[3].update(op="Abs")), ("new",), ("relu",)
    ),
    "o-variable-and-option": Plant(
        both(variable("ASCEND_CACHE_PATH", "/nonexistent-cache"), option("op_debug_level", "4")),
        ("debug_level",),
    ),
}
"""Twenty of a person who had read the guide only; ``ci/why --outsiders`` plants them."""


@dataclass(frozen=True)
class Score:
    name: str
    is_first: bool
    wrong: tuple[str, ...]
    missing: tuple[str, ...]
    runs: int
    shown: str

    def line(self) -> str:
        state = "ok" if self.is_first and not self.wrong and not self.missing else "BAD"
        more = f" wrong {self.wrong}" if self.wrong else ""
        more += f" missing {self.missing}" if self.missing else ""
        return f"{state:4}{self.name:26}{self.runs:4} runs{more}"


def filled(at: Path) -> Path:
    """A directory with the operators and a cache that one run has filled."""
    at.mkdir(parents=True)
    (at / "ops.json").write_text(json.dumps(OPERATORS))
    site_at(at).run()
    return at


def site_at(at: Path) -> Site:
    options = {
        "singleop": str(at / "ops.json"),
        "output": str(at / "out"),
        "soc_version": SOC,
        "op_compiler_cache_mode": "enable",
        "op_compiler_cache_dir": str(at / "cache"),
    }
    keep = ("PATH", "TMPDIR", "LANG", *(("ASCEND_OPP_PATH",) if BIN not in ATC.parents else ()))
    environment = {key: os.environ[key] for key in keep if key in os.environ}
    return Site(at, options, {**environment, "HOME": str(at / "home")})


def planted(name: str, source: Path, at: Path, show: bool = False) -> Score:
    """Plant a cause in a copy of a filled place, and score the answer."""
    plant = {**PLANTS, **OUTSIDERS}[name]
    shutil.copytree(source, at)
    site = site_at(at)
    plant.before(site)
    plant.change(site)
    report = at / "report.json"
    done = site.why(*site.arguments, "--report", str(report))
    shown = done.stdout + done.stderr
    if show:
        print(shown)
    if not report.exists():
        return Score(name, False, (), plant.kinds, 0, shown)
    found = json.loads(report.read_text())
    kinds = tuple(each["kind"] for each in found["causes"])
    wrong = tuple(each for each in kinds if each not in plant.kinds)
    missing = tuple(each for each in plant.kinds if each not in kinds)
    if not plant.kinds:
        is_first = not kinds and found["answer"] == "served"
    else:
        first = found["causes"][0] if kinds else {"kind": "", "operators": []}
        operators = plant.operators
        if isinstance(operators, Mapping):
            operators = operators.get(str(first["kind"]))
        any_of = first["operators"] if "model" in site.options or operators == OWN else ALL
        operators = tuple(any_of if operators in (None, OWN) else operators or ())
        is_first = first["kind"] in plant.kinds and tuple(first["operators"]) == operators
    return Score(name, is_first, wrong, missing, found["runs"], shown)


def main() -> int:
    parser = argparse.ArgumentParser(prog="ci/why", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--atc", type=Path, help="another atc, such as that of ci/verify-cann")
    parser.add_argument("--show", action="store_true", help="print the answers")
    parser.add_argument("--outsiders", action="store_true", help="plant the other twenty")
    options = parser.parse_args()
    global ATC
    ATC = options.atc or ATC
    if unknown := [each for each in options.names if each not in {**PLANTS, **OUTSIDERS}]:
        parser.error(f"there is no plant {unknown[0]}")
    scores = []
    with tempfile.TemporaryDirectory(prefix="ascendcache-plants-") as name:
        source = filled(Path(name, "filled"))
        for plant in options.names or (OUTSIDERS if options.outsiders else PLANTS):
            # Every place has the same path, because options name files in it.
            at = Path(name, "place")
            source_copy = Path(name, "place")
            scores.append(planted(plant, source, at, options.show))
            print(scores[-1].line(), flush=True)
            shutil.rmtree(source_copy)
    first = sum(each.is_first for each in scores)
    wrong = sum(bool(each.wrong) for each in scores)
    mean = sum(each.runs for each in scores) / len(scores)
    print(
        f"{first} of {len(scores)} right first sentences, {wrong} with wrong blame, "
        f"{mean:.1f} runs on average, {max(each.runs for each in scores)} at most"
    )
    return int(first * 10 < len(scores) * 9 or wrong > 0 or mean > 12)


if __name__ == "__main__":
    sys.exit(main())
