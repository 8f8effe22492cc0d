"""Which rank holds which layers, rows, columns, heads, experts and positions, before any starts.

Names of weights are those of a Hugging Face folder. A piece of Y = X W is named by the `inputs` and
the `outputs` it connects; torch keeps W as [outputs, inputs].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from lab.ledgers.sizes import ModelSize, Number
from lab.ledgers.table import Shown, Table
from lab.parallel.mesh import AXES, Mesh, Place, share


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts in place of each MLP: `count` MLPs of the model's `ffn`, and a router
    that sends each token to `active` of them."""

    count: int
    active: int


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of a matrix that a rank holds: these inputs and outputs, of so many. A vector, such
    as the scales of a norm, has one input."""

    name: str
    inputs: range
    outputs: range
    of: tuple[int, int]

    @property
    def elements(self) -> int:
        """Numbers in this piece."""
        return len(self.inputs) * len(self.outputs)

    @property
    def is_whole(self) -> bool:
        """Whether nothing of it lies elsewhere only."""
        return (len(self.inputs), len(self.outputs)) == self.of


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """What one rank holds, as runs of whole things."""

    number: int
    place: Place
    layers: range
    heads: range
    kv_heads: range
    """Those that its query heads use: two ranks may hold the same one."""
    ffn: range
    vocab: range
    experts: range
    has_embedding: bool
    has_head: bool
    model: ModelSize
    mixture: Experts | None

    @property
    def kv_of_heads(self) -> tuple[int, ...]:
        """For each of its query heads, which of *its* KV heads it reads, counted from 0."""
        group = self.model.heads // self.model.kv_heads
        return tuple(head // group - self.kv_heads.start for head in self.heads)

    @property
    def is_even(self) -> bool:
        """Whether all its KV heads serve equally many of its query heads."""
        used = [self.kv_of_heads.count(kv) for kv in range(len(self.kv_heads))]
        return len(set(used)) == 1

    def pieces(self) -> Iterator[Piece]:
        """Every matrix and vector that it holds, or holds a part of."""
        model = self.model
        hidden, vocab = range(model.hidden), (model.hidden, model.vocab)
        table = Piece("model.embed_tokens", hidden, self.vocab, vocab)
        if self.has_embedding or (self.has_head and model.tied_embeddings):
            yield table
        for layer in self.layers:
            yield from self._layer(f"model.layers.{layer}")
        if self.has_head:
            yield _vector("model.norm", model.hidden)
            if not model.tied_embeddings:
                yield Piece("lm_head", hidden, self.vocab, vocab)

    @property
    def parameters(self) -> int:
        """Numbers in all its pieces."""
        return sum(piece.elements for piece in self.pieces())

    def kv_elements(self, positions: int = 1) -> int:
        """Numbers of K and V that `positions` leave behind here: 2 x layers x KV heads x size."""
        return 2 * len(self.layers) * positions * len(self.kv_heads) * self.model.head_dim

    def _layer(self, name: str) -> Iterator[Piece]:
        model, hidden = self.model, range(self.model.hidden)
        queries, keys = _of_heads(self.heads, model), _of_heads(self.kv_heads, model)
        heads, kv_heads = model.heads * model.head_dim, model.kv_heads * model.head_dim
        attention = f"{name}.self_attn"
        yield _vector(f"{name}.input_layernorm", model.hidden)
        yield Piece(f"{attention}.q_proj", hidden, queries, (model.hidden, heads))
        for part in "kv":
            yield Piece(f"{attention}.{part}_proj", hidden, keys, (model.hidden, kv_heads))
        yield Piece(f"{attention}.o_proj", queries, hidden, (heads, model.hidden))
        for part in "qk" if model.qk_norm else "":
            yield _vector(f"{attention}.{part}_norm", model.head_dim)
        yield _vector(f"{name}.post_attention_layernorm", model.hidden)
        if self.mixture is None:
            yield from self._mlp(f"{name}.mlp")
            return
        count = self.mixture.count
        yield Piece(f"{name}.mlp.gate", hidden, range(count), (model.hidden, count))
        for expert in self.experts:
            yield from self._mlp(f"{name}.mlp.experts.{expert}")

    def _mlp(self, name: str) -> Iterator[Piece]:
        hidden, of = range(self.model.hidden), (self.model.hidden, self.model.ffn)
        for part in ("gate", "up"):
            yield Piece(f"{name}.{part}_proj", hidden, self.ffn, of)
        yield Piece(f"{name}.down_proj", self.ffn, hidden, of[::-1])


def _of_heads(heads: range, model: ModelSize) -> range:
    return range(heads.start * model.head_dim, heads.stop * model.head_dim)


def _said(run: range) -> str:
    return f"{run.start}:{run.stop}"


def _vector(name: str, size: int) -> Piece:
    return Piece(name, range(1), range(size), (1, size))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Layout(Shown):
    """A model on a mesh: every rank with what it holds."""

    model: ModelSize
    mesh: Mesh
    experts: Experts | None
    ranks: tuple[Rank, ...]

    @property
    def whole(self) -> int:
        """Numbers in the model, each counted once."""
        mixture, model = self.experts, self.model
        if mixture is None:
            return model.parameters
        extra = (mixture.count - 1) * 3 * model.hidden * model.ffn + mixture.count * model.hidden
        return model.parameters + model.layers * extra

    @property
    def copies(self) -> int:
        """Numbers held beyond the first time: all that ranks hold, less the whole."""
        return sum(rank.parameters for rank in self.ranks) - self.whole

    def rank(self, number: int) -> Rank:
        """What one rank holds. ValueError for a number that the mesh does not have."""
        self.mesh.place(number)
        return self.ranks[number]

    def weight_bytes(self, rank: int, *, bytes_per_element: Number = 2) -> Number:
        """Bytes of weights on a rank. Llama-3-8B in bf16, tp 2: 8,030,527,488 bytes of 16.06 GB."""
        return self.rank(rank).parameters * bytes_per_element

    def kv_bytes(self, rank: int, tokens: int, *, bytes_per_element: Number = 2) -> Number:
        """Bytes of K and V on a rank for one sequence of `tokens` that is served there.

        Llama-3-8B, 8,192 tokens: 1 GiB on one rank, half of it with tp 2, pp 2 or cp 2 each.
        """
        positions = len(self.positions(rank, tokens))
        return self.rank(rank).kv_elements(positions) * bytes_per_element

    def positions(self, rank: int, tokens: int) -> range:
        """The positions of a sequence whose K and V a rank holds: one run of them along cp."""
        return share(tokens, self.mesh.cp, self.rank(rank).place.cp)

    def requests(self, rank: int, requests: int) -> range:
        """Which of so many requests, or sequences of a batch, a rank works on: cut along dp, and
        along ep too."""
        mesh, place = self.mesh, self.rank(rank).place
        return share(requests, mesh.dp * mesh.ep, place.dp * mesh.ep + place.ep)

    def table(self) -> Table:
        """A row a rank: its place, and the runs that it holds, written as Python slices: heads 2:4
        are the third and the fourth. Axes of 1 are left out.
        """
        axes = [axis for axis in reversed(AXES) if getattr(self.mesh, axis) > 1]
        runs = (
            "layers",
            "heads",
            "kv_heads",
            "ffn",
            "vocab",
            *(["experts"] if self.experts else []),
        )
        rows = tuple(
            (
                rank.number,
                *(getattr(rank.place, axis) for axis in axes),
                *(_said(getattr(rank, run)) for run in runs),
                rank.parameters,
            )
            for rank in self.ranks
        )
        names = [run.replace("kv_heads", "KV heads") for run in runs]
        caption = f"{self.model.name} on {self.mesh.ranks} ranks; numbers held: {self.whole} once"
        caption += f" and {self.copies} copies"
        return Table(("rank", *axes, *names, "numbers"), rows, caption)

    def state(self, rank: int, stage: int) -> tuple[range, range, range]:
        """The runs of its own numbers whose parameter, gradient and optimizer states a rank keeps
        in training under ZeRO `stage` 0 to 3: cut along dp, and whole where the stage cuts not.

        ValueError for another stage.
        """
        if stage not in range(4):
            raise ValueError(f"stage must be 0, 1, 2 or 3, got {stage}")
        here = self.rank(rank)
        whole, part = range(here.parameters), share(here.parameters, self.mesh.dp, here.place.dp)
        return (
            part if stage == 3 else whole,
            part if stage >= 2 else whole,
            part if stage >= 1 else whole,
        )


def layout(model: ModelSize, mesh: Mesh, *, experts: Experts | None = None) -> Layout:
    """Lay a model out on a mesh. Heads and the width of the MLP must divide evenly among tp.

    Layers need not divide among pp, nor experts among ep, nor the vocabulary among tp: the first
    ranks of the axis then hold one more. A tied table is held by the first and by the last stage.
    KV heads fewer than tp, or cut askew by it, are held by every rank whose query heads use them:
    with 6 heads, 2 KV heads and tp 3, by ranks 0 and 1 the first, by 1 and 2 the second.

    `layout(model_size("llama-3-8b"), Mesh(tp=2)).ranks[1].heads` is range(16, 32).
    ValueError where something does not divide or is too little to cut, with both numbers.
    """
    _check(model, mesh, experts)
    ranks = tuple(_rank(model, mesh, experts, number) for number in range(mesh.ranks))
    return Layout(model=model, mesh=mesh, experts=experts, ranks=ranks)


def _check(model: ModelSize, mesh: Mesh, experts: Experts | None) -> None:
    for name, count in {"heads": model.heads, "ffn": model.ffn}.items():
        if count % mesh.tp:
            raise ValueError(
                f"model {model.name!r}: {name} must divide evenly among tp, got {count} and "
                f"{mesh.tp}: {Fraction(count, mesh.tp)} each"
            )
    if mesh.pp > model.layers:
        raise ValueError(f"each stage needs a layer, got {mesh.pp} stages and {model.layers}")
    if experts is None:
        if mesh.ep > 1:
            raise ValueError(f"ep cuts experts, and this model has none, got ep {mesh.ep}")
        return
    if not 1 <= experts.active <= experts.count:
        raise ValueError(
            f"active experts must be from 1 to all {experts.count}, got {experts.active}"
        )
    if mesh.ep > experts.count:
        raise ValueError(f"each rank of ep needs an expert, got {mesh.ep} and {experts.count}")


def _rank(model: ModelSize, mesh: Mesh, experts: Experts | None, number: int) -> Rank:
    place = mesh.place(number)
    heads = share(model.heads, mesh.tp, place.tp)
    group = model.heads // model.kv_heads
    return Rank(
        number=number,
        place=place,
        layers=share(model.layers, mesh.pp, place.pp),
        heads=heads,
        kv_heads=range(heads.start // group, (heads.stop - 1) // group + 1),
        ffn=share(model.ffn, mesh.tp, place.tp),
        vocab=share(model.vocab, mesh.tp, place.tp),
        experts=share(experts.count, mesh.ep, place.ep) if experts else range(0),
        has_embedding=place.pp == 0,
        has_head=place.pp == mesh.pp - 1,
        model=model,
        mixture=experts,
    )
