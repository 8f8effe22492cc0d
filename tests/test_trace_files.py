"""Public trace files: small files written here for every rule, the real ones where they exist."""

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.request import Request
from lab.trace_files import HashedTokens, RefusedRow, read_requests
from lab.workload import Workload

TRACES = Path(__file__).parents[2] / "shared" / "traces"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
MOONCAKE = '{"timestamp": 27, "input_length": 600, "output_length": 5, "hash_ids": [0, 9]}\n'

WriteFile = Callable[[str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> WriteFile:
    def write_file(content: str | bytes) -> Path:
        path = tmp_path / "trace.txt"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


def timetable(path: Path, **options: float) -> list[tuple[str, object, int, int]]:
    """Id, arrival, prompt and output tokens of each request."""
    requests = read_requests(path, **options)  # type: ignore[arg-type]
    return [(r.id, r.arrival, r.prompt_tokens, r.max_tokens) for r in requests]


def test_an_azure_file_counts_seconds_from_its_first_row(write: WriteFile) -> None:
    path = write(
        AZURE
        + "2023-11-16 23:59:59.9999998,374,44\n"
        + "2023-11-17 00:00:00.0000004,396,109\n"
        + "2023-11-17 00:00:01.5,1,1\n"
    )
    assert timetable(path) == [
        ("r0", 0.0, 374, 44),
        ("r1", 0.000001, 396, 109),
        ("r2", 1.5, 1, 1),
    ]


def test_half_a_microsecond_is_rounded_from_exact_ticks(write: WriteFile) -> None:
    rows = [f"2023-11-16 18:00:00.{ticks:07}," + "1,1\n" for ticks in (0, 4, 6, 14, 16)]
    moments = [moment for _, moment, _, _ in timetable(write(AZURE + "".join(rows)))]
    assert moments == [0.0, 0.0, 0.000001, 0.000001, 0.000002]


def test_the_azure_files_of_2024_have_shorter_fractions_and_a_time_zone(write: WriteFile) -> None:
    path = write(
        AZURE + "2024-05-10 00:00:00.009930+00:00,2162,5\n2024-05-10 00:00:01+00:00,2399,6\n"
    )
    assert timetable(path) == [("r0", 0.0, 2162, 5), ("r1", 0.99007, 2399, 6)]


def test_a_burstgpt_file_refuses_failures_and_names_their_lines(write: WriteFile) -> None:
    path = write(
        BURST
        + "5,ChatGPT,472,18,490,Conversation log\n"
        + "45,ChatGPT,1087,0,1087,API log\n"
        + "118.25,GPT-4,417,276,693,Conversation log\n"
        + "119,GPT-4,0,0,0,API log\n"
    )
    refused: list[RefusedRow] = []
    requests = list(read_requests(path, on_refused=refused.append))
    assert [(r.id, r.arrival) for r in requests] == [("r0", 0.0), ("r2", 113.25)]
    assert refused == [RefusedRow(3, "no output tokens"), RefusedRow(5, "no output tokens")]
    assert timetable(path) == [("r0", 0.0, 472, 18), ("r2", 113.25, 417, 276)]


def test_columns_are_found_by_name(write: WriteFile) -> None:
    path = write("Request tokens,Session ID,Response tokens,Timestamp\n7,x,8,0\n")
    assert timetable(path) == [("r0", 0.0, 7, 8)]


def test_prompts_of_tables_share_no_id(write: WriteFile) -> None:
    path = write(BURST + "1,x,4,1,5,y\n2,x,9,0,9,y\n3,x,2,1,3,y\n")
    assert [r.prompt for r in read_requests(path)] == [range(4), range(4, 6)]


def test_a_mooncake_file_keeps_its_block_hashes(write: WriteFile) -> None:
    path = write(MOONCAKE + MOONCAKE.replace("27", "1027").replace("9", "4"))
    first, second = read_requests(path)
    assert (first.arrival, second.arrival) == (0.0, 1.0)
    assert first.prompt == HashedTokens((0, 9), 600)
    assert first.prompt[511:514] == ((0, 511), (9, 0), (9, 1))
    assert second.prompt[511:513] == ((0, 511), (4, 0))


def test_rows_without_output_are_refused_in_every_format(write: WriteFile) -> None:
    rows = {
        AZURE + "2023-11-16 18:00:00,5,0\n": 2,
        BURST + "5,ChatGPT,5,0,5,API log\n": 2,
        MOONCAKE.replace("5, ", "0, "): 1,
    }
    for content, line in rows.items():
        refused: list[RefusedRow] = []
        assert list(read_requests(write(content), on_refused=refused.append)) == []
        assert refused == [RefusedRow(line, "no output tokens")]


def test_a_workload_keeps_the_refused_rows_and_needs_one_request(write: WriteFile) -> None:
    failure = "6,x,1,0,1,y\n"
    work = Workload.read(write(BURST + "5,x,1,1,2,y\n" + failure))
    assert work.refused == (RefusedRow(3, "no output tokens"),)
    assert (len(work), work.unit, work.name) == (1, "s", "trace.txt")
    assert repr(work).endswith("arrivals 0.0 to 0.0 s, 1 row refused)")
    with pytest.raises(ValueError, match="at least 1 request, got 0, 2 rows refused"):
        Workload.read(write(BURST + failure + failure))


def test_windows_line_endings_a_byte_order_mark_and_blank_lines_are_read(write: WriteFile) -> None:
    table = AZURE + "2023-11-16 18:00:00,5,6\n\n2023-11-16 18:00:01,7,8\n\n"
    expected = [("r0", 0.0, 5, 6), ("r1", 1.0, 7, 8)]
    assert timetable(write(table)) == expected
    assert timetable(write(b"\xef\xbb\xbf" + table.replace("\n", "\r\n").encode())) == expected
    assert len(timetable(write(b"\xef\xbb\xbf" + MOONCAKE.replace("\n", "\r\n").encode()))) == 1


def test_limit_counts_rows_and_never_looks_beyond_them(write: WriteFile) -> None:
    path = write(BURST + "5,x,1,1,2,y\n6,x,1,0,1,y\nnonsense\n")
    assert len(timetable(path, limit=2)) == 1
    with pytest.raises(ValueError, match="line 4"):
        timetable(path, limit=3)


def test_rows_are_read_when_asked_for(write: WriteFile) -> None:
    requests = read_requests(write(BURST + "5,x,1,1,2,y\nnonsense\n"))
    assert isinstance(next(requests), Request)
    with pytest.raises(ValueError, match="line 3"):
        next(requests)


@pytest.mark.parametrize("speed", [4, 4.0, Fraction(4)])
def test_speed_divides_arrivals(write: WriteFile, speed: float) -> None:
    path = write(BURST + "5,x,1,1,2,y\n6,x,1,1,1,y\n8,x,1,1,1,y\n")
    assert [moment for _, moment, _, _ in timetable(path, speed=speed)] == [0.0, 0.25, 0.75]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"limit": 0}, "limit must be at least 1 row, got 0"),
        ({"speed": 0}, "speed must be a finite number above 0, got 0"),
        ({"speed": math.inf}, "speed must be a finite number above 0, got inf"),
        ({"speed": math.nan}, "speed must be a finite number above 0, got nan"),
    ],
)
def test_options_are_checked_at_once(
    write: WriteFile, options: dict[str, float], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        read_requests(write(MOONCAKE), **options)  # type: ignore[arg-type]


def test_a_missing_file_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no trace file '.*gone\.csv' \(looked in"):
        read_requests(tmp_path / "gone.csv")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "'trace.txt' is empty"),
        ("\n \r\n", "'trace.txt' is empty"),
        (AZURE, "has a header and no rows"),
        (BURST.strip() + "\n\n", "has a header and no rows"),
        ("a,b,c\n1,2,3\n", "begins with 'a,b,c', which is no known format. Known: Azure .*"),
        (AZURE.lower() + "x", "which is no known format.*BurstGPT .*Timestamp.*Mooncake"),
        (b"\x1f\x8b\x08\x00" + bytes(range(128, 256)) * 9, r"begins with .*\.\.\., which is no"),
    ],
)
def test_files_that_are_no_trace_are_refused(
    write: WriteFile, content: str | bytes, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        list(read_requests(write(content)))


GOOD_AZURE = "2023-11-16 18:15:46.6805900,374,44\n"
WHOLE = "must be a whole number of at least 0, got"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("2023-11-16 18:15:47,374", "the header has 3 columns, this row has 2"),
        ("2023-11-16 18:15:47,374,44,1", "the header has 3 columns, this row has 4"),
        ("2023-11-16 18:15:47,many,44", f"ContextTokens {WHOLE} 'many'"),
        ("2023-11-16 18:15:47,-3,44", f"ContextTokens {WHOLE} '-3'"),
        ("2023-11-16 18:15:47,374,4.5", f"GeneratedTokens {WHOLE} '4.5'"),
        ("2023-11-16 18:15:47,374,", f"GeneratedTokens {WHOLE} ''"),
        ("2023-11-16 18:15:47,374,٣", f"GeneratedTokens {WHOLE} '٣'"),
        ("2023-11-16 18:15:47,0,44", "a prompt must hold at least 1 token, got 0"),
        ("yesterday,374,44", r"TIMESTAMP must look like 2023-11-16 18:15:46\.6805900, got 'yes"),
        ("2023-11-16 18:15:46.68059001,374,44", "TIMESTAMP must look like"),
        ("2023-13-16 18:15:47,374,44", "TIMESTAMP is no date, month must be in 1..12, got"),
        ("2023-11-16 18:15:46.6,374,44", r"in order of time, this one is 0\.08059 s before"),
    ],
)
def test_a_bad_azure_row_is_an_error_with_its_line(write: WriteFile, row: str, words: str) -> None:
    with pytest.raises(ValueError, match=rf"^trace\.txt, line 4: .*{words}"):
        list(read_requests(write(f"{AZURE}{GOOD_AZURE}\n{row}\n")))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("-1,x,1,1,2,y", "Timestamp must be a number of seconds of at least 0, got '-1'"),
        ("nan,x,1,1,2,y", "Timestamp must be a number of seconds of at least 0, got 'nan'"),
        ("5,x,one,1,2,y", f"Request tokens {WHOLE} 'one'"),
        ("5,x,1", "the header has 6 columns, this row has 3"),
    ],
)
def test_a_bad_burstgpt_row_is_an_error_with_its_line(
    write: WriteFile, row: str, words: str
) -> None:
    with pytest.raises(ValueError, match=rf"^trace\.txt, line 2: {words}"):
        list(read_requests(write(f"{BURST}{row}\n")))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ('{"timestamp": 27, "input_le', "a JSON object was expected, got '{"),
        ("[1, 2]", r"a JSON object was expected, got '\[1, 2\]'"),
        ('{"timestamp": 27, "input_length": 3}', "missing: output_length, hash_ids"),
        (MOONCAKE.replace("27", "-1"), f"timestamp {WHOLE} -1"),
        (MOONCAKE.replace("27", "true"), f"timestamp {WHOLE} True"),
        (MOONCAKE.replace("600", '"600"'), f"input_length {WHOLE} '600'"),
        (MOONCAKE.replace("5, ", "NaN, "), f"output_length {WHOLE} nan"),
        (MOONCAKE.replace("[0, 9]", "7"), "hash_ids must be a list of whole numbers, got 7"),
        (MOONCAKE.replace("[0, 9]", "[0, 1.5]"), r"hash_ids must be .* got \[0, 1\.5\]"),
        (MOONCAKE.replace("600", "512"), "512 tokens in blocks of 512 need 1 hash ids, got 2"),
        (MOONCAKE.replace("600", "0").replace("0, 9", ""), "at least 1 token, got 0"),
        (MOONCAKE.replace("27", "26"), r"in order of time, this one is 0\.001 s before"),
    ],
)
def test_a_bad_mooncake_row_is_an_error_with_its_line(
    write: WriteFile, row: str, words: str
) -> None:
    with pytest.raises(ValueError, match=rf"^trace\.txt, line 2: .*{words}"):
        list(read_requests(write(f"{MOONCAKE}{row}\n")))


