"""The extensions of book/_ext on a small book: numbers, anchors, definitions, warnings."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

ROOT = Path(__file__).parents[2]
GLOSSARY = """# Words

```{glossary}
step
  One pass of the {term}`engine`.

engine
  What takes a {term}`step`.

given
  Assumed, never `measured`.
```
"""


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, str]]:
    """`build(cell, cell, ...)`: the page of a chapter with these cells, and the warnings."""
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))

    def run(*cells: nbformat.NotebookNode) -> tuple[str, str]:
        source = tmp_path / "book"
        (source / "chapters").mkdir(parents=True)
        (source / "index.md").write_text(
            "# B\n```{toctree}\nwords\nchapters/07-roof\n```\n", "utf-8"
        )
        (source / "words.md").write_text(GLOSSARY, "utf-8")
        title = nbformat.v4.new_markdown_cell("# Roof")
        python = {"language_info": {"name": "python"}}
        notebook = nbformat.v4.new_notebook(cells=[title, *cells], metadata=python)
        nbformat.write(notebook, source / "chapters" / "07-roof.ipynb")
        warnings = io.StringIO()
        extensions = ["myst_nb", "definitions", "numbering", "notebooks", "screen_readers"]
        settings = {"extensions": extensions, "nb_execution_mode": "off", "nitpicky": True}
        out = tmp_path / "out"
        with docutils_namespace():
            Sphinx(
                source, None, out, tmp_path / "trees", "html", settings,
                status=None, warning=warnings,
            ).build()  # fmt: skip
        return (out / "chapters" / "07-roof.html").read_text("utf-8"), warnings.getvalue()

    return run


def code(output: str | None = "42", **metadata: str) -> nbformat.NotebookNode:
    """A code cell that has printed something."""
    outputs = [nbformat.v4.new_output("stream", text=output)] if output else []
    return nbformat.v4.new_code_cell("x", metadata=metadata, outputs=outputs)


def text(source: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_markdown_cell(source)


def test_numbers_count_within_the_chapter_and_each_kind_for_itself(build):
    page, warnings = build(
        code(figure="ceilings"), code(), code(table="sizes"), code(figure="points"),
        text("See {ref}`figure-points` and {ref}`table-sizes`."),
    )  # fmt: skip
    assert warnings == ""
    for anchor, title in (("figure-ceilings", "7.1"), ("figure-points", "7.2")):
        assert f'id="{anchor}"' in page
        assert f'href="#{anchor}">Figure {title}</a>' in page
    assert 'href="#table-sizes">Table 7.1</a>' in page
    assert '<span class="std std-ref">Figure 7.2</span>' in page
    assert page.count("Show this figure alone") == 2


def test_an_example_has_an_anchor_that_does_not_hang_on_its_words(build):
    page, warnings = build(text("## Example 7.1: two roofs\n\nSee {ref}`example-7-1`."))
    assert warnings == ""
    assert '<section id="example-7-1">' in page
    assert '<span class="std std-ref">Example 7.1</span>' in page


def test_an_anchor_may_also_be_written_by_hand(build):
    page, warnings = build(text("(example-7-1)=\n## Example 7.1: two roofs"))
    assert warnings == ""
    assert page.count('id="example-7-1"') == 1


@pytest.mark.parametrize(
    ("cells", "warning"),
    [
        ([code(figure="a"), code(figure="a")], "two things on this page are called figure-a"),
        ([code(output=None, figure="a")], "figure a shows nothing"),
        ([text("{term}`nothing`")], "term not in glossary: 'nothing'"),
        ([text("{tag}`guessed`")], "term not in glossary: 'guessed'"),
    ],
)
def test_what_is_wrong_is_a_warning(build, cells, warning):
    assert warning in build(*cells)[1]


def test_a_page_brings_the_definitions_that_it_needs_with_links_that_work_there(build):
    page, warnings = build(text("One {term}`Step` is {tag}`given`."))
    assert warnings == ""
    assert page.count('id="definition-term-step" data-name="step"') == 1
    assert page.count("One pass of the") == 1
    assert 'href="../words.html#term-engine"' in page
    assert "Assumed, never" in page
    assert 'id="definition-term-engine"' not in page


def test_a_page_without_terms_brings_none(build):
    assert "definition-term" not in build(text("Nothing."))[0]


def test_heads_of_tables_say_which_way_they_look_and_an_empty_cell_is_none(build):
    page, _ = build(text("| | what is cut |\n|---|---|\n| DP | requests |"))
    assert '<th class="head" scope="col"><p>what is cut</p></th>' in page
    assert page.count("<th") - page.count("<thead") == 1


def test_a_chapter_offers_its_notebook(build, tmp_path):
    page = build(text("Nothing."))[0]
    assert 'href="../_notebooks/07-roof.ipynb" download' in page
    assert (tmp_path / "out" / "_notebooks" / "07-roof.ipynb").is_file()
    assert "as-notebook" not in (tmp_path / "out" / "words.html").read_text("utf-8")
