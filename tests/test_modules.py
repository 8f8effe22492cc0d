"""The sources of a widget joined: each module in a scope of its own, none reaching a file."""

import re

import pytest

from lab.widgets import modules

WIDGETS = ["player", "what_if"]


@pytest.mark.parametrize("name", WIDGETS)
def test_a_widget_imports_nothing_and_exports_only_itself(name):
    text = modules.module(name)
    assert not re.findall(r"^\s*import\b", text, re.MULTILINE)
    assert re.findall(r"^export default .*$", text, re.MULTILINE) == ["export default { render };"]


@pytest.mark.parametrize("name", WIDGETS)
def test_every_name_that_is_imported_is_there(name):
    text = modules.module(name)
    made = dict(re.findall(r"return \{ ([^}]*) \};\n\}\)\(\);()", text))
    offered = {n for names in made for n in names.split(", ")}
    wanted = re.findall(r"^const \{([^}]*)\} = \$\$\w+;$", text, re.MULTILINE)
    assert wanted
    assert {n.split(":")[0].strip() for names in wanted for n in names.split(",")} <= offered


def test_a_module_that_two_import_stands_once_and_before_both():
    text = modules.module("what_if")
    assert text.count("const $$dom = ") == 1
    assert text.index("const $$dom = ") < text.index("const $$lanes = ")
    assert text.index("const $$lanes = ") < text.index("const $$player = ")


def test_a_joined_module_has_the_defaults_of_the_others_left_out(tmp_path, monkeypatch):
    (tmp_path / "leaf.js").write_text("export const one = 1;\nexport default { one };\n")
    (tmp_path / "root.js").write_text(
        'import { one as uno } from "./leaf.js";\nexport default { uno };\n'
    )
    monkeypatch.setattr(modules, "_HERE", tmp_path)
    assert modules.module("root") == (
        "const $$leaf = (() => {\nconst one = 1;\n\n\nreturn { one };\n})();\n"
        "const { one: uno } = $$leaf;\nexport default { uno };\n"
    )


def test_the_style_sheet_holds_the_palette_and_the_looks():
    assert "--tif-ink" in modules.style()
    assert ".tif-player" in modules.style()
