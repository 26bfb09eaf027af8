"""Where matrices are found."""

from pathlib import Path

import pytest

from kvcheck.errors import MatrixError
from kvcheck.matrix import files


def test_in_a_checkout_they_lie_beside_the_package() -> None:
    """This checkout has the seed."""
    assert files.shipped() == Path(__file__).parents[2] / "matrices"
    assert "seed" in files.names()


def test_installed_they_lie_in_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a pyproject.toml beside the package its own folder is taken, even if another is called matrices."""
    (tmp_path / "matrices").mkdir()
    monkeypatch.setattr(files, "__file__", str(tmp_path / "kvcheck" / "matrix" / "files.py"))
    assert files.shipped() == tmp_path / "kvcheck" / "matrices"
    assert files.names() == ()
    with pytest.raises(MatrixError, match=r"^seed: no such matrix file; the shipped ones are none$"):
        files.find("seed")
    (tmp_path / "pyproject.toml").touch()
    assert files.shipped() == tmp_path / "matrices"


@pytest.mark.parametrize("name", ["seed", "seed.toml", "matrices/seed", "matrices/seed.toml", Path("seed")])
def test_shipped_names(name: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From any folder, with or without the suffix and the folder's name; a folder of that name is not in the way."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seed").mkdir()
    assert files.find(name) == files.shipped() / "seed.toml"


def test_a_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the user's own is taken before a shipped one of the same name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seed.toml").touch()
    assert files.find("seed.toml") == Path("seed.toml")
    assert files.find("seed") == files.shipped() / "seed.toml"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sead", "sead: no such matrix file; did you mean 'seed'?"),
        ("other/seed.toml", "other/seed.toml: no such matrix file; did you mean 'seed'?"),
        ("zzzzzzzz", "zzzzzzzz: no such matrix file; the shipped ones are "),
        ("here", "here: is a directory; expected a TOML file"),
        ("x" * 300, f"{'x' * 300}: no such matrix file; "),
    ],
)
def test_what_is_not_found(name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, with the nearest shipped name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    with pytest.raises(MatrixError) as raised:
        files.find(name)
    assert str(raised.value).startswith(message)
