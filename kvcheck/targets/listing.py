"""What targets there are: each with where it was found, what it promises in one line, and why it cannot run here."""

from __future__ import annotations

from dataclasses import dataclass

import kvcheck
from kvcheck.api import Target
from kvcheck.contract import Computed, Form, Given, LoadContract
from kvcheck.errors import KvcheckError
from kvcheck.targets.engine import Engine, MissingEngineError
from kvcheck.targets.identity import engines_of
from kvcheck.targets.load import ENGINES, Loaded, load, names
from kvcheck.targets.plugins import Plugin, plugins


@dataclass(frozen=True)
class Listed:
    """A target that `--target` takes by its name.

    `found` says where it is from, with a version. `contract` is None where the target was not imported, `missing` None
    where nothing is known that keeps it from running.
    """

    name: str
    found: str
    contract: str | None = None
    missing: str | None = None


def listed(*, imports: bool) -> tuple[Listed, ...]:
    """Every built-in target, then every plug-in's.

    Without `imports` neither torch nor an engine nor a plug-in is imported: engines are looked for, not tried. With it
    all are, and what cannot be is said in `missing`; it is never raised.
    """
    built_in = [_engine(name, imports=imports) if name in ENGINES else _own(name, imports=imports) for name in names()]
    known = set(names())
    return (*built_in, *(_installed(found, known, imports=imports) for found in plugins()))


def contract_line(target: Target) -> str:
    """What a target promises, and how its cache lies, in one line."""
    contract, form = target.contract, target.form
    if isinstance(contract, LoadContract):
        scale = "no scale" if contract.scale is None else f"one scale a {contract.scale.replace('_', ' and ')}"
        return f"loads {contract.format} as {contract.out}; {scale}; {_form(form)}"
    return (
        f"stores {contract.format}; {_scale(contract.scale)}{_applied(contract.scale, contract.apply)}; {_form(form)}"
    )


def _own(name: str, *, imports: bool) -> Listed:
    found = f"kvcheck {kvcheck.__version__}"
    return Listed(name, found, contract_line(_one(name).target) if imports else None)


def _engine(name: str, *, imports: bool) -> Listed:
    """An adapter's module imports without torch and without its engine, so its contract is always known."""
    loaded = _one(name)
    engine = engines_of(loaded.module)[0]
    line = contract_line(loaded.target)
    if not imports:
        where = engine.find()
        missing = None if where is not None else f"not found; {engine.get}"
        return Listed(name, _where_found(engine), line, missing)
    prepare = loaded.target.prepare
    try:
        if prepare is not None:
            prepare()
    except MissingEngineError as error:
        return Listed(name, _where_found(engine), line, str(error))
    return Listed(name, _where_found(engine), line)


def _where_found(engine: Engine) -> str:
    where = engine.find()
    if where is None:
        return engine.distribution
    return f"{engine.distribution} {engine.version() or '(a checkout)'}, {where}"


def _one(name: str) -> Loaded:
    (found,) = load(name)
    return found


def _installed(plugin: Plugin, known: set[str], *, imports: bool) -> Listed:
    if plugin.name in known:
        return Listed(plugin.name, plugin.where, None, "skipped: a target before it in this list has its name")
    known.add(plugin.name)
    if not imports:
        return Listed(plugin.name, plugin.where)
    try:
        loaded = _one(plugin.name)
        for engine in engines_of(loaded.module):
            engine.require()
    except KvcheckError as error:
        return Listed(plugin.name, plugin.where, None, str(error))
    return Listed(plugin.name, plugin.where, contract_line(loaded.target))


def _scale(scale: Computed | Given | None) -> str:
    if scale is None:
        return "no scale"
    if isinstance(scale, Given):
        return f"a given scale a {scale.granularity}"
    kind, _, size = scale.granularity.partition(":")
    population = f"{kind} of {size}" if size else kind.replace("_", " and ")
    quotient = f"amax / {scale.maximum:g}"
    if scale.eps and scale.eps_as == "added":
        on_amax = f"(amax + {scale.eps:g}) / {scale.maximum:g}"
        quotient = on_amax if scale.eps_on == "amax" else f"{quotient} + {scale.eps:g}"
    return f"a scale a {population}, {quotient}"


def _applied(scale: Computed | Given | None, apply: str) -> str:
    if scale is None:
        return ""
    if isinstance(scale, Given) and scale.direction == "multiplier":
        return ", multiplied with"
    return f", applied by {apply}"


def _form(form: Form) -> str:
    pages = "slots" if form.kind in ("slots", "fused") else f"pages of {form.page}"
    shape = {
        "slots": "",
        "pages": "",
        "heads_pages": ", heads first",
        "packed": ", K beside V",
        "fused": ", K beside V",
    }
    scales = {"sidecar": ", scales apart", "inline": ", scales behind each head", "none": ""}
    return f"{form.codes} in {pages}{shape[form.kind]}{scales[form.scales]}"
