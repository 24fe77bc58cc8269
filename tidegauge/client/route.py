"""Which controller of a service to ask: its own addresses, and where the one that stands by points."""

from urllib.parse import urlsplit

import httpx

from tidegauge.client.addresses import check_url


class Route:
    """The addresses of a service's controllers, in the order in which to ask them.

    One controller holds the database, and the others stand by. The address that answered last
    comes first.

    Attributes
    ----------
    urls
        The addresses as they were given.
    databases
        Which database each of these named; empty if it names none.
    proofs
        Of each target that named the same database as a standby: that, and the standby's address.
    """

    def __init__(self, urls: list[str]) -> None:
        self.urls = urls
        self.databases: dict[str, str] = {}
        self.proofs: dict[str, tuple[str, str]] = {}
        self._order = list(urls)
        self._holder: str | None = None

    def candidates(self) -> list[str]:
        """Return the addresses to ask, each once, the one that answered last first."""
        holder = [] if self._holder is None else [self._holder]
        return [*holder, *(url for url in self._order if url != self._holder)]

    def is_unheard(self, url: str) -> bool:
        """Return whether an address is a given one that was not asked yet which database it is of."""
        return url in self.urls and url not in self.databases

    def prefer(self, url: str) -> None:
        """Record that the controller at an address answered: it is asked first from now on."""
        self._holder = url

    def demote(self, url: str) -> None:
        """Record that a controller was lost while it answered: it is asked last from now on."""
        self._holder = None
        self.proofs.pop(url, None)
        if url in self._order:
            self._order.remove(url)
            self._order.append(url)


def target_of(location: str, *, asked: str, path: str) -> str:
    """Return the address of the controller that a redirect of a standby names.

    The location is the holder's address followed by the path and the query of the request.
    Raises ``ConnectError`` if a client must not ask there.
    """
    holder = location.partition("?")[0].removesuffix(path)
    try:
        check_url(holder)
    except ValueError as error:
        reason = f"{asked} stands by, and the address of the holder is wrong: {error}"
        raise httpx.ConnectError(reason) from None
    if urlsplit(asked).scheme == "https" and urlsplit(holder).scheme != "https":
        reason = (
            f"{asked} stands by for {holder}, where no token is sent without https; let the "
            "controllers advertise https"
        )
        raise httpx.ConnectError(reason)
    return holder
