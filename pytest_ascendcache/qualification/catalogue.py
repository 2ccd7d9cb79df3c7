"""What a defect and a scene are, and how to register one."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pytest_ascendcache.contract.editions import CANN, DEFAULT_NAMES
from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.reference.policies import Policies


@dataclass(frozen=True)
class Defect:
    """One wrong behaviour of the reference.

    ``breaks`` are the rules that must notice it, ``what`` says in a few words what is wrong, and
    ``policies`` makes the reference's policies with the defect in them. ``crash`` is the simplest
    kind of interruption that shows the defect (a value of ``faults.CrashKind``), empty if it shows
    without one. ``harm`` is the worst harm that its broken checks must see, None if the defect
    claims none. ``keeps`` are rules that must not notice it. ``found_later`` says that the suite
    missed the defect when it was first tried. ``editions`` are the releases of CANN it is judged
    as; in others the behaviour may be right.
    """

    name: str
    breaks: tuple[str, ...]
    what: str
    policies: Callable[[], Policies]
    crash: str = ""
    harm: Harm | None = None
    keeps: tuple[str, ...] = ()
    found_later: bool = False
    editions: tuple[str, ...] = (DEFAULT_NAMES[CANN],)
    freedom: str = ""
    twin: str = ""
    company: str = ""

    @property
    def replaces(self) -> frozenset[tuple[str, str]]:
        """The reference's functions that it overrides: their files, and their names there."""
        return self.policies.replaces if isinstance(self.policies, Wrong) else frozenset()


DEFECTS: dict[str, Defect] = {}
"""The defects registered so far. ``qualification.loading`` imports the modules with all of them."""


@dataclass(frozen=True)
class Override:
    """A function that takes the place of a policy's method.

    It gets the policy, the right method (bound), and what the method is called with. A class takes
    the place of the class that it derives from, in what the right method makes.
    """

    method: Callable[..., Any]
    function: Callable[..., Any]

    def applied_to(self, policy: type) -> type:
        """A subclass of the policy in which the function is the method."""
        name = self.method.__name__
        signature = inspect.signature(self.method)

        def method(*arguments: Any, **named: Any) -> Any:
            # By position, so that a function may take the arguments it ignores as ``*_``.
            bound = signature.bind(*arguments, **named)
            self, *rest = bound.args
            # The next class in line, which need not be the plain policy: see Wrong.
            return change(self, getattr(super(wrong, self), name), *rest, **bound.kwargs)

        change = _made_by(self.function) if isinstance(self.function, type) else self.function
        wrong = type(f"Wrong{policy.__name__}", (policy,), {name: method})
        return wrong


def _made_by(kind: type) -> Callable[..., Any]:
    """What a method makes gets the methods of ``kind`` if it is of the class above it."""

    def change(_: object, right: Callable[..., Any], *arguments: Any) -> Any:
        made = right(*arguments)
        if type(made) is kind.__base__:
            made.__class__ = kind
        return made

    return change


Part = Override | type
"""What a defect changes: a method, or all that a subclass of a policy overrides."""


def _policy_of(part: Part) -> type:
    """The policy that a part changes. Raises ``ValueError`` if there is not exactly one."""
    if isinstance(part, type):
        policies = [each for each in part.__mro__ if each in places()][:1]
    else:
        method = part.method
        policies = [each for each in places() if getattr(each, method.__name__, None) is method]
    if len(policies) != 1:
        name = part.__name__ if isinstance(part, type) else part.method.__qualname__
        raise ValueError(f"{name} does not belong to exactly one of the policies.")
    return policies[0]


