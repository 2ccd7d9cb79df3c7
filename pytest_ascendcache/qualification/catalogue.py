"""What a defect and a scene are, and how one is registered."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract.editions import CANN, DEFAULT_NAMES
from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.reference.policies import Policies


@dataclass(frozen=True)
class Defect:
    """One wrong behaviour.

    ``breaks`` are the rules that must notice it; ``what`` says in a few words what is wrong;
    ``policies`` makes the reference's policies with the defect in them. ``crash`` is, for a
    defect that shows when a compile is interrupted, the simplest kind of interruption that
    finds it (a value of ``faults.CrashKind``). ``harm`` is the worst harm its broken checks have to
    see; None where nothing is claimed. ``keeps`` are rules that must not blame it: what it does
    is another rule's business, or nobody's. ``found_later`` says that the
    suite did not notice it when it was first tried. ``editions`` are the releases of CANN it is
    judged as; in others it may be right. ``replaces`` are the reference's functions whose place it
    takes, as far as it says which: their files, and their names there.
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
    replaces: frozenset[tuple[str, str]] = frozenset()


DEFECTS: dict[str, Defect] = {}
"""The defects registered so far. ``qualification.loading`` imports the modules with all of them."""


def defect(
    *breaks: str,
    what: str = "",
    overrides: Callable[..., Any] | None = None,
    crash: str = "",
    harm: Harm | None = None,
    keeps: tuple[str, ...] = (),
    found_later: bool = False,
    editions: tuple[str, ...] = (DEFAULT_NAMES[CANN],),
) -> Callable[[Callable[..., Any]], Callable[[], Policies]]:
    """Register a defect: a function or class whose name becomes the defect's.

    With ``overrides``, a method of one of the reference's policies (``AgingPolicy.is_idle``), the
    function takes that method's place. Its arguments are the policy, the right method (bound),
    and then what the method is called with::

        @defect(OLDEST, overrides=AgingPolicy.order)
        def newest_first(self, right, units):
            "The newest entry goes first."
            return right(units)[::-1]

    A class is a subclass of the policy whose place it takes; use it where a defect overrides
    several methods or remembers something. A function without ``overrides`` makes the policies
    itself; use it where a defect needs several policies.

    ``what`` says what is wrong; without it the docstring does. Raises ``ValueError`` for a name
    that is taken, a method that is no policy's, and a defect nothing is said of.
    """

    def register(wrong: Callable[..., Any]) -> Callable[[], Policies]:
        name = _defect_name(wrong)
        if name in DEFECTS:
            raise ValueError(f"the defect '{name}' exists twice.")
        said = what or _first_sentence(wrong)
        if not said:
            raise ValueError(f"the defect '{name}' has no docstring that says what is wrong.")
        make = _maker(wrong, overrides)
        DEFECTS[name] = Defect(
            name,
            breaks,
            said,
            make,
            crash,
            harm,
            keeps,
            found_later,
            editions,
            _replaced(wrong, overrides),
        )
        return make

    return register


def _defect_name(wrong: Callable[..., Any]) -> str:
    """``newest_first`` and ``NewestFirst`` are both called newest-first."""
    name: str = wrong.__name__
    if isinstance(wrong, type):
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    return name.replace("_", "-")


def _first_sentence(wrong: Callable[..., Any]) -> str:
    """The docstring's first line as it stands in a table: "The scan reads." as "the scan reads"."""
    line = (wrong.__doc__ or "").strip().partition("\n")[0].rstrip(".")
    return line[:1].lower() + line[1:] if re.match(r"[A-Z]([a-z]| )", line) else line


def _maker(
    wrong: Callable[..., Any], overrides: Callable[..., Any] | None
) -> Callable[[], Policies]:
    if overrides is not None:
        policy = _with_method(wrong, overrides)
    elif isinstance(wrong, type):
        policy = wrong
    else:
        return wrong
    return lambda: having(policy())


def _replaced(
    wrong: Callable[..., Any], overrides: Callable[..., Any] | None
) -> frozenset[tuple[str, str]]:
    """The reference's functions whose place a defect takes: their files, and their names there."""
    methods = [overrides] if overrides is not None else []
    if isinstance(wrong, type):
        above = [getattr(super(wrong, wrong), name, None) for name in vars(wrong)]
        methods += [each for each in above if inspect.isfunction(each)]
    return frozenset(
        (f"{each.__module__.partition('.')[2].replace('.', '/')}.py", each.__qualname__)
        for each in methods
    )


