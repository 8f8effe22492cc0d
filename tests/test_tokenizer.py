"""Text to tokens and back; streams that never show half a character; chat templates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers, processors

from lab.model.tokenizer import Tokenizer

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


BYTES = Tokenizer(bytes_tokenizer(), {})
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
