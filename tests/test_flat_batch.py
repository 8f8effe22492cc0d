"""A step as tensors: positions, slots and reads of a batch that fits on a board."""

from __future__ import annotations

import pytest

from lab.model.config import ModelConfig
from lab.model.flat_batch import FlatBatch, Span
from lab.model.kv_tensors import KVTensors

CONFIG = ModelConfig(layers=1, hidden=4, ffn=4, heads=2, kv_heads=1, head_dim=2, vocab=5)
KV = KVTensors(CONFIG, num_blocks=40, block_tokens=4)


def test_a_decode_a_chunk_and_a_draft_check_on_the_board() -> None:
    decode = Span(tokens=1, stop=6, table=(7, 3))
    chunk = Span(tokens=3, stop=5, table=(9, 2), asked=0)
    check = Span(tokens=2, stop=2, table=(5,), asked=2)
    batch = FlatBatch.of([decode, chunk, check], KV)
    assert batch.positions_T.tolist() == [5, 2, 3, 4, 0, 1]
    assert batch.slots_T.tolist() == [3 * 4 + 1, 38, 39, 8, 20, 21]
    assert batch.asked_R.tolist() == [0, 4, 5]
    assert [read.rows for read in batch.reads] == [slice(0, 1), slice(1, 6)]
    assert [read.rows for read in batch.asked_reads] == [slice(0, 1), slice(1, 3)]
    decodes, chunks = (read.context for read in batch.reads)
    assert (decodes.queries, decodes.lengths) == ((1,), (6,))
    assert (chunks.queries, chunks.lengths) == ((3, 2), (5, 2))
    assert [c.tables_SN.tolist() for c in (decodes, chunks)] == [[[7, 3]], [[9, 2], [5, 0]]]


def test_the_last_layer_reads_tails_as_decodes() -> None:
    spans = [Span(1, 9, (0, 1, 2)), Span(6, 10, (3, 4, 5)), Span(9, 9, (6, 7, 8), asked=0)]
    batch = FlatBatch.of(spans, KV)
    assert [read.context.is_decode for read in batch.reads] == [True, False]
    (read,) = batch.asked_reads
    assert read.rows == slice(0, 2)
    assert (read.context.queries, read.context.lengths) == ((1, 1), (9, 10))
    assert batch.asked_R.tolist() == [0, 6]


def test_a_step_may_ask_for_nothing() -> None:
    batch = FlatBatch.of([Span(3, 3, (0,), asked=0)], KV)
    assert (batch.asked_R.tolist(), batch.asked_reads) == ([], ())


@pytest.mark.parametrize(
    ("span", "message"),
    [
        (Span(0, 4, (0,)), "a span has 1 to stop = 4 tokens, got 0"),
        (Span(5, 4, (0, 1)), "a span has 1 to stop = 4 tokens, got 5"),
        (Span(2, 4, (0,), asked=3), r"asked must be in \[0, 2\], got 3"),
        (Span(2, 4, (0,), asked=-1), r"asked must be in \[0, 2\], got -1"),
        (Span(1, 9, (0, 1)), "a span up to position 9 needs 3 blocks, and its table has 2"),
    ],
)
def test_a_span_that_cannot_be_computed_is_named(span: Span, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FlatBatch.of([Span(1, 4, (3,)), span], KV)


def test_a_step_without_tokens_is_a_fault() -> None:
    with pytest.raises(ValueError, match="a step computes at least 1 token, got no spans"):
        FlatBatch.of([], KV)
