"""How many streams each controller is to hold: a pure function of how many it holds now."""

from collections.abc import Mapping


def shares(held: Mapping[int, int], total: int) -> dict[int, int]:
    """Share out ``total`` evenly, so that as few as possible have to move.

    Returns
    -------
    dict
        By controller, how many it should hold; they differ by one at most.
    """
    fewest, more = divmod(total, len(held))
    order = sorted(held, key=lambda controller: (-held[controller], controller))
    return {controller: fewest + (rank < more) for rank, controller in enumerate(order)}