class Wrong:
    """Makes the policies of one defect. Every call makes new ones, with a ``memory`` of their own.

    ``parts`` are what the defect changes, or other defects that it includes. Of two parts that
    change one method the first is called first, and the second is its right method. Raises
    ``ValueError`` for a part of no policy.
    """

    def __init__(
        self, parts: Iterable[Part | Wrong], memory: Mapping[str, Any] | None = None
    ) -> None:
        self._parts: list[tuple[type, Part]] = []
        self._memory = dict(memory or {})
        for each in parts:
            if isinstance(each, Wrong):
                self._parts += each._parts
                self._memory |= each._memory
            else:
                self._parts.append((_policy_of(each), each))

    def __call__(self) -> Policies:
        kinds: dict[type, type] = {}
        for policy, part in reversed(self._parts):
            kind = kinds.get(policy, policy)
            if isinstance(part, Override):
                kinds[policy] = part.applied_to(kind)
            else:
                kinds[policy] = type(part.__name__, (part,) if kind is policy else (part, kind), {})
        memory = SimpleNamespace(**deepcopy(self._memory))
        policies = Policies()
        for policy, kind in kinds.items():
            made: Any = kind()
            made.memory = memory
            policies = _with(policies, places()[policy], made)
        return policies

    def also(self, *methods: Callable[..., Any]) -> Callable[[Callable[..., Any]], None]:
        """Override more methods, as ``overrides`` of :func:`defect` does::

        @force_sticks.also(LookupPolicy.find)
        def _(self, right, fs, entry, expected):
            return None
        """

        def add(function: Callable[..., Any]) -> None:
            self._parts += Wrong([Override(each, function) for each in methods])._parts

        return add

    @property
    def replaces(self) -> frozenset[tuple[str, str]]:
        methods = []
        for policy, part in self._parts:
            names = vars(part) if isinstance(part, type) else [part.method.__name__]
            above = [getattr(policy, name, None) for name in names]
            methods += [each for each in above if inspect.isfunction(each)]
        return frozenset(
            (f"{each.__module__.partition('.')[2].replace('.', '/')}.py", each.__qualname__)
            for each in methods
        )


def _with(bundle: Any, path: Sequence[str], policy: object) -> Any:
    """A copy of a bundle of policies with one of them replaced."""
    field, *below = path
    change = _with(getattr(bundle, field), below, policy) if below else policy
    return replace(bundle, **{field: change})


@dataclass(frozen=True)
class Company:
    """Several innocents as one toolchain, ``defect``."""

    defect: Defect
    members: tuple[Defect, ...]

    @classmethod
    def of(cls, name: str, members: Sequence[Defect]) -> Company:
        """A company of innocents. One innocent alone is itself."""
        if len(members) == 1:
            return cls(members[0], (*members,))
        parts = [each.policies for each in members if isinstance(each.policies, Wrong)]
        what = f"{len(members)} innocents at once"
        return cls(Defect(f"innocent-{name}", (), what, Wrong(parts)), (*members,))


def override(
    method: Callable[..., Any], memory: Mapping[str, Any] | None = None
) -> Callable[[Callable[..., Any]], Wrong]:
    """Make a function a part that several defects share; they name it in ``also``.

    What it has to remember is in the memory of each of them.
    """
    return lambda function: Wrong([Override(method, function)], memory)


def register(
    name: str,
    *breaks: str,
    what: str,
    parts: Iterable[Part | Wrong],
    memory: Mapping[str, Any] | None = None,
    **claims: Any,
) -> Wrong:
    """Register a defect that consists of ``parts``; for all else see :func:`defect`.

    Raises ``ValueError`` for a name that is taken, an empty ``what``, and a part of no policy.
    """
    if name in DEFECTS:
        raise ValueError(f"the defect '{name}' exists twice.")
    if not what:
        raise ValueError(f"the defect '{name}' does not say what is wrong: it has no docstring.")
    wrong = Wrong(parts, memory)
    DEFECTS[name] = Defect(name, breaks, what, wrong, **claims)
    return wrong