@given(
    length=st.integers(0, 40),
    block=st.integers(1, 9),
    index=st.integers(-45, 45),
    cut=st.slices(40),
    data=st.data(),
)
def test_hashed_tokens_behave_like_the_tuple_they_stand_for(
    length: int, block: int, index: int, cut: slice, data: st.DataObject
) -> None:
    blocks = -(-length // block)
    hashes = st.lists(st.integers(0, 3), min_size=blocks, max_size=blocks).map(tuple)
    hash_ids, other_ids = data.draw(hashes), data.draw(hashes)
    meant = tuple((hash_ids[place // block], place % block) for place in range(length))
    other = tuple((other_ids[place // block], place % block) for place in range(length))
    tokens = HashedTokens(hash_ids, length, block)
    assert tuple(tokens) == meant
    assert len(tokens) == length
    assert tokens[cut] == meant[cut]
    assert (tokens == HashedTokens(other_ids, length, block)) == (meant == other)
    assert hash(tokens) == hash(HashedTokens(hash_ids, length, block))
    if -length <= index < length:
        assert tokens[index] == meant[index]
    else:
        with pytest.raises(IndexError):
            tokens[index]


def test_block_keys_name_full_blocks_by_their_first_token() -> None:
    tokens = HashedTokens((5, 8), length=1000)
    assert tokens.block_keys() == ((5, 0),)
    assert tokens.block_keys(256) == ((5, 0), (5, 256), (8, 0))
    assert len(tokens.block_keys(16)) == 62
    assert HashedTokens((5, 8), length=1024).block_keys() == ((5, 0), (8, 0))


@pytest.mark.parametrize("block_tokens", [0, -1, 100, 1024])
def test_block_keys_need_a_block_that_divides_the_hashed_one(block_tokens: int) -> None:
    with pytest.raises(ValueError, match=f"must divide the 512 .* got {block_tokens}"):
        HashedTokens((5,), length=512).block_keys(block_tokens)


def test_hashed_tokens_need_one_hash_for_each_block() -> None:
    with pytest.raises(ValueError, match="513 tokens in blocks of 512 need 2 hash ids, got 1"):
        HashedTokens((5,), 513)
    with pytest.raises(ValueError, match="got 0 and 3"):
        HashedTokens((5,), 3, block_tokens=0)


def real(name: str) -> Path:
    path = TRACES / name
    if not path.exists():
        pytest.skip(f"the public trace {name} is not here")
    return path


@pytest.mark.parametrize(
    ("name", "requests", "prompt_tokens", "output_tokens", "span_s"),
    [
        ("AzureLLMInferenceTrace_code.csv", 8_819, 18_059_974, 245_896, 3435.948056),
        ("AzureLLMInferenceTrace_conv.csv", 19_366, 22_361_870, 4_088_665, 3501.721937),
        ("mooncake_conversation_trace.jsonl", 12_031, 144_793_823, 4_122_048, 3536.999),
        ("mooncake_synthetic_trace.jsonl", 3_993, 61_194_628, 595_432, 1022.025),
    ],
)
def test_sums_of_the_real_files(
    name: str, requests: int, prompt_tokens: int, output_tokens: int, span_s: float
) -> None:
    work = Workload.read(real(name))
    assert (len(work), work.prompt_tokens, work.output_tokens, work.span, work.refused) == (
        requests,
        prompt_tokens,
        output_tokens,
        span_s,
        (),
    )


def test_block_hashes_of_the_mooncake_conversations() -> None:
    """Of 288,500 block ids in order of arrival 36.6 % were seen before: a cache without limits."""
    seen: set[int] = set()
    ids = hits = full_blocks = 0
    before: dict[int, tuple[int, ...]] = {}
    for request in read_requests(real("mooncake_conversation_trace.jsonl")):
        assert isinstance(request.prompt, HashedTokens)
        hash_ids = request.prompt.hash_ids
        ids += len(hash_ids)
        hits += sum(hash_id in seen for hash_id in hash_ids)
        seen.update(hash_ids)
        full_blocks += len(request.prompt.block_keys())
        for place, hash_id in enumerate(hash_ids):
            last = hash_ids[max(place - 1, 0) : place]
            assert before.setdefault(hash_id, last) == last, "a hash covers what stands before it"
    assert (ids, full_blocks, len(seen)) == (288_500, 276_491, 182_790)
    assert round(hits / ids, 3) == 0.366
