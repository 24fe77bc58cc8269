"""What a controller that stands by says of the one that holds the database, and of why it takes over."""

import logging

import pytest

from tests.simulation.quiet import QuietWorld

pytestmark = pytest.mark.parametrize("world", [2], indirect=True)


def test_a_standby_says_once_that_the_holder_has_its_own_address(
    world: QuietWorld, caplog: pytest.LogCaptureFixture
) -> None:
    holder, standby = world.controllers
    world.kill(standby)
    standby.url = holder.url
    world.start(standby)
    world.sleep(5)
    (said,) = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert said.getMessage() == (
        f"another controller holds the database, and has the --advertise-url {holder.url} of this "
        "one: give each controller a URL of its own"
    )
    said_to_callers = standby.app.process.standby
    assert (
        "a controller without a URL of its own, or none, holds the database" in said_to_callers
    )


def test_a_free_row_of_another_server_is_taken_for_a_failover(
    world: QuietWorld, caplog: pytest.LogCaptureFixture
) -> None:
    for controller in world.controllers:
        controller.stop()
        world.run(controller.until_ended())
    caplog.clear()
    world.disk.crash(takes_back=0, is_promoted=True)
    world.start(world.controllers[0])
    (said,) = [one for one in caplog.messages if one.startswith("holds the database")]
    assert said == (
        "holds the database: the database was failed over: its row was written on another server"
    )
