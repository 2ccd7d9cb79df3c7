"""Runs the reference's atc in the test's process, in directories of that test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.operators import Attribute, OperatorSpec, TensorDesc, write_single_op
from pytest_ascendcache.reference import atc as atc_command
from pytest_ascendcache.reference.om import OmModel

SOC, OTHER_SOC = "Ascend910B1", "Ascend310P3"
LOCK = ".op_cache.lock"


def operator(kind, *shape, dtype="float32", inputs=1, name="", format="ND", **attributes):
    tensor = TensorDesc.of(dtype, *(shape or (4,)), format=format)
    listed = tuple(Attribute(key, "int", value) for key, value in attributes.items())
    return OperatorSpec(kind, (tensor,) * inputs, (tensor,), listed, name or kind.lower())


ABS, EXP = operator("Abs"), operator("Exp")
ADD = operator("Add", inputs=2)


@dataclass(frozen=True)
class Done:
    """The exit status, standard output and standard error of one run."""

    code: int
    out: str
    err: str


class Sandbox:
    """The directories of one test. Calling it runs the command in this process."""

    def __init__(self, root: Path, capsys) -> None:
        self.root, self.capsys = root, capsys
        self.cache, self.output, self.home = root / "cache", root / "out", root / "home"
        self.home.mkdir()
        self.single_op = root / "operators.json"

    def argv(self, *operators, **options):
        write_single_op(self.single_op, operators or (ABS,))
        defaults = {
            "singleop": self.single_op,
            "output": self.output,
            "soc_version": SOC,
            "op_compiler_cache_mode": "enable",
            "op_compiler_cache_dir": self.cache,
            **options,
        }
        return [f"--{key}={value}" for key, value in defaults.items() if value is not None]

    def raw(self, argv, environ=None, policies=None):
        self.capsys.readouterr()
        code = atc_command.run(argv, {"HOME": str(self.home), **(environ or {})}, policies)
        return Done(code, *self.capsys.readouterr())

    def __call__(self, *operators, environ=None, policies=None, **options):
        """Run the command and check that it succeeds."""
        done = self.raw(self.argv(*operators, **options), environ, policies)
        assert done.code == 0, done.out
        return done

    def refused(self, code, *phrases, environ=None, argv=None, operators=(), **options):
        """Run the command. Check that it fails with ``code`` in one line with all ``phrases``."""
        done = self.raw(argv or self.argv(*operators, **options), environ)
        lines = done.out.splitlines()
        assert done.code == 255
        assert done.err == ""
        assert lines[0].startswith("ATC run failed")
        assert len(lines) == 2, lines
        assert lines[1].startswith(f"{code}: ")
        assert lines[1].endswith(".")
        for each in phrases:
            assert str(each) in lines[1], lines[1]
        return lines[1]

    def soc(self, soc=SOC):
        return self.cache / "kernel_cache" / soc

    def entries(self, soc=SOC):
        """Return the inodes of the files in the SoC's directory by name, without the lock file."""
        return {
            path.name: path.lstat().st_ino
            for path in sorted(self.soc(soc).iterdir())
            if path.name != LOCK
        }

    def kernel(self, name="abs"):
        return OmModel.read(self.output / f"{name}.om").object

    def stem(self, kind="abs"):
        (path,) = self.soc().glob(f"te_{kind}_*.json")
        return path.stem
