"""Text to tokens and back; streams that never show half a character; chat templates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers, processors

from lab.model.tokenizer import StoppedText, TextStream, Tokenizer

CHAT = """{%- for message in messages %}
    {%- if message.role not in ('user', 'assistant') %}
        {{- raise_exception('no role ' + message.role) }}
    {%- endif %}
    {{- '<' + message.role + '>' + message.content | trim + eos_token }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"""


def bytes_tokenizer() -> tokenizers.Tokenizer:
    """One token a byte, a beginning that is marked, and an end: every way to cut a character."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = tokenizers.Tokenizer(
        models.BPE({char: n for n, char in enumerate(alphabet)}, merges=[])
    )
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 256)]
    )
    return tokenizer


def metaspace_tokenizer() -> tokenizers.Tokenizer:
    """Words with a mark where a space was, and bytes for what is not a word: as Llama 2 has it."""
    words = ["<unk>", "▁one", "▁two", "two", "▁", *(f"<0x{n:02X}>" for n in range(256))]
    tokenizer = tokenizers.Tokenizer(
        models.BPE({w: n for n, w in enumerate(words)}, [], byte_fallback=True, unk_token="<unk>")
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return tokenizer


def pieces_tokenizer() -> tokenizers.Tokenizer:
    """Tokens of one to three bytes, many of which end in the midst of a character."""
    char_of = {byte: char for char, byte in _bytes_of_chars().items()}
    euro, cat = "€".encode(), "😺".encode()
    parts = [
        *(b"a", b"b", b"c", b"ab", b"bc", b"abc", b"\xff", b"a" + euro[:1], b"ab" + euro[:2]),
        *(euro, euro[:1], euro[:2], euro[1:], euro[2:], euro[1:] + euro[:1], euro[2:] + b"b"),
        *(cat[:1], cat[:3], cat[3:], cat[1:2], cat[2:3], cat[3:] + cat[:2]),
    ]
    vocabulary = {"".join(char_of[byte] for byte in part): n for n, part in enumerate(parts)}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocabulary, merges=[]))
    tokenizer.add_special_tokens(["<s>"])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _bytes_of_chars() -> dict[str, int]:
    """What the characters that stand for bytes in a vocabulary stand for."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(b): b for b in plain} | {chr(256 + n): b for n, b in enumerate(others)}


BYTES = Tokenizer(bytes_tokenizer(), {})
PIECES = Tokenizer(pieces_tokenizer(), {})
WORDS = Tokenizer(metaspace_tokenizer(), {})


def folder(path: Path, **settings: object) -> Path:
    bytes_tokenizer().save(str(path / "tokenizer.json"))
    if settings:
        (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return path


def test_a_beginning_is_marked_unless_the_text_has_its_marks(tmp_path: Path) -> None:
    tokenizer = Tokenizer.read(folder(tmp_path))
    assert tokenizer.encode("ab")[0] == 256
    assert tokenizer.encode("ab", special=False) == tokenizer.encode("ab")[1:]
    assert tokenizer.decode(tokenizer.encode("ab")) == "ab"
    assert tokenizer.decode([256, *tokenizer.encode("b", special=False), 257], special=True) == (
        "<s>b</s>"
    )
    assert tokenizer.size == len(tokenizer.table) == 258
    assert tokenizer.table["</s>"] == 257


@given(st.text())
def test_the_pieces_of_a_stream_are_the_whole_text(text: str) -> None:
    stream = BYTES.stream()
    pieces = [stream.push(i) for i in BYTES.encode(text)]
    assert "".join([*pieces, stream.flush()]) == text
    assert stream.flush() == ""


@given(st.lists(st.integers(0, 257)))
def test_bytes_that_are_no_text_stream_as_they_are_decoded_at_once(ids: list[int]) -> None:
    stream = BYTES.stream()
    pieces = [stream.push(i) for i in ids]
    assert "".join([*pieces, stream.flush()]) == BYTES.decode(ids)


def streamed(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    stream = tokenizer.stream()
    return [*(stream.push(token) for token in ids), stream.flush()]


@given(st.lists(st.integers(0, PIECES.size - 1), max_size=150))
@example([10, *[14] * 100, 12])
@example([6] * 150)
@example([10] * 150)
@example([11] * 150)
@example([17] * 150)
@example([9, *[22] * 100, 8])
@example([10, *[22] * 100, 12])
def test_tokens_that_end_in_the_midst_of_characters_stream_as_they_are_decoded_at_once(
    ids: list[int],
) -> None:
    assert "".join(streamed(PIECES, ids)) == PIECES.decode(ids)


def test_what_stands_before_half_a_character_is_shown_at_once() -> None:
    ids = [8, 13, 10, 14, 14, 12]
    assert streamed(PIECES, ids) == ["ab", "€", "", "€", "€", "€", ""]


@pytest.mark.parametrize("token", [0, 6, 10, 14, 17])
def test_the_work_for_a_token_does_not_grow_with_the_answer(token: int) -> None:
    decoded: list[int] = []

    class Counted(Tokenizer):
        def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
            decoded.append(len(ids))
            return super().decode(ids, special=special)

    stream = Counted(pieces_tokenizer(), {}).stream()
    for _ in range(1000):
        stream.push(token)
    assert max(decoded) <= 49
    assert len(decoded) <= 3000


def test_half_a_character_is_held_back() -> None:
    stream = BYTES.stream()
    assert [stream.push(i) for i in BYTES.encode("a€b", special=False)] == ["a", "", "", "€", "b"]
    for i in BYTES.encode("€", special=False)[:2]:
        assert stream.push(i) == ""
    assert stream.flush() == "\ufffd"


@given(st.lists(st.sampled_from([1, 2, 3, *(5 + b for b in "€é".encode())]), max_size=8))
def test_words_keep_the_spaces_between_them(ids: list[int]) -> None:
    text = WORDS.decode(ids)
    stream = WORDS.stream()
    pieces = "".join([*(stream.push(i) for i in ids), stream.flush()])
    if "\ufffd" not in text:
        assert pieces == text


def test_a_word_after_a_word_keeps_its_space() -> None:
    stream = WORDS.stream()
    assert [stream.push(i) for i in (1, 2, 3, 1)] == ["one", " two", "two", " one"]


def test_a_character_in_bytes_after_another_is_shown() -> None:
    stream = WORDS.stream()
    euro = [WORDS.table[f"<0x{byte:02X}>"] for byte in "€".encode()]
    assert [stream.push(i) for i in euro * 2] == ["", "", "€", "", "", "€"]


def test_spaces_at_the_beginning_are_as_many_as_at_once() -> None:
    for ids in ([4, 4, 3], [4, 3], [4, 4, 4, 1], [1, 4, 3, 4, 4, 3]):
        assert "".join(streamed(WORDS, ids)) == WORDS.decode(ids)


# Stop texts


def plain(tokenizer: Tokenizer, ids: Sequence[int], stop: Sequence[str]) -> tuple[str, int | None]:
    """The text up to the first stop text and the number of tokens after which that is complete,
    by looking at the whole text after each token, and in it after each character."""
    for count in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[:count])
        whole = text.rstrip("\ufffd") if count < len(ids) else text
        for end in range(1, len(whole) + 1):
            ending = [text for text in stop if whole[:end].endswith(text)]
            if ending:
                return whole[: end - max(map(len, ending))], count
    return tokenizer.decode(ids), None


def stopped(stream: TextStream, ids: Sequence[int]) -> tuple[str, int | None]:
    text = ""
    for count, token in enumerate(ids, 1):
        text += stream.push(token)
        if stream.is_stopped:
            return text + stream.flush(), count
    return text + stream.flush(), None


texts = st.text(alphabet="abc€😺\ufffd", min_size=1, max_size=5)


@settings(max_examples=500)
@given(
    st.lists(st.integers(0, PIECES.size - 1), max_size=40),
    st.lists(texts, min_size=1, max_size=3),
)
def test_a_text_ends_before_the_first_stop_text_with_the_token_that_completes_it(
    ids: list[int], stop: list[str]
) -> None:
    text, count = stopped(PIECES.stream(stop), ids)
    without_halves = [text for text in stop if "\ufffd" not in text]
    if len(without_halves) == len(stop):
        assert (text, count) == plain(PIECES, ids, stop)
    assert not any(one in text for one in stop)
    assert PIECES.decode(ids).startswith(text)


@given(st.text(alphabet="abé€"), st.lists(st.text(alphabet="abé€", min_size=1), min_size=1))
def test_it_does_not_matter_how_a_text_with_stop_texts_is_cut_into_tokens(
    text: str, stop: list[str]
) -> None:
    ids = BYTES.encode(text)
    found, count = stopped(BYTES.stream(stop), ids)
    assert (found, count) == plain(BYTES, ids, stop)


def test_the_stop_text_that_is_complete_first_counts_and_of_two_the_longer() -> None:
    for stop, want in ((["bc", "abc"], ("", 3)), (["b", "abc"], ("a", 2)), (["cd"], ("ab", 4))):
        ids = BYTES.encode("abcd", special=False)
        assert stopped(BYTES.stream(stop), ids) == want
    assert stopped(PIECES.stream(["b", "abc"]), [5]) == ("a", 1)


def test_what_may_be_the_beginning_of_a_stop_text_is_held_back_and_no_more() -> None:
    stream = BYTES.stream(["aab", "ac"])
    ids = BYTES.encode("xaaax", special=False)
    assert [stream.push(token) for token in ids] == ["x", "", "", "a", "aax"]
    stream = BYTES.stream(["aab"])
    assert [stream.push(token) for token in ids[:3]] == ["x", "", ""]
    assert stream.flush() == "aa"
    assert stream.flush() == ""


def test_a_stop_text_before_half_a_character_ends_the_text_at_once() -> None:
    assert stopped(PIECES.stream(["b"]), [8, 13]) == ("a", 1)


def test_nothing_follows_a_stop_text() -> None:
    stream = BYTES.stream(["b"])
    assert "".join(stream.push(token) for token in BYTES.encode("abab")) + stream.flush() == "a"


def test_a_stop_text_of_no_characters_is_an_error() -> None:
    with pytest.raises(ValueError, match="a stop text must hold at least 1 character, got ''"):
        BYTES.stream(["", "a"])


def test_to_look_only_at_what_is_new_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: a stop text that spans two tokens is missed."""

    def forgetful(self: Any, added: str) -> str:
        self._held = ""
        return before_a_stop(self, added)

    before_a_stop = StoppedText._before_a_stop
    ids = BYTES.encode("xab", special=False)
    assert stopped(BYTES.stream(["ab"]), ids) == ("x", 3)
    monkeypatch.setattr(StoppedText, "_before_a_stop", forgetful)
    assert stopped(BYTES.stream(["ab"]), ids) != ("x", 3)