def defect(
    *breaks: str,
    overrides: Callable[..., Any] | tuple[Callable[..., Any], ...] = (),
    also: Iterable[Part | Wrong] = (),
    memory: Mapping[str, Any] | None = None,
    **claims: Any,
) -> Callable[[Callable[..., Any]], Wrong]:
    """Register a defect: a function or class whose name becomes the defect's.

    ``overrides`` is a method of one of the reference's policies (``AgingPolicy.is_idle``), or
    several methods; the function takes its place. The function's arguments are the policy, the
    right method (bound), and then what the method is called with::

        @defect(OLDEST, overrides=AgingPolicy.order)
        def newest_first(self, right, units):
            "The newest entry goes first."
            return right(units)[::-1]

    A defect that needs other functions in the place of other methods adds them with
    :meth:`Wrong.also`, or with ``also=``, where several defects share them. What it has to
    remember during a run is in ``memory``, by name and with its first value; all its functions
    have it as ``self.memory``::

        @defect(STORES, overrides=StorePolicy.publish, memory={"stored": 0})
        def stores_first_operator(self, right, *arguments):
            "Only the first operator of a run is stored."
            self.memory.stored += 1
            return self.memory.stored > 1 or right(*arguments)

    A class is a subclass of the policy; use it where a defect changes an attribute. With
    ``overrides`` it is a subclass of what the method makes. A function without ``overrides``
    returns the parts of the defect.

    The first line of the docstring says what is wrong. ``claims`` are other fields of
    :class:`Defect`, such as ``harm``. Raises ``ValueError`` for a name that is taken, a method that
    no policy has, and a defect without a docstring.
    """

    def decorate(wrong: Callable[..., Any]) -> Wrong:
        methods = overrides if isinstance(overrides, tuple) else (overrides,)
        parts: list[Part | Wrong] = [Override(each, wrong) for each in methods]
        if not parts:
            parts = [wrong] if isinstance(wrong, type) else [*wrong()]
        parts += also
        name, what = _defect_name(wrong), _first_sentence(wrong)
        return register(name, *breaks, what=what, parts=parts, memory=memory, **claims)

    return decorate


def innocent(
    freedom: str, *, twin: str, company: str = "", **named: Any
) -> Callable[[Callable[..., Any]], Wrong]:
    """Register an innocent, as :func:`defect` does; without a ``company`` it is judged alone."""
    return defect(freedom=freedom, twin=twin, company=company, **named)


def _defect_name(wrong: Callable[..., Any]) -> str:
    """``newest_1`` and ``Newest1`` are both called newest-1."""
    name: str = wrong.__name__
    if isinstance(wrong, type):
        name = re.sub(r"(?<!^)(?=[A-Z]|(?<=[a-z])[0-9])", "_", name).lower()
    return name.replace("_", "-")


def _first_sentence(wrong: Callable[..., Any]) -> str:
    """The docstring's first line as it stands in a table: "The scan reads." as "the scan reads"."""
    if sys.flags.optimize > 1:  # PYTHONOPTIMIZE=2 removes docstrings
        return _defect_name(wrong).replace("-", " ")
    line = (wrong.__doc__ or "").strip().partition("\n")[0].rstrip(".")
    return line[:1].lower() + line[1:] if re.match(r"[A-Z]([a-z]| )", line) else line


@cache
def places(bundle: type = Policies) -> Mapping[type, tuple[str, ...]]:
    """Every kind of policy, and the path of fields to its place in ``Policies``."""
    found: dict[type, tuple[str, ...]] = {}
    for field in fields(bundle):
        kind: Any = field.default_factory
        if "policies" in kind.__module__:
            found.update({each: (field.name, *path) for each, path in places(kind).items()})
        else:
            found[kind] = (field.name,)
    return found


@dataclass(frozen=True)
class Scene:
    """Files as users might leave them, for rules that judge files rather than a toolchain.

    ``build`` makes the files below an empty directory and returns the arguments of pytest that
    have them judged. ``breaks`` are the rules that must find fault, and no other may; a scene
    that breaks none shows that the suite does not blame what is right. ``unread`` says that what
    lies there cannot be read, so that other rules stay undecided. ``what`` says in a few words
    what is wrong. ``needs_root`` is set where the scene gives files to another user. A scene that
    is merely different is an innocent: it has a ``freedom`` and a ``twin``, another scene.
    """

    name: str
    breaks: tuple[str, ...]
    what: str
    build: Callable[[Path], list[str]]
    needs_root: bool = False
    unread: bool = False
    freedom: str = ""
    twin: str = ""


SCENES: dict[str, Scene] = {}
"""The scenes registered so far."""


def scene(
    *breaks: str, what: str, name: str = "", **more: Any
) -> Callable[[Callable[[Path], list[str]]], None]:
    """Register a function that makes a scene, under its own name if no other is given. ``more`` are
    other fields of :class:`Scene`."""

    def decorate(build: Callable[[Path], list[str]]) -> None:
        known = name or _defect_name(build)
        if known in SCENES:
            raise ValueError(f"the scene '{known}' exists twice.")
        SCENES[known] = Scene(known, breaks, what, build, **more)

    return decorate
