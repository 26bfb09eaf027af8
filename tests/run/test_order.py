"""Cases that share a compiled kernel: one goes ahead, the others follow."""

from __future__ import annotations

from collections.abc import Hashable

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kvcheck.contract import Accepts, Computed, Contract, Form
from kvcheck.memory.place import place
from kvcheck.run.order import Order, kernel_key
from kvcheck.schema import Case

CONTRACT = Contract(scale=Computed("token_head"))


def _drained(order: Order) -> list[int]:
    found = []
    while (number := order.pop()) is not None:
        found.append(number)
    return found


def test_the_first_of_each_key_goes_ahead() -> None:
    """The rest come out once it has ended, in their order; another key's stay."""
    order = Order(range(6), {0: "a", 1: "a", 2: "b", 3: "a", 4: "b"})
    assert _drained(order) == [0, 2, 5]
    assert order
    order.ended(2)
    assert _drained(order) == [4]
    order.ended(4)
    order.ended(0)
    assert _drained(order) == [1, 3]
    assert not order


@given(st.lists(st.none() | st.integers(0, 3)), st.integers(1, 4), st.randoms(use_true_random=False))
def test_every_case_comes_out_once_and_no_key_is_compiled_twice(
    names: list[int | None], room: int, chance: object
) -> None:
    """Whatever ends first: until a key's first case has ended no other of it has started."""
    keys: dict[int, Hashable] = {number: name for number, name in enumerate(names) if name is not None}
    order = Order(range(len(names)), keys)
    started: list[int] = []
    running: list[int] = []
    compiled: set[Hashable] = set()
    while order or running:
        while len(running) < room and (number := order.pop()) is not None:
            assert number not in keys or keys[number] in compiled or keys[number] not in map(keys.get, running)
            running.append(number)
            started.append(number)
        assert running, "cases are left and none may start"
        ended = running.pop(chance.randrange(len(running)))  # type: ignore[attr-defined]
        order.ended(ended)
        compiled.add(keys.get(ended))
    assert sorted(started) == list(range(len(names)))


def _key(**axes: object) -> Hashable:
    case = msgspec.structs.replace(Case(), **axes)
    return kernel_key(case, place(case, CONTRACT, Form("slots"), Accepts(), cuda=True))


def test_a_key_tells_apart_what_triton_compiles_apart() -> None:
    """Values, seeds and the number of tokens compile nothing anew; dtypes, shapes, views and one token do."""
    assert _key() == _key(seed=7) == _key(k_values="normal*5") == _key(tokens=24)
    keys = [_key(), _key(dtype="fp32"), _key(heads=2), _key(head_dim=64), _key(k_view="qkv"), _key(tokens=1)]
    assert len(set(keys)) >= 5
