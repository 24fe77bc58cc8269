"""The load of a stream, as its scaling policy sees it: how it is read, stored and described."""

from collections.abc import Mapping

import msgspec

from controller.commit.batch import Batch
from controller.log.embedded import EmbeddedLog
from controller.streams.stream import StreamState
from tidegauge import scaling_policy
from tidegauge.errors import InvalidRequestError, LogIsExternalError
from tidegauge.scaling_policy import Load, Policy
from tidegauge.wire.streams import ScalingAction, ScalingInfo, SegmentLoad, StreamConfig

_MOST_GROWING = 64
"""Segments of a stream, unless it says otherwise or began with more: each costs its readers a fetch."""


def most_growing(config: StreamConfig) -> int:
    """Return how many segments of the embedded log may grow at once."""
    return config.max_segments or max(_MOST_GROWING, config.segments)


def policy_of(config: StreamConfig) -> Policy | None:
    """Read the scaling policy of a stream; None if the number of segments is fixed."""
    wanted = config.scaling
    if wanted == "fixed":
        return None
    return Policy(
        unit="bytes" if wanted.events_per_s is None else "events",
        target=wanted.events_per_s or wanted.bytes_per_s or 0,  # one of them is given
        window_ms=wanted.window_ms,
        cooldown_ms=wanted.cooldown_ms,
        min_segments=wanted.min_segments,
        max_segments=most_growing(config),
    )


def check_policy(stream: str, config: StreamConfig) -> None:
    """Refuse a policy for a log that is scaled elsewhere, or one that leaves no number."""
    policy = policy_of(config)
    if policy is None:
        return
    if config.log == "external":
        raise LogIsExternalError(stream)
    if policy.min_segments > policy.max_segments:
        reason = (
            f"{policy.min_segments} is above the limit of growing segments, {policy.max_segments}: "
            "lower it, or raise max_segments"
        )
        raise InvalidRequestError.of("scaling.policy.min_segments", reason)


def amounts(state: StreamState, policy: Policy) -> Mapping[int, int]:
    """Return how much the segments have taken so far, in the unit of a policy."""
    log = state.embedded_log()
    return log.tails if policy.unit == "events" else log.sizes


def restore(state: StreamState, stored: str | None) -> None:
    """Continue from what was stored of the load; bytes are counted on."""
    load = Load() if stored is None else msgspec.json.decode(stored, type=Load)
    state.restore_load(load)
    if load.unit == "bytes" and isinstance(state.log, EmbeddedLog):
        state.log.sizes = dict(load.samples[-1].amounts)


def store(batch: Batch, state: StreamState, load: Load) -> None:
    """Go on with what was seen, and store it with the stream."""
    state.load = load
    state.store(batch, load=msgspec.json.encode(load).decode())


def describe(state: StreamState) -> ScalingInfo | None:
    """Describe the last sample of the policy, as far as it is durable."""
    policy, load = policy_of(state.published.config), state.published.load
    if policy is None:
        return None
    topology = state.published.topology
    per_s = scaling_policy.rates(load, policy)
    waits = scaling_policy.plan(load, policy, topology).waits
    return ScalingInfo(
        unit=policy.unit,
        segments=[
            SegmentLoad(
                number=number,
                per_s=round(per_s[number], 3) if number in per_s else None,
                waits=waits.get(number),
            )
            for number in topology.unsealed
        ],
        hot=[number for number in topology.unsealed if number in load.hot_until_ms],
        actions=[
            ScalingAction(
                created_ms=action.wall_ms,
                sealed=action.sealed,
                added=action.added,
                reason=action.reason,
            )
            for action in load.actions
        ],
    )
