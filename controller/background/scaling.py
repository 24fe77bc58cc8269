"""Scaling streams by their policies, in the background."""

import asyncio
import logging
from dataclasses import dataclass
from functools import partial

from controller.commit.batch import Batch
from controller.commit.sequencer import Sequencer
from controller.streams import lifecycle, load
from controller.streams.registry import Registry
from controller.streams.stream import StreamState
from tidegauge import scaling_policy
from tidegauge.scaling_policy import Policy
from tidegauge.wire.streams import ScaleStream

_log = logging.getLogger(__name__)
_PERIOD_S = 0.5  # a quarter of the shortest window


@dataclass(frozen=True, slots=True)
class Scaler:
    """Looks at the load of every stream that has a policy, a few times in each window."""

    _registry: Registry
    _sequencer: Sequencer

    async def run(self) -> None:
        """Check until cancelled; what fails meanwhile is done at the next check."""
        while True:
            await asyncio.sleep(_PERIOD_S)
            samples = [
                self._sequencer.submit_quietly(partial(sample, state=state))
                for state in self._registry
                if _due_policy(state) is not None
            ]
            if samples:
                await asyncio.wait(samples)


def sample(batch: Batch, state: StreamState) -> None:
    """Measure the load of a stream, and do what its policy says, in one transaction."""
    policy = _due_policy(state)
    if policy is None:
        return
    topology, former = state.aggregator.topology, state.load
    seen = scaling_policy.seen(
        former, policy, topology, load.amounts(state, policy), state.listening_ms
    )
    load.store(batch, state, seen)
    stream = str(state.identity.name)
    for number in seen.hot_until_ms.keys() - former.hot_until_ms.keys():
        _log.warning("hot key", extra={"stream": stream, "segment": number})
    for step in scaling_policy.plan(seen, policy, topology).steps:
        request = ScaleStream(seal=step.seal, ranges=[tuple(one) for one in step.ranges])
        lifecycle.scale_stream(batch, state, request, reason=step.reason)


def _due_policy(state: StreamState) -> Policy | None:
    """Return the policy of a stream whose next sample is due."""
    policy = load.policy_of(state.config)
    if policy is None or not state.durable or state.deleted or state.aggregator.final:
        return None
    return policy if scaling_policy.is_due(state.load, policy, state.listening_ms) else None
