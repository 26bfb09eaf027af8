"""What `kvcheck targets` says of each: where it was found, what it promises, why it cannot run here."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

import kvcheck.kernels.template  # noqa: F401 - torch and triton can be imported but once in a process
from kvcheck.api import LoadTarget, StoreTarget
from kvcheck.contract import Accepts, Computed, Contract, Form, Given, LoadContract
from kvcheck.targets.listing import Listed, contract_line, listed
from kvcheck.targets.load import ENGINES, names

from .conftest import Write

PLUGIN = """
    from kvcheck import Computed, Contract, store_target

    @store_target("plugged", contract=Contract(scale=Computed("token_head")))
    def plugged(k, v, slots, cache): pass
"""


def of(found: tuple[Listed, ...], name: str) -> list[Listed]:
    """What is listed under a name."""
    return [target for target in found if target.name == name]


def installed(write: Write, points: dict[str, str]) -> None:
    """A distribution whose metadata announces these entry points, in the folder of `write`."""
    lines = "\n".join(f"{name} = {value}" for name, value in points.items())
    write("plugs-1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: plugs\nVersion: 1.2\n")
    path = write("plugs-1.2.dist-info/entry_points.txt", f"[kvcheck.targets]\n{lines}\n")
    sys.path.insert(0, str(path.parents[1]))


def store(contract: Contract, form: Form) -> StoreTarget:
    """A store that does nothing."""
    return StoreTarget("x", lambda *_: None, contract, Accepts(), form, (), None, None)


def test_every_name_is_listed_once_in_order() -> None:
    """Those that `--target` takes, and where each is from."""
    found = listed(imports=False)
    assert tuple(target.name for target in found) == names()
    assert all(target.found for target in found)


def test_the_plain_list_imports_neither_torch_nor_an_engine() -> None:
    """An engine is looked for on the path; its import may take minutes, or a GPU."""
    script = dedent("""
        import sys
        from kvcheck.targets.listing import listed
        assert [one for one in listed(imports=False) if one.name == "conch"][0].contract
        assert not {"torch", "triton", "conch", "numpy"} & set(sys.modules)
    """)
    subprocess.run([sys.executable, "-c", script], check=True)


def test_an_engine_is_listed_with_its_version_and_file(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first copy on the path, by its metadata; the contract is known without it."""
    file = write("conch/ops/vllm/reshape_and_cache.py", "")
    write(
        "conch_triton_kernels-9.8.dist-info/METADATA",
        "Metadata-Version: 2.1\nName: conch-triton-kernels\nVersion: 9.8\n",
    )
    monkeypatch.syspath_prepend(str(file.parents[3]))
    (conch,) = of(listed(imports=False), "conch")
    assert conch.found == f"conch-triton-kernels 9.8, {file}"
    assert conch.contract is not None
    assert conch.contract.startswith("stores e4m3fn; a given scale a tensor")
    assert conch.missing is None


def test_an_engine_that_is_not_there_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """And is listed all the same."""
    monkeypatch.setattr(sys, "path", [])
    for name in ENGINES:
        (found,) = of(listed(imports=False), name)
        assert found.missing is not None
        assert found.missing.startswith("not found; ")
        assert "--engine-path" in found.missing


def test_a_checkout_has_no_version(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without metadata beside it is a checkout's, whatever is installed elsewhere."""
    file = write("vllm/v1/attention/ops/triton_reshape_and_cache_flash.py", "")
    monkeypatch.syspath_prepend(str(file.parents[4]))
    (found,) = of(listed(imports=False), "vllm-diffkv")
    assert found.found == f"vllm (a checkout), {file}"


def test_with_imports_every_target_says_what_it_promises() -> None:
    """All of kvcheck's own can be imported here; engines say what they lack."""
    found = listed(imports=True)
    assert tuple(target.name for target in found) == names()
    assert [target.name for target in found if target.contract is None] == []
    assert [target.name for target in found if target.missing and target.name not in ENGINES] == []


def test_a_plug_in_is_listed_with_its_distribution(write: Write) -> None:
    """It is imported where asked for alone."""
    write("plugged_module.py", PLUGIN)
    installed(write, {"plugged": "plugged_module:plugged"})
    (plain,) = of(listed(imports=False), "plugged")
    assert plain == Listed("plugged", "entry point of plugs 1.2: plugged_module:plugged")
    assert "plugged_module" not in sys.modules
    (long,) = of(listed(imports=True), "plugged")
    assert (
        long.contract
        == "stores e4m3fn; a scale a token and head, amax / 448, applied by divide; uint8 in slots, scales apart"
    )
    assert long.missing is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("import no_such_engine", "no_such_engine"),
        ("plugged = 1", "is int; expected a target"),
        ("import nothing_here", "nothing_here"),
    ],
)
def test_a_broken_plug_in_is_reported_and_skipped(write: Write, text: str, says: str) -> None:
    """The list goes on after it."""
    write("broken_module.py", text)
    installed(write, {"broken": "broken_module:plugged", "last": "broken_module:plugged"})
    found = listed(imports=True)
    (broken,) = of(found, "broken")
    assert broken.missing is not None
    assert says in broken.missing
    assert "\n" not in broken.missing
    assert found[-1].name == "last"


def test_a_plug_in_does_not_replace_a_target(write: Write) -> None:
    """The built-in one comes first, and the list says so."""
    installed(write, {"store": "plugged_module:plugged"})
    first, second = of(listed(imports=False), "store")
    assert first.found.startswith("kvcheck ")
    assert second.missing == "skipped: a target before it in this list has its name"


@pytest.mark.parametrize(
    ("contract", "form", "line"),
    [
        (Contract(None), Form("fused", scales="none"), "stores e4m3fn; no scale; uint8 in slots, K beside V"),
        (
            Contract(Given("head", direction="multiplier"), format="e5m2"),
            Form("packed", page=8, scales="none"),
            "stores e5m2; a given scale a head, multiplied with; uint8 in pages of 8, K beside V",
        ),
        (
            Contract(Computed("block:32", maximum=127.0), format="int8"),
            Form("heads_pages", codes="int8", scales="none"),
            "stores int8; a scale a block of 32, amax / 127, applied by divide; int8 in pages of 16, heads first",
        ),
    ],
)
def test_a_contract_is_one_line(contract: Contract, form: Form, line: str) -> None:
    """What a reader looks for first: format, scale, arithmetic, cache."""
    assert contract_line(store(contract, form)) == line


@pytest.mark.parametrize(("on", "says"), [("amax", "(amax + 1e-08) / 127"), ("scale", "amax / 127 + 1e-08")])
def test_what_is_added_is_said_where_it_is(on: str, says: str) -> None:
    """A least value changes few scales, and is left out; a sum changes all."""
    rule = Computed(maximum=127.0, eps=1e-8, eps_on=on, eps_as="added")  # type: ignore[arg-type]
    assert f"a scale a token and head, {says}, applied" in contract_line(store(Contract(rule), Form()))
    assert "1e-08" not in contract_line(store(Contract(Computed(eps=1e-8)), Form()))


@pytest.mark.parametrize(("scale", "says"), [(None, "no scale"), ("token_head", "one scale a token and head")])
def test_a_load_says_what_it_loads(scale: str | None, says: str) -> None:
    """The format of the codes, and of the rows."""
    contract = LoadContract(scale=scale)  # type: ignore[arg-type]
    target = LoadTarget("x", lambda *_: None, contract, Accepts(), Form("pages"), (), None, None)
    assert contract_line(target) == f"loads e4m3fn as bf16; {says}; uint8 in pages of 16, scales apart"
