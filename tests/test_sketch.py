"""The four-layer network and the small product: the numbers of the ledger, and rules for others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.parallel.product import split_product
from lab.parallel.sketch import WAYS, Sketch
from lab.worked_numbers import entry, worked

sketches = st.builds(
    Sketch,
    way=st.sampled_from(WAYS),
    layers=st.integers(4, 6),
    devices=st.integers(1, 4),
    layer_mb=st.integers(1, 99),
)


def test_the_ledgers_four_layers():
    inputs = entry("parallel-ledger-inputs").inputs
    four = {"layers": inputs["layers"], "layer_mb": inputs["mb_per_layer"]}
    dp, columns, rows, pp = (Sketch(way=way, devices=inputs["devices"], **four) for way in WAYS)
    worked("parallel-ledger-inputs", dp.total_mb)
    worked(
        "parallel-ledger-row-1-dp",
        {"per_device": dp.per_device_mb, "sum_over_devices": sum(dp.per_device_mb)},
    )
    assert columns.per_device_mb == rows.per_device_mb
    worked(
        "parallel-ledger-row-2-tp",
        {
            "per_device": columns.per_device_mb,
            "per_layer_per_device": columns.held_mb(0) / columns.layers,
        },
    )
    assert {cell.layer + 1 for cell in pp.held(1)} == {3, 4}
    worked("parallel-ledger-row-3-pp", pp.per_device_mb)


def test_only_tensor_parallelism_fits_and_keeps_both_busy():
    found = {way: (Sketch(way=way).fits(300), Sketch(way=way).busy) for way in WAYS}
    assert found["DP"] == (False, (1, 0))
    assert found["PP"][0]
    assert found["PP"][1] == (0.5, 0.5)
    assert found["TP by columns"] == found["TP by rows"] == (True, (1, 1))
    assert [Sketch(way=way).messages for way in WAYS] == [0, 8, 8, 1]


@given(sketches)
def test_all_cells_are_held_once_or_by_everyone(sketch):
    held = [cell for device in range(sketch.devices) for cell in sketch.held(device)]
    copies = sketch.devices if sketch.way == "DP" else 1
    assert sorted(held) == sorted(sketch.cells * copies)
    assert sum(sketch.per_device_mb) == copies * sketch.total_mb


def test_columns_and_rows_cut_the_same_squares_across():
    columns, rows = (Sketch(way=way, layers=1).held(0) for way in WAYS[1:3])
    assert columns == ((0, 0, 0), (0, 1, 0))
    assert rows == ((0, 0, 0), (0, 0, 1))


@given(sketches)
def test_whoever_works_on_a_layer_holds_a_part_of_it_and_all_parts_are_there(sketch):
    worked_on = []
    for moment in sketch.token():
        if moment.exchange:
            assert all({a, b} <= set(moment.devices) for a, b in moment.messages)
            continue
        cells = [c for d in moment.devices for c in sketch.held(d) if c.layer == moment.layer]
        assert sorted(cells) == [c for c in sketch.cells if c.layer == moment.layer]
        worked_on.append(moment.layer)
    assert worked_on == list(range(sketch.layers))


numbers = st.integers(-9, 9)


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.tuples(
            st.lists(numbers, min_size=n, max_size=n),
            st.integers(1, 5).flatmap(
                lambda m: st.lists(
                    st.lists(numbers, min_size=m, max_size=m), min_size=n, max_size=n
                )
            ),
        )
    ),
    st.integers(1, 4),
)
def test_both_cuts_make_the_same_product(matrices, ranks):
    x, w = matrices
    wanted = tuple(sum(a * row[j] for a, row in zip(x, w, strict=True)) for j in range(len(w[0])))
    columns, rows = (split_product(x, w, ranks, by) for by in ("columns", "rows"))
    assert columns.whole == rows.whole == columns.concatenated == wanted
    assert len(rows.concatenated) == ranks * len(wanted)


def test_the_ledgers_product():
    for id, by in (("parallel-tp-column-split", "columns"), ("parallel-tp-row-split", "rows")):
        inputs = entry(id).inputs
        found = split_product(inputs["X"], inputs["W"], 2, by)
        name = "device" if by == "columns" else "partial"
        value = {f"{name}{rank}": part for rank, part in enumerate(found.parts)}
        wrong = found.concatenated if by == "rows" else None
        worked(id, value | {"Y": found.whole}, wrong=wrong)


def test_the_order_of_additions_is_seen_in_the_last_digit():
    terms = [float(term) for term in entry("parallel-float-order-illustration").inputs["terms"]]
    a, b, c = terms
    ones = [[1.0]] * 3
    together = split_product(terms, ones, 1, "rows").whole[0]
    split = split_product([c, b, a], ones, 2, "rows").whole[0]
    assert together == (a + b) + c
    assert split == (c + b) + a
    worked(
        "parallel-float-order-illustration",
        {"equal": together == split, "difference": together - split},
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sketch(way="PP", devices=5), "each stage needs a layer, got 5 stages and 4"),
        (lambda: Sketch(way="SP"), "way must be one of DP, TP by columns, .*, got 'SP'"),
        (lambda: Sketch(way="DP", layers=0), "layers must be at least 1, got 0"),
        (lambda: split_product([1], [[1], [2]], 1, "rows"), "for each of 1 numbers of X, .* got 2"),
        (lambda: split_product([1, 2], [[1], [2, 3]], 1, "rows"), r"2 rows of \[1, 2\]"),
        (lambda: split_product([1], [[1]], 1, "heads"), "by columns or by rows, got 'heads'"),
        (lambda: split_product([1], [[1]], 0, "rows"), "ranks must be at least 1, got 0"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
