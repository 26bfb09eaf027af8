"""The axes: one a field of Case, and what each takes."""

import msgspec
import pytest

from kvcheck.matrix.axes import AXES, build, unknown_axis
from kvcheck.schema import Case


def test_axes_are_the_fields_of_a_case() -> None:
    """Same names, same order, same defaults; every default but None is accepted."""
    assert tuple(AXES) == tuple(field.name for field in msgspec.structs.fields(Case))
    for field in msgspec.structs.fields(Case):
        axis = AXES[field.name]
        assert axis.default == field.default
        assert axis.default is None or axis.check(axis.default) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("k_view", "qkv"),
        ("v_view", "1152,128,1+768"),
        ("k_values", "normal*5"),
        ("v_scale", "0.0123"),
        ("tokens", 0),
        ("heads", 1),
        ("head_dim", 576),
        ("head_dim_v", 128),
        ("dtype", "fp32"),
        ("slots", "page_edges"),
        ("slot_dtype", "int32"),
        ("layout", "pooled"),
        ("order", "vk"),
        ("form", "heads_pages"),
        ("page", 784),
        ("requests", "one"),
        ("cross", "none"),
        ("launch", "eager"),
        ("align", 1),
        ("align", 4096),
        ("seed", (1 << 63) - 1),
    ],
)
def test_values_are_accepted(name: str, value: str | int) -> None:
    """A value in its own type; its text is read back as itself."""
    assert AXES[name].check(value) is None
    assert AXES[name].parse(str(value)) == value


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("k_view", "qvk", "dense, qkv"),
        ("k_view", 3, "dense, qkv"),
        ("k_values", "normal*0", "normal, uniform"),
        ("k_scale", "0", "a positive decimal"),
        ("tokens", -1, "an integer from 0 to 16777216"),
        ("tokens", "8", "an integer from 0"),
        ("tokens", 8.0, "an integer from 0"),
        ("tokens", True, "an integer from 0"),
        ("heads", 0, "an integer from 1 to 4096"),
        ("head_dim", 0, "an integer from 1 to 65536"),
        ("dtype", "fp8", "'bf16' or 'fp16' or 'fp32'"),
        ("slots", "sorted", "ascending, permuted"),
        ("layout", "scattered", "'arena' or 'pooled'"),
        ("form", "page", "'slots' or 'pages' or 'heads_pages' or 'packed' or 'fused'"),
        ("align", 3, "a power of two from 1 to 4096, in bytes"),
        ("align", 0, "a power of two"),
        ("align", 8192, "a power of two"),
        ("seed", 1 << 63, "an integer from 0"),
    ],
)
def test_others_say_what_was_expected(name: str, value: object, accepted: str) -> None:
    """Another type, a bool, or a value outside gives a sentence with what is accepted."""
    reason = AXES[name].check(value)
    assert reason is not None
    assert reason.startswith(f"expected {accepted}")


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "\u0663", "9" * 5000, "9" * 19])
def test_texts_that_are_no_number(text: str) -> None:
    """A number is plain digits, within the axis' range."""
    assert AXES["tokens"].parse(text) is None
    assert AXES["tokens"].parse("008") == 8


def test_unknown_axes_name_the_nearest() -> None:
    """A near name is suggested; without one all axes are listed."""
    assert unknown_axis("k_veiw") == "unknown axis 'k_veiw'; did you mean 'k_view'?"
    assert unknown_axis("zzz").startswith("unknown axis 'zzz'; the axes are k_view, v_view, ")


def test_build_leaves_an_equal_head_dim_v_out() -> None:
    """Naming K's own head_dim for V is no other case."""
    assert build({"head_dim": 64, "head_dim_v": 64}) == Case(head_dim=64)
    assert build({"head_dim": 192, "head_dim_v": 128}) == Case(head_dim=192, head_dim_v=128)
    assert build({}) == Case()
