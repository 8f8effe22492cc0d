"""Tokens in Flight: one scheduler and one trace behind the table, the simulation and the model.

Names are looked up when they are first used, so that `import lab` loads almost nothing.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

_WHERE = {
    "Bursts": "lab.draws",
    "Contiguous": "lab.allocators",
    "Continuous": "lab.policy",
    "Contract": "lab.ledgers.goodput",
    "CostModel": "lab.executors.cost_model",
    "Empirical": "lab.draws",
    "EvenlySpaced": "lab.draws",
    "Fixed": "lab.draws",
    "Geometric": "lab.draws",
    "Knob": "lab.widgets.what_if",
    "LogNormal": "lab.draws",
    "Mesh": "lab.parallel.mesh",
    "OnOff": "lab.draws",
    "Pages": "lab.allocators",
    "Poisson": "lab.draws",
    "PromptLookup": "lab.speculation.proposer",
    "Quantiles": "lab.draws",
    "Request": "lab.request",
    "Sampling": "lab.sampling",
    "Script": "lab.speculation.proposer",
    "Static": "lab.policy",
    "Trace": "lab.trace",
    "Uniform": "lab.draws",
    "Workload": "lab.workload",
    "acceptance": "lab.ledgers.speculation",
    "agreement": "lab.parallel.agreement",
    "allocation": "lab.ledgers.allocation",
    "area_chart": "lab.figures.charts",
    "bar_chart": "lab.figures.charts",
    "block_pool": "lab.figures.block_pool",
    "block_sizes": "lab.ledgers.block_sizes",
    "cached_model": "lab.ledgers.latent",
    "calibrate": "lab.calibration",
    "call_log": "lab.ledgers.definitions",
    "checked": "lab.worked_numbers",
    "compare": "lab.ledgers.table",
    "cost": "lab.ledgers.money",
    "crowd": "lab.figures.crowd",
    "definitions": "lab.ledgers.definitions",
    "device": "lab.ledgers.sizes",
    "entry": "lab.worked_numbers",
    "fill": "lab.allocators",
    "fit": "lab.executors.fit",
    "generate": "lab.live",
    "given": "lab.run",
    "goodput": "lab.ledgers.goodput",
    "guess": "lab.widgets.self_check",
    "hand": "lab.widgets.hand",
    "hit_curve": "lab.prefix_replay",
    "in_unit": "lab.ledgers.units",
    "kv_bytes": "lab.ledgers.memory",
    "kv_cache": "lab.ledgers.memory",
    "latency": "lab.ledgers.latency",
    "launch": "lab.parallel.launch",
    "lifeline": "lab.figures.lifeline",
    "line_chart": "lab.figures.charts",
    "live_engine": "lab.live",
    "load": "lab.trace_json",
    "machine": "lab.doctor",
    "model_size": "lab.ledgers.sizes",
    "occupancy": "lab.ledgers.occupancy",
    "percentile": "lab.ledgers.latency",
    "play": "lab.widgets.player",
    "prefix_hits": "lab.prefix_replay",
    "prefix_tree": "lab.figures.prefix_tree",
    "public_trace": "lab.public_traces",
    "request_rows": "lab.figures.rows",
    "request_states": "lab.figures.states",
    "reuse": "lab.ledgers.reuse",
    "room": "lab.ledgers.memory",
    "save": "lab.trace_json",
    "save_perfetto": "lab.perfetto",
    "self_check": "lab.widgets.self_check",
    "serve": "lab.live",
    "serve_replicas": "lab.parallel.replicas",
    "serve_sharded": "lab.parallel.serving",
    "shared_prefix": "lab.ledgers.reuse",
    "simulate": "lab.run",
    "split": "lab.ledgers.splitting",
    "task": "lab.ledgers.task",
    "task_lifeline": "lab.figures.lifeline",
    "throughput": "lab.ledgers.throughput",
    "timeline": "lab.figures.timeline",
    "what_if": "lab.widgets.what_if",
    "worked": "lab.worked_numbers",
}

__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'lab' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
