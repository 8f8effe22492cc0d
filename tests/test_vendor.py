"""What the pages take from npm is named exactly, and from nowhere in particular."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from book import vendor

LOCK = json.loads((vendor.WANTED / "package-lock.json").read_text("utf-8"))
WANTED = json.loads((vendor.WANTED / "package.json").read_text("utf-8"))


def test_every_version_is_exact() -> None:
    for name, version in (WANTED["dependencies"] | WANTED["devDependencies"]).items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version), name
        assert LOCK["packages"][f"node_modules/{name}"]["version"] == version


def test_everything_has_a_checksum_and_names_no_host() -> None:
    for name, entry in LOCK["packages"].items():
        if name:
            assert entry["integrity"].startswith("sha512-"), name
            assert "resolved" not in entry, name


def test_what_html_manager_was_built_from_is_not_fetched() -> None:
    names = {name.removeprefix("node_modules/") for name in LOCK["packages"] if name}
    asked = WANTED["dependencies"] | WANTED["devDependencies"]
    assert names == {*asked, "@types/emscripten", "ws"}  # pyodide's


def test_another_lock_file_needs_another_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in vendor.FILES:
        (tmp_path / name).write_bytes((vendor.WANTED / name).read_bytes())
    before = vendor.stamp()
    monkeypatch.setattr(vendor, "WANTED", tmp_path)
    assert vendor.stamp() == before
    with (tmp_path / "package-lock.json").open("a") as file:
        file.write("\n")
    assert vendor.stamp() != before


def test_what_is_there_is_not_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(vendor, "FOLDER", tmp_path)
    fetched: list[bool] = []
    monkeypatch.setattr(vendor, "fetch", lambda: fetched.append(True))
    vendor.main()
    vendor.stamp().touch()
    vendor.main()
    assert fetched == [True]
    assert capsys.readouterr().out.count("Fetching") == 1


def test_a_fetch_that_fails_gives_advice_and_leaves_no_stamp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vendor, "FOLDER", tmp_path / "vendor")
    monkeypatch.setattr(vendor, "program", lambda name: [str(tmp_path / "no such program")])
    with pytest.raises(SystemExit, match="Is there a network"):
        vendor.fetch()
    assert not vendor.stamp().exists()