def _with_method(change: Callable[..., Any], method: Callable[..., Any]) -> type:
    """The policy that ``method`` belongs to, with ``change`` in its place."""
    name: str = method.__name__
    owners = [place for place in places() if getattr(place, name, None) is method]
    if len(owners) != 1:
        raise ValueError(f"{method.__qualname__} is not a method of one of the policies.")

    signature = inspect.signature(method)

    def changed(*arguments: Any, **named: Any) -> Any:
        # By position, so that a defect may take the arguments it does not look at as ``*_``.
        given = signature.bind(*arguments, **named)
        self, *rest = given.args
        # The next class in line, which need not be the plain policy: see compose().
        return change(self, getattr(super(wrong, self), name), *rest, **given.kwargs)

    wrong = type(f"Wrong{owners[0].__name__}", (owners[0],), {name: changed})
    return wrong


def places(bundle: type = Policies) -> dict[type, tuple[str, ...]]:
    """Every kind of policy, and the path of fields to its place in ``Policies``."""
    found: dict[type, tuple[str, ...]] = {}
    for field in fields(bundle):
        kind: Any = field.default_factory
        if "policies" in kind.__module__:
            found.update({each: (field.name, *path) for each, path in places(kind).items()})
        else:
            found[kind] = (field.name,)
    return found


def having(*wrong: object) -> Policies:
    """The reference's policies with each of ``wrong`` in the place of the one it inherits from.

    Raises ``ValueError`` for an object that inherits from no policy.
    """
    known = places()
    changes: dict[str, Any] = {}
    for policy in wrong:
        kind = next((each for each in type(policy).__mro__ if each in known), None)
        if kind is None:
            raise ValueError(f"{type(policy).__name__} does not inherit from one of the policies.")
        *bundles, field = known[kind]
        into = changes
        for bundle in bundles:
            into = into.setdefault(bundle, {})
        into[field] = policy
    policies: Policies = _build(Policies, changes)
    return policies


def _build(bundle: Any, changes: Mapping[str, Any]) -> Any:
    kinds: dict[str, Any] = {each.name: each.default_factory for each in fields(bundle)}
    return bundle(
        **{
            name: _build(kinds[name], given) if isinstance(given, dict) else given
            for name, given in changes.items()
        }
    )


@dataclass(frozen=True)
class Scene:
    """Files as users might leave them, for rules that judge files rather than a toolchain.

    ``build`` makes them below an empty directory and returns the arguments of pytest that have
    them judged. ``breaks`` are the rules that find fault, and no other may; a scene that breaks
    none shows that what is right is not blamed. ``what`` says in a few words what is wrong.
    Giving files to another user ``needs_root``.
    """

    name: str
    breaks: tuple[str, ...]
    what: str
    build: Callable[[Path], list[str]]
    needs_root: bool = False


SCENES: dict[str, Scene] = {}
"""The scenes registered so far."""


def scene(
    *breaks: str, what: str, needs_root: bool = False
) -> Callable[[Callable[[Path], list[str]]], Callable[[Path], list[str]]]:
    """Register a function that makes a scene; its name becomes the scene's."""

    def register(build: Callable[[Path], list[str]]) -> Callable[[Path], list[str]]:
        name = build.__name__.replace("_", "-")
        if name in SCENES:
            raise ValueError(f"the scene '{name}' exists twice.")
        SCENES[name] = Scene(name, breaks, what, build, needs_root)
        return build

    return register


@dataclass(frozen=True)
class Profile:
    """All the wrong behaviour of one vendor at once; as a rule there is a list of known
    deviations of the same name."""

    name: str
    policies: Callable[[], Policies]


def compose(*parts: Policies) -> Policies:
    """Policies with the wrong decisions of all parts.

    Where several parts change one kind of decision their classes are mixed: the first one is
    asked first, and what it leaves to ``super()`` is the next one's.
    """
    mixed: dict[str, Any] = {}
    for field in fields(Policies):
        plain: object = field.default_factory
        given = [getattr(part, field.name) for part in parts]
        changed = [policy for policy in given if type(policy) is not plain]
        if len(changed) > 1:
            bases = tuple(type(policy) for policy in changed)
            mixed[field.name] = type(f"Mixed{bases[-1].__bases__[0].__name__}", bases, {})()
        elif changed:
            mixed[field.name] = changed[0]
    return Policies(**mixed)