def test_a_chat_template_makes_the_prompt(tmp_path: Path) -> None:
    tokenizer = Tokenizer.read(
        folder(tmp_path, chat_template=CHAT, eos_token={"content": "</s>", "lstrip": False})
    )
    messages = [{"role": "user", "content": " What is it? "}]
    assert tokenizer.chat(messages) == "<user>What is it?</s><assistant>"
    assert tokenizer.chat(messages, answer=False) == "<user>What is it?</s>"
    with pytest.raises(ValueError, match="refuses the messages: no role poet"):
        tokenizer.chat([{"role": "poet", "content": ""}])


def test_a_chat_template_in_its_own_file_comes_first(tmp_path: Path) -> None:
    folder(tmp_path, chat_template="old", eos_token="</s>")
    (tmp_path / "chat_template.jinja").write_text("{{ messages | tojson }}{{ eos_token }}")
    assert Tokenizer.read(tmp_path).chat([{"a": "é"}]) == '[{"a": "é"}]</s>'


def test_the_default_of_several_templates_is_taken(tmp_path: Path) -> None:
    several = [{"name": "tools", "template": "no"}, {"name": "default", "template": "yes"}]
    assert Tokenizer.read(folder(tmp_path, chat_template=several)).chat([]) == "yes"


def test_a_template_cannot_reach_out_of_its_sandbox(tmp_path: Path) -> None:
    tokenizer = Tokenizer.read(folder(tmp_path, chat_template="{{ ''.__class__.__mro__ }}"))
    with pytest.raises(ValueError, match="the chat template refuses the messages: access to"):
        tokenizer.chat([])


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tokenizer\.json is not there: text needs the vocab"):
        Tokenizer.read(tmp_path)
    with pytest.raises(ValueError, match="this model has no chat template: give it a prompt"):
        Tokenizer.read(folder(tmp_path)).chat([{"role": "user", "content": "?"}])
