"""The story that the examples of all calls tell."""

from typing import Any

import httpx

from controller.http.examples import NAMES


class StoryClient(httpx.Client):
    """Sends examples; they name a transaction by an id that the service did not choose."""

    _transaction = NAMES["transaction"]

    def request(self, method: str, url: Any, **kwargs: Any) -> httpx.Response:
        url = str(url).replace(NAMES["transaction"], self._transaction)
        answer = super().request(method, url, **kwargs)
        if answer.status_code == httpx.codes.CREATED and url.endswith("/transactions"):
            self._transaction = answer.json()["id"]
        return answer
