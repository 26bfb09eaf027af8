"""Matrix files as data, and the one line that each mistake in one gives."""

from pathlib import Path

import pytest

from kvcheck.errors import MatrixError
from kvcheck.matrix.document import Document, Sample, read


def _read(folder: Path, text: str) -> Document:
    path = folder / "m.toml"
    path.write_text(text, encoding="utf-8")
    return read(path)


def test_a_whole_file(tmp_path: Path) -> None:
    """Every table arrives as data; a value listed twice counts once."""
    document = _read(
        tmp_path,
        """
        [axes]
        k_view = ["dense", "qkv", "dense"]
        tokens = [0, 8]
        [fixed]
        heads = 2
        [[exclude]]
        k_view = "qkv"
        tokens = [0]
        heads = 2
        [[case]]
        head_dim = 64
        [sample]
        strength = 3
        """,
    )
    assert document.axes == {"k_view": ("dense", "qkv"), "tokens": (0, 8)}
    assert document.fixed == {"heads": 2}
    assert document.excludes == ({"k_view": ("qkv",), "tokens": (0,), "heads": (2,)},)
    assert document.cases == ({"head_dim": 64},)
    assert document.sample == Sample(strength=3, seed=0)


def test_what_is_not_there_has_its_default(tmp_path: Path) -> None:
    """An empty file is an empty document, without a sample; an empty [sample] is pairs."""
    document = _read(tmp_path, "")
    assert (document.axes, document.fixed, document.excludes, document.cases) == ({}, {}, (), ())
    assert document.sample is None
    assert _read(tmp_path, "[sample]").sample == Sample(2, 0)
    assert _read(tmp_path, "sample = {seed = 7}").sample == Sample(2, 7)


MISTAKES = [
    ("[axis]\n", "axis: unknown table; did you mean 'axes'?"),
    ("[zzz]\n", "zzz: unknown table; expected axes, fixed, exclude, case, sample"),
    ("axes = 5", "axes: is 5; expected a table"),
    ("[[fixed]]\nheads = 1", "fixed: is [{'heads': 1}]; expected a table"),
    ('[axes]\nk_veiw = ["dense"]', "axes.k_veiw: unknown axis 'k_veiw'; did you mean 'k_view'?"),
    ("[axes]\ntokens = 8", "axes.tokens: is 8; expected a list of values"),
    ("[axes]\ntokens = []", "axes.tokens: is an empty list; expected at least one value"),
    ('[axes]\nk_view = ["dense", "qvk"]', "axes.k_view[1]: 'qvk' is not accepted; expected dense, qkv, "),
    ("[axes]\ntokens = [8, true]", "axes.tokens[1]: True is not accepted; expected an integer from 0 to 16777216"),
    ("[axes]\ntokens = [8.0]", "axes.tokens[0]: 8.0 is not accepted; expected an integer"),
    ("[axes]\ntokens = [1979-05-27]", "axes.tokens[0]: datetime.date(1979, 5, 27) is not accepted; expected an"),
    ('[axes]\nk_view = ["a\\nb"]', "axes.k_view[0]: 'a\\nb' is not accepted; "),
    (f'[axes]\nk_view = ["{"x" * 99}"]', f"axes.k_view[0]: '{'x' * 56}... is not accepted; "),
    ("[fixed]\nheads = [1]", "fixed.heads: [1] is not accepted; expected an integer"),
    ("[axes]\nheads = [1]\n[fixed]\nheads = 1", "fixed.heads: is also in [axes]; expected one of the two"),
    ("[exclude]\nheads = 1", "exclude: expected an array of tables: [[exclude]]"),
    ("exclude = [3]", "exclude[0]: is 3; expected a table"),
    ("[[exclude]]", "exclude[0]: is empty; expected axes and the values to drop"),
    ("[[exclude]]\nheads = 0", "exclude[0].heads: 0 is not accepted; expected an integer"),
    ("[[exclude]]\nheads = [3, 0]", "exclude[0].heads[1]: 0 is not accepted; expected an integer"),
    ("[[exclude]]\nhaeds = 3", "exclude[0].haeds: unknown axis 'haeds'; did you mean 'heads'?"),
    ("[[exclude]]\nheads = 2", "exclude[0].heads: matches no case: heads is only 3 here"),
    ("[fixed]\nheads = 1\n[[exclude]]\nheads = [3, 2]", "exclude[0].heads: matches no case: heads is only 1 here"),
    (
        "[axes]\nheads = [1, 2]\n[[exclude]]\nheads = 2\n[[exclude]]\nheads = 3",
        "exclude[1].heads: matches no case: heads is only 1, 2 here",
    ),
    ("[[exclude]]\npage = 16", "exclude[0].page: matches no case: page is only None here"),
    ("[[case]]\n[[case]]\nheads = 0", "case[1].heads: 0 is not accepted; expected an integer"),
    ("[case]\nheads = 1", "case: expected an array of tables: [[case]]"),
    ("sample = 2", "sample: is 2; expected a table"),
    ("[sample]\nstrength = 4", "sample.strength: 4 is not accepted; expected 1, 2 or 3"),
    ("[sample]\nstrength = true", "sample.strength: True is not accepted; expected 1, 2 or 3"),
    ("[sample]\nseed = -1", "sample.seed: -1 is not accepted; expected an integer from 0"),
    ("[sample]\nseed = 1.0", "sample.seed: 1.0 is not accepted; expected an integer from 0"),
    ("[sample]\nsize = 2", "sample.size: unknown key; expected strength or seed"),
    ("[axes]\nk_view = ", "is not TOML: Invalid value (at line 2, column 10)"),
    ("[axes]\nheads = [1]\nheads = [2]", "is not TOML: Cannot overwrite a value (at line 3"),
    (f"tokens = {'9' * 5000}", "is not TOML: "),
    (f"a = {'[' * 100_000}", "is not TOML: "),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES, ids=[message.split(";")[0][:50] for _, message in MISTAKES])
def test_a_mistake_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    """The line has the file, the key, the value, and what is accepted."""
    with pytest.raises(MatrixError) as raised:
        _read(tmp_path, text)
    line = str(raised.value)
    assert line.startswith(f"{tmp_path / 'm.toml'}: {message}")
    assert "\n" not in line


def test_what_is_no_text_file(tmp_path: Path) -> None:
    """A missing file, a folder, bytes that are not UTF-8, a file below a file: one line each."""
    (tmp_path / "b.toml").write_bytes(b'k = "\xff"')
    for name, message in [
        ("a.toml", "no such file"),
        ("", "is a directory; expected a TOML file"),
        ("b.toml", "is not UTF-8 at byte 5; expected a TOML file"),
        ("b.toml/c.toml", "cannot be read: Not a directory"),
    ]:
        with pytest.raises(MatrixError) as raised:
            read(tmp_path / name)
        assert str(raised.value) == f"{tmp_path / name}: {message}"


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    """Some editors put it in front of every file."""
    (tmp_path / "m.toml").write_bytes(b"\xef\xbb\xbf[axes]\ntokens = [1]\n")
    assert read(tmp_path / "m.toml").axes == {"tokens": (1,)}


def test_what_never_ends_is_no_matrix() -> None:
    """A device is read as far as a matrix may go."""
    with pytest.raises(MatrixError) as raised:
        read(Path("/dev/zero"))
    assert str(raised.value) == "/dev/zero: is larger than 64 MiB; expected a TOML file"
