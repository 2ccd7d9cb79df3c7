"""Releases that are unusual, and sound, as in ``innocent_directories``."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pytest_ascendcache.contract import DEFAULT_SOC
from pytest_ascendcache.qualification.catalogue import scene
from pytest_ascendcache.qualification.scenes import models, release
from pytest_ascendcache.qualification.scenes.release import (
    _INI,
    _PRECISION,
    _filled,
    _manifest,
    _rank_caches,
    _release,
    _tune,
    judge,
)

MODE = "建议模型最终发布时设置编译缓存选项为disable或者force。"
DEBUG = "调试开关打开的场景下,即--op_debug_level配置非0值或者--op_debug_config配置非空时"
FILE = "将配置好的op_precision.ini文件上传到ATC工具所在服务器任意目录"
COPY = "不同网络模型使用不同的ini文件,后续模型转换时,可以直接使用--op_precision_mode参数加载"
BANK = "如果算子调优后知识库变更,则需要通过设置为force来刷新缓存"
PLACE = "如果要自行指定算子编译磁盘缓存的路径,则需要通过--op_compiler_cache_dir参数指定。"
BOTH = "若同时配置了op_cache.ini文件和环境变量,则优先读取op_cache.ini文件中的配置项"
OFF = "若需要关闭编译缓存老化功能,可将“max_op_cache_size”设置为“-1”"
RANKS = "在多卡运行时,执行网络模型将会在多个`device`目录下均生成`rank_{ID}/kernel_meta`文件夹"
SPARES = "启用后可以避免针对相同编译参数及算子参数的算子重复编译,从而提升编译速度。"


@scene(what="disable, in words", freedom=MODE, twin="release-under-enable")
def release_with_disable(directory: Path) -> list[str]:
    return judge(_release(directory, {"op_compiler_cache_mode": "disable"}))


@scene(
    what="no command: options in a table, and the chip in a key of its own",
    freedom=MODE,
    twin="release-under-enable",
)
def a_model_without_a_command(directory: Path) -> list[str]:
    path = models._release(directory, soc=DEFAULT_SOC)
    text = path.read_text().replace(f'soc_version = "{DEFAULT_SOC}"\n', "")
    path.write_text(text.replace('mode = "force"', 'mode = "disable"'))
    return judge(path)


@scene(
    what="no precision file: no type of the model has two implementations",
    freedom=FILE,
    twin="model-without-precision-file",
)
def a_model_of_one_implementation(directory: Path) -> list[str]:
    from onnx import TensorProto, helper, save

    directory.mkdir(exist_ok=True)
    nodes = [helper.make_node("Add", ["x", "x"], ["z"]), helper.make_node("Relu", ["z"], ["y"])]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 8]) for name in "xy")
    opset = helper.make_opsetid("", 17)
    graph = helper.make_graph(nodes, "plain", [x], [y])
    save(helper.make_model(graph, opset_imports=[opset], ir_version=8), directory / "model.onnx")
    options = {
        "model": "model.onnx",
        "framework": 5,
        "soc_version": DEFAULT_SOC,
        "op_compiler_cache_mode": "force",
    }
    return judge(release.write_release(directory, {"options": options}))


@scene(what="debugging off in words: level 0", freedom=DEBUG, twin="release-with-debug-level")
def release_with_level_zero(directory: Path) -> list[str]:
    return judge(_release(directory, {"op_debug_level": 0}))


@scene(
    what="a precision file with notes, blank lines and the end of lines of Windows",
    freedom=FILE,
    twin="precision-file-with-unknown-type",
)
def precision_file_with_notes(directory: Path) -> list[str]:
    text = "# 网络模型\r\n\r\n" + _PRECISION.replace("\n", "\r\n")
    return judge(_release(directory, precision=text))


@scene(
    what="a precision file with one mode for all types alike",
    freedom=COPY,
    twin="precision-file-that-contradicts-itself",
)
def precision_file_with_one_mode(directory: Path) -> list[str]:
    return judge(_release(directory, precision="Sqrt=high_precision\nExp=high_precision\n"))


@scene(
    what="a precision file by its whole path, in a directory of the release",
    freedom=FILE,
    twin="release-with-precision-file-elsewhere",
)
def precision_file_by_its_path(directory: Path) -> list[str]:
    path = _release(directory, {"op_precision_mode": str(directory / "conf/model.ini")})
    (directory / "conf").mkdir()
    (directory / "model.ini").rename(directory / "conf/model.ini")
    return judge(path)


@scene(
    what="a precision file through a link that stays in the release",
    freedom=FILE,
    twin="release-with-linked-precision-file",
)
def precision_file_through_a_link(directory: Path) -> list[str]:
    path = _release(directory)
    (directory / "model.ini").rename(directory / "v2.ini")
    (directory / "model.ini").symlink_to("v2.ini")
    return judge(path)


@scene(
    what="a knowledge base written in the year of the model, kernels long after",
    freedom=BANK,
    twin="knowledge-base-after-the-kernels",
)
def an_old_knowledge_base(directory: Path) -> list[str]:
    path = _filled(directory, caches="cache", toolchain=None)
    _tune(directory, 4, second=1)
    return judge(path, rules=["release/knowledge-base-applied"])


@scene(
    what="a knowledge base that was copied, which made it newer than the kernels, and not changed",
    freedom=BANK,
    twin="knowledge-base-changed-without-force",
)
def a_copied_knowledge_base(directory: Path) -> list[str]:
    path = _filled(directory, caches="cache")
    _tune(directory, 4, second=2_000_000_000)
    return judge(path)


@scene(
    what="a knowledge base that tunes nothing of the model",
    freedom=BANK,
    twin="knowledge-base-changed-without-force",
)
def a_knowledge_base_of_others(directory: Path) -> list[str]:
    path = _filled(directory, caches="cache")
    (directory / "bank/Ascend310P3.json").write_text('{"Exp": {"tile": 9}}')
    os.utime(directory / "bank/Ascend310P3.json", (1, 1))
    return judge(path)


@scene(
    what="one directory by option and by variable",
    freedom=PLACE,
    twin="directories-that-contradict",
)
def one_directory_twice(directory: Path) -> list[str]:
    options = {"op_compiler_cache_dir": "/var/cache/atc"}
    return judge(_release(directory, options, {"ASCEND_CACHE_PATH": "/var/cache/atc/"}))


@scene(
    what="a cache in a directory with a Chinese name",
    freedom=PLACE,
    twin="directory-that-is-refused",
)
def a_chinese_directory(directory: Path) -> list[str]:
    return judge(_release(directory, {"op_compiler_cache_dir": "缓存/模型"}))


@scene(what="limits in the ini alone", freedom=BOTH, twin="limits-that-contradict")
def limits_in_the_ini(directory: Path) -> list[str]:
    path = _filled(directory, caches="cache")
    (directory / "cache/kernel_cache/op_cache.ini").write_text(_INI)
    return judge(path)


@scene(what="no limit, in both places", freedom=OFF, twin="limit-with-a-unit")
def no_limit_twice(directory: Path) -> list[str]:
    path = _filled(directory, environment={"ASCEND_MAX_OP_CACHE_SIZE": "-1"}, caches="cache")
    text = _INI.replace("200", "-1")
    (directory / "cache/kernel_cache/op_cache.ini").write_text(text)
    return judge(path)


@scene(
    what="two caches, each with the ranks of one machine",
    freedom=RANKS,
    twin="release-without-the-cache-of-a-card",
)
def caches_of_two_machines(directory: Path) -> list[str]:
    path = _release(directory, caches=["one", "two"], cards=4)
    _rank_caches(directory / "one", 0, 1)
    _rank_caches(directory / "two", 2, 3)
    return judge(path)


@scene(
    what="more caches than the release uses, of another chip",
    freedom=PLACE,
    twin="cache-of-another-precision-file",
)
def a_cache_of_two_chips(directory: Path) -> list[str]:
    path = _filled(directory, caches="cache")
    options = {
        "singleop": directory / "operators.json",
        "output": directory / "other",
        "soc_version": "Ascend310P3",
        "op_compiler_cache_mode": "enable",
        "op_compiler_cache_dir": directory / "cache",
    }
    release.run_atc(directory, options)
    return judge(path)


@scene(
    what="a manifest that is written again, with other blanks",
    freedom=MODE,
    twin="release-with-another-kernel",
)
def a_manifest_on_one_line(directory: Path) -> list[str]:
    path = _filled(directory, manifest="kernels.json")
    _manifest(path)
    manifest = directory / "kernels.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text())))
    return judge(path)


def _by_an_innocent(innocent: str, what: str) -> None:
    """Register a scene: a release that a toolchain makes which is merely different."""

    def build(directory: Path) -> list[str]:
        return judge(_filled(directory, innocent, caches="cache"), innocent)

    scene(
        what=f"a toolchain is merely different: {what}",
        name=f"release-by-{innocent}",
        freedom=SPARES,
        twin="release-by-an-altering-toolchain",
    )(build)


for innocent, what in (
    ("innocent-names", "names, links and locks"),
    ("innocent-files", "files of its own"),
    ("innocent-times", "it stores late and ages early"),
    ("innocent-habits", "keys and refusals"),
    ("tuned-by-chance", "kernels differ in bytes"),
):
    _by_an_innocent(innocent, what)
