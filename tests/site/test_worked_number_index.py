"""The anchors of worked numbers and their list, on a small book of two chapters."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
import yaml
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

import lab
from lab.worked_numbers import entries

ROOT = Path(__file__).parents[2]
NUMBER, OTHER = "roofline-20gb-example", "kv-worked-mha-4gib"
RULE = "roofline-is-a-bound-not-a-measurement"
Cells = list[nbformat.NotebookNode]


class Built:
    """The pages of the small book, and the warnings."""

    def __init__(self, out: Path, warnings: str) -> None:
        self.warnings = warnings
        self.roof, self.kv, self.index = (
            (out / page).with_suffix(".html").read_text("utf-8")
            for page in ("chapters/07-roofline", "chapters/05-kv-memory", "book/worked-numbers")
        )

    def row(self, id: str) -> str:
        """What the list says of an entry."""
        _, _, rest = self.index.partition(f'id="{id}"')
        return re.split(r'<div class="number-row|</section>', rest)[0]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Built]:
    """`build(cells of chapter 7, of chapter 5, reasons, title of chapter 7)`."""
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))

    def run(
        roof: Cells,
        kv: Cells | None = None,
        left_out: dict[str, str] | None = None,
        title: nbformat.NotebookNode | None = None,
    ) -> Built:
        source = tmp_path / "source"
        (source / "book").mkdir(parents=True)
        (source / "chapters").mkdir()
        chapters = (ROOT / "book" / "chapters.yaml").read_text("utf-8")
        unfinished = chapters.replace("finished: true", "finished: false")
        (source / "book" / "chapters.yaml").write_text(unfinished, "utf-8")
        (source / "book" / "not_covered.yaml").write_text(yaml.safe_dump(left_out or {}), "utf-8")
        (source / "book" / "worked-numbers.md").write_text(
            "# Numbers\n\n```{worked-number-index}\n```\n", "utf-8"
        )
        pages = "book/worked-numbers\nchapters/05-kv-memory\nchapters/07-roofline"
        (source / "index.md").write_text(f"# B\n```{{toctree}}\n{pages}\n```\n", "utf-8")
        for name, cells in (("07-roofline", roof), ("05-kv-memory", kv or [])):
            python = {"language_info": {"name": "python"}}
            first = title or text(f"# Chapter {name[:2]}")
            notebook = nbformat.v4.new_notebook(cells=[first, *cells], metadata=python)
            title = None
            nbformat.write(notebook, source / "chapters" / f"{name}.ipynb")
        extensions = ["myst_nb", "numbering"]
        extensions += [f"book._ext.worked_number_{part}" for part in ("anchors", "index")]
        settings = {"extensions": extensions, "nb_execution_mode": "off", "nitpicky": True}
        warnings = io.StringIO()
        with docutils_namespace():
            Sphinx(
                source, None, tmp_path / "out", tmp_path / "trees", "html", settings,
                status=None, warning=warnings,
            ).build()  # fmt: skip
        return Built(tmp_path / "out", warnings.getvalue())

    return run


def number(source: str = f'lab.worked("{NUMBER}", t)', **metadata: object) -> nbformat.NotebookNode:
    """A code cell that checks a number and shows its row in a fold."""
    row = lab.checked(lab.worked(NUMBER, 20))._repr_html_()
    output = nbformat.v4.new_output("execute_result", {"text/html": row, "text/plain": "ok"})
    return nbformat.v4.new_code_cell(source, metadata=metadata, outputs=[output])


def text(source: str, **metadata: object) -> nbformat.NotebookNode:
    return nbformat.v4.new_markdown_cell(source, metadata=metadata)


def code(source: str, **metadata: object) -> nbformat.NotebookNode:
    return nbformat.v4.new_code_cell(source, metadata=metadata)


def test_the_row_of_a_number_has_the_anchor_and_the_list_links_it(build):
    built = build([text("## Example 7.1: a read"), code("import lab\nt = 20"), number()])
    assert built.warnings == ""
    row = f'<div class="worked-number" id="worked-{NUMBER}"><code>{NUMBER}</code>'
    assert built.roof.count(row) == 1
    link = (
        f'In <a href="../chapters/07-roofline.html#worked-{NUMBER}">'
        "chapter 7 (Compute or bandwidth?), Example 7.1: a read</a>"
    )
    assert link in built.row(NUMBER)


def test_a_number_without_a_row_is_its_cell(build):
    built = build([code(f'row = worked("{NUMBER}", t)')])
    assert built.warnings == ""
    assert re.search(rf'<div class="cell[^"]*" id="worked-{NUMBER}"', built.roof)


@pytest.mark.parametrize(
    ("cell", "place"),
    [
        (text("## Bound\n\nIt is one.", covers=[RULE]), r"</h2>\s*<span [^>]*{}"),
        (text("It is one.", covers=[RULE]), r"{}[^>]*></span><p>It is one"),
        (
            text("<details><summary>S</summary></details>", covers=[RULE]),
            r"{}[^>]*></span><details",
        ),
        (text("- It\n- is", covers=[RULE]), r"{}[^>]*></span><ul"),
        (code("1 + 1", covers=[RULE]), r'<div class="cell[^>]*{}'),
    ],
)
def test_a_cell_that_covers_an_entry_has_the_anchor(build, cell, place):
    built = build([text("Before."), cell, text("After.")])
    assert built.warnings == ""
    assert re.search(place.format(f'id="worked-{RULE}"'), built.roof)
    assert f"#worked-{RULE}" in built.row(RULE)


def test_an_anchor_in_the_cell_of_the_title_leaves_it_the_title(build):
    built = build([], title=text("# Roof\n\nIt is a bound.", covers=[RULE]))
    assert built.warnings == ""
    assert built.roof.count("<h1>Roof<") == 1
    assert built.roof.index("<h1>Roof<") < built.roof.index(f'id="worked-{RULE}"')


def test_what_is_covered_twice_has_two_anchors(build):
    again = text("Again.", covers=[RULE])
    built = build([text("Once.", covers=[RULE, RULE]), again], [text("First.", covers=[RULE])])
    assert built.warnings == ""
    assert built.kv.count(f'id="worked-{RULE}"') == 1
    assert re.findall(rf'id="(worked-{RULE}[^"]*)"', built.roof) == [
        *(f"worked-{RULE}--2", f"worked-{RULE}--3")
    ]
    row = built.row(RULE)
    assert row.count("; and in ") == 2
    assert f'07-roofline.html#worked-{RULE}--3"' in row


def test_a_cell_that_is_removed_is_a_warning(build):
    removed = code("1 + 1", covers=[RULE], tags=["remove-cell"])
    assert f"worked-{RULE} has no place on this page" in build([removed]).warnings


def test_the_list_has_every_entry_once_and_counts_them(build):
    built = build([number()], left_out={RULE: "told <elsewhere>"})
    ids = re.findall(r'<div class="number-row" id="([^"]+)"', built.index)
    assert sorted(ids) == sorted(entries())
    words = f"{len(ids)} entries: 1 covered, {len(ids) - 2} not yet written, 1 left out"
    assert words in built.index
    assert "Left out: told &lt;elsewhere&gt;" in built.row(RULE)
    assert "Not yet written: chapter 5, What does the cache weigh?</p>" in built.row(OTHER)
    assert "<a href" not in built.row(OTHER).partition('class="where"')[2]


def test_topics_have_words_and_the_order_of_the_book(build):
    titles = re.findall(r"<h2>(.*?)<", build([]).index)
    assert titles[0] == "How this book works"
    assert titles.index("Batching") < titles.index("The KV cache") < titles.index("Deployment")
    assert titles[-2:] == ["Where the sources disagree", "Where a source is unclear"]


def test_right_and_wrong_stand_side_by_side(build):
    row = build([]).row("latency-timeline-row-3-tpot")
    result, _, wrong = row.partition("<dt>The wrong way</dt>")
    assert "<dt>Result</dt><dd><code>tpot</code> 20 ms</dd>" in result
    assert "45 ms" in wrong


def test_what_is_disputed_says_what_holds(build):
    row = build([]).row("quant-constant-tensor-division-by-zero")
    assert "<strong>Disputed:</strong>" in row
    assert "without dividing by zero" in row


def test_the_lines_that_compute_a_number_are_in_its_row(build):
    built = build([code("import lab\nt = 20\nprint(t < 3)"), number()])
    lines = f'import lab\nt = 20\nlab.worked("{NUMBER}", t)'.replace("<", "&lt;")
    assert f"<pre>{lines}</pre>" in built.row(NUMBER)
    assert "<pre>" not in built.row(RULE)


def test_a_disagreement_names_sources_by_letter_and_what_is_used_here(build):
    row = build([], [number()]).row("conf-prefix-key")
    assert "<li>Source B, 6.9: seven" in row
    assert "<strong>Used here:</strong>" in row
    assert '<a href="#prefix-key-002">prefix-key-002</a>: Not yet written' in row


def test_no_file_of_a_source_is_named(build):
    index = re.sub(r'(id|href|label)="[^"]*"|>[a-z0-9-]+</a>', "", build([]).index)
    assert re.findall(r"(?<![\w.,-])00[023](?!\w)", re.sub(r"<script.*?</script>", "", index)) == []


def test_only_the_list_brings_its_script(build):
    built = build([])
    assert "worked_numbers.js" in built.index
    assert "worked_numbers.js" not in built.roof
