"""The command line: simulate a trace file, let a model write, look up a worked number, and more."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import lab
from lab.clock import WallClock
from lab.doctor import report
from lab.executors.cost_model import CostModel
from lab.exercises import VARIANTS, variant
from lab.figures.load_chart import load_chart
from lab.figures.timeline import MOST_STEPS, timeline
from lab.ledgers.goodput import Contract, goodput
from lab.ledgers.latency import latency
from lab.ledgers.money import cost
from lab.ledgers.sizes import known_devices, known_models
from lab.ledgers.throughput import throughput
from lab.perfetto import save_perfetto
from lab.policy import RANKS, Continuous, Policy, Static
from lab.questions import exercises
from lab.recompute import mismatches
from lab.run import simulate
from lab.sampling import Sampling
from lab.trace import Trace
from lab.trace_json import save
from lab.worked_numbers import describe, entries, entry
from lab.workload import Workload


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status: 0, 1 where something that was checked does not
    hold, or 2 for an error, said in one line."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.command(options) or 0
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left goes nowhere
        return 141  # as of a program that the closed pipe has ended
    except (ValueError, OSError) as error:
        print(f"lab: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("lab: stopped", file=sys.stderr)
        return 130
    return status


def _simulate(options: argparse.Namespace) -> None:
    policy, costs, contract = _policy(options), _costs(options), _contract(options)
    workload = Workload.read(options.trace, limit=options.limit, speed=options.speed)
    print(workload)
    for row in workload.refused[:3]:
        print(f"  line {row.line} refused: {row.reason}")
    trace = simulate(workload, policy, costs, progress=_progress(len(workload)))
    trace.check()
    _print_ledgers(trace, contract, options.price)
    if options.json:
        save(trace, options.json)
        print(f"trace in {options.json}")
    if options.perfetto:
        save_perfetto(trace, options.perfetto)
        print(f"timeline for ui.perfetto.dev in {options.perfetto}")


def _print_ledgers(trace: Trace, contract: Contract | None, price: float | None) -> None:
    refused = [record for record in trace.requests if record.status == "refused"]
    for record in refused[:3]:
        print(f"  refused: {record.reason}")
    if len(refused) == len(trace):
        raise ValueError(f"all {len(trace)} requests were refused: there is nothing to account for")
    short = trace.num_steps <= MOST_STEPS and len(trace) <= 12
    print(f"\n{timeline(trace) if short else load_chart(trace)}")
    print(f"\n{latency(trace).summary()}")
    print(f"\n{throughput(trace)}")
    if contract is not None:
        print(f"\n{goodput(trace, contract)}")
    if price is not None:
        print(f"\n{cost(trace, price)}")


def _generate(options: argparse.Namespace) -> None:
    sampling = Sampling(
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        seed=options.seed,
    )
    _live("generate")(
        options.prompt,
        options.model,
        max_tokens=options.max_tokens,
        sampling=sampling,
        stop=options.stop,
        draft=options.draft,
        draft_tokens=options.draft_tokens,
        to=sys.stdout,
    )
    print()


def _calibrate(options: argparse.Namespace) -> None:
    draw = _progress(100, "per cent of the time")
    fitted = _live("calibrate")(
        options.model,
        seats=options.seats,
        seconds=options.seconds,
        progress=lambda share: draw(int(100 * min(1, share))),
    )
    print(fitted)
    costs = " ".join(f"{fitted.cost.settings[name]:.4g}" for name in "abcd")
    print(f"\npython -m lab simulate TRACE --seats {options.seats} --affine {costs}")


def _live(name: str) -> Callable[..., Any]:
    """A function of the lab that needs a live model. ValueError with advice if that cannot run."""
    try:
        found: Callable[..., Any] = getattr(lab, name)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"a live model needs {error.name}, which is not installed: "
            "pip install -r requirements.txt"
        ) from error
    return found


def _worked(options: argparse.Namespace) -> int:
    if options.list:
        print("\n".join(entries()))
        return 0
    return _explain(options.id) if options.id else _recompute_all()


def _explain(id: str) -> int:
    print(describe(id))
    wrong = mismatches(id) if entry(id).checked else []
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


def _recompute_all() -> int:
    """One line a topic, and one for every result that is not the recorded one."""
    topics: dict[str, list[str]] = {}
    for id in entries():
        if entry(id).checked:
            topics.setdefault(id.partition("-")[0], []).append(id)
    failed = 0
    for topic, ids in topics.items():
        wrong = [lines for id in ids if (lines := mismatches(id))]
        failed += len(wrong)
        print(f"{topic:<11}{len(ids) - len(wrong):>3} ok")
        for line in chain.from_iterable(wrong):
            print(f"  {line}")
    of = sum(map(len, topics.values()))
    print(f"{of - failed} of {of} formulas give what is recorded")
    return 1 if failed else 0


def _exercises(options: argparse.Namespace) -> None:
    chosen = exercises(options.chapter_or_id)
    if options.chapter_or_id is None and not options.answers:
        print("\n".join(f"{one.chapter:>2}  {one.id}  {one.title}" for one in chosen))
        return
    asked = [variant(one, options.seed % VARIANTS) for one in chosen]
    texts = [
        f"{one.text()}\n\n{one.answer_text()}" if options.answers else one.text() for one in asked
    ]
    print("\n\n\n".join(texts))


def _doctor(options: argparse.Namespace) -> None:
    print(report())


def _policy(options: argparse.Namespace) -> Policy:
    if options.policy == "static":
        return Static(
            seats=options.seats,
            timeout=options.timeout,
            blocks=options.blocks,
            block_tokens=options.block_tokens,
            order=options.order,
        )
    return Continuous(
        seats=options.seats,
        token_budget=options.token_budget,
        blocks=options.blocks,
        block_tokens=options.block_tokens,
        chunked_prefill=options.chunked_prefill,
        order=options.order,
        preemption=options.preemption,
    )


def _costs(options: argparse.Namespace) -> CostModel:
    if options.affine is not None:
        return CostModel.affine(*options.affine)
    return CostModel.roofline(options.model, options.device)


def _contract(options: argparse.Namespace) -> Contract | None:
    limits = {name: getattr(options, name) for name in ("ttft", "tpot", "itl", "e2e")}
    if all(limit is None for limit in limits.values()):
        return None
    return Contract(**limits)


def _progress(count: int, what: str = "requests") -> Callable[[int], object]:
    """A bar on a terminal, redrawn ten times a second at most; nothing where output is kept."""
    if not sys.stderr.isatty():
        return lambda arrived: None
    clock = WallClock()
    next_drawing = 0.0

    def draw(arrived: int) -> None:
        nonlocal next_drawing
        if clock.now() >= next_drawing or arrived == count:
            next_drawing = clock.now() + 0.1
            full = 40 * arrived // count
            end = "\r\033[K" if arrived == count else ""
            bar = f"\r[{'#' * full}{'.' * (40 - full)}] {arrived:,} of {count:,} {what}"
            print(bar, end=end, file=sys.stderr, flush=True)

    return draw


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser(
        "simulate",
        help="serve a public trace file on a virtual clock",
        description="Serve a trace (Azure CSV, Mooncake JSONL or BurstGPT CSV) on a virtual clock "
        "and print its ledgers. Times are in seconds.",
    )
    run.add_argument("trace", type=Path, metavar="TRACE")
    run.add_argument("--limit", type=int, help="read only the first rows")
    run.add_argument("--speed", type=float, default=1, help="play the arrivals faster (default 1)")
    _add_policy(run.add_argument_group("policy"))
    _add_costs(run.add_argument_group("how long a step takes"))
    contract = run.add_argument_group("contract and price")
    for name in ("ttft", "tpot", "itl", "e2e"):
        contract.add_argument(f"--{name}", type=float, metavar="SECONDS", help="promised limit")
    contract.add_argument("--price", type=float, metavar="PER_HOUR", help="price of the machine")
    export = run.add_argument_group("files")
    export.add_argument("--json", type=Path, metavar="FILE", help="write the trace")
    export.add_argument("--perfetto", type=Path, metavar="FILE", help="write it for the viewer")
    run.set_defaults(command=_simulate)

    _add_generate(commands)
    _add_calibrate(commands)

    worked = commands.add_parser(
        "worked",
        help="compute the worked numbers again, or explain one",
        description="Without arguments: compute every worked number from its recorded formula and "
        "inputs, and compare; status 1 if one differs. With an id: what the ledger says about it.",
    )
    worked.add_argument("id", nargs="?", metavar="ID")
    worked.add_argument("--list", action="store_true", help="print all ids")
    worked.set_defaults(command=_worked)

    asked = commands.add_parser(
        "exercises",
        help="list the exercises, or ask those of a chapter",
        description="Without arguments: all exercises. With a chapter or an id: their questions.",
    )
    asked.add_argument("chapter_or_id", nargs="?", metavar="CHAPTER_OR_ID")
    asked.add_argument("--answers", action="store_true", help="the key for an instructor")
    asked.add_argument("--seed", type=int, default=0, help=f"one of {VARIANTS} variants (0)")
    asked.set_defaults(command=_exercises)

    doctor = commands.add_parser("doctor", help="say what works on this machine")
    doctor.set_defaults(command=_doctor)
    return parser


def _add_generate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    generate = commands.add_parser(
        "generate",
        help="let a model go on after a text",
        description="Print how a model goes on after a text, as it comes. The same command gives "
        "the same text.",
    )
    generate.add_argument("prompt", metavar="TEXT")
    generate.add_argument("--model", default="tiny", help="tiny, or a Hugging Face folder (tiny)")
    generate.add_argument("--max-tokens", type=int, default=100, help="most tokens (100)")
    generate.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="end before it; may be repeated"
    )
    how = generate.add_argument_group("how a token is chosen")
    how.add_argument("--temperature", type=float, default=0.8, help="0: the likeliest (0.8)")
    how.add_argument("--top-k", type=int, help="only the likeliest K (default: all)")
    how.add_argument("--top-p", type=float, default=1.0, help="only the likeliest mass (1)")
    how.add_argument("--seed", type=int, default=0, help="another one gives another text (0)")
    ahead = generate.add_argument_group("guesses that the model checks")
    ahead.add_argument(
        "--draft", help="who guesses: tiny-draft, a folder, or prompt-lookup (default: nobody)"
    )
    ahead.add_argument(
        "--draft-tokens", type=int, default=4, metavar="N", help="how many at a time (4)"
    )
    generate.set_defaults(command=_generate)


def _add_calibrate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    calibrate = commands.add_parser(
        "calibrate",
        help="measure what a step costs on this machine",
        description="Let a model serve requests of many sizes, and fit how long a step takes: a + "
        "b prefill tokens + c decodes + d tokens of context. The last line says how to use it.",
    )
    calibrate.add_argument("--model", default="tiny", help="tiny, or a Hugging Face folder (tiny)")
    calibrate.add_argument("--seats", type=int, default=16, help="most requests at once (16)")
    calibrate.add_argument("--seconds", type=float, default=60, help="how long to measure (60)")
    calibrate.set_defaults(command=_calibrate)


def _add_policy(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--policy", choices=("continuous", "static"), default="continuous")
    group.add_argument("--seats", type=int, default=256, help="most requests at once (256)")
    group.add_argument("--token-budget", type=int, default=2048, help="tokens a step (2048)")
    group.add_argument("--blocks", type=int, help="KV blocks in the pool (default: no limit)")
    group.add_argument("--block-tokens", type=int, default=16, help="positions a block (16)")
    group.add_argument("--order", choices=tuple(RANKS), default="first-come")
    group.add_argument("--preemption", choices=("recompute", "never"), default="recompute")
    group.add_argument(
        "--chunked-prefill", action=argparse.BooleanOptionalAction, default=True,
        help="cut prompts to the token budget",
    )  # fmt: skip
    group.add_argument(
        "--timeout", type=float, default=0, metavar="SECONDS", help="static: wait for a full batch"
    )


def _add_costs(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--model", default="llama-3-8b", help=f"one of {', '.join(known_models())}")
    group.add_argument("--device", default="h100", help=f"one of {', '.join(known_devices())}")
    group.add_argument(
        "--affine", type=float, nargs=4, metavar=("A", "B", "C", "D"),
        help="instead of the roofline: A + B prefill tokens + C decodes + D context tokens, in s",
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
