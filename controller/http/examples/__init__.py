"""An example of every call, in the order of a story that a test plays against a server."""

from controller.http.examples.events import APPENDING
from controller.http.examples.example import Example
from controller.http.examples.groups import GROUPS
from controller.http.examples.marks import READING
from controller.http.examples.operations import OPERATING
from controller.http.examples.streams import BEGINNING, END
from controller.http.examples.writers import LEAVING, NOTING

EXAMPLES: tuple[Example, ...] = (
    *BEGINNING,
    *NOTING,
    *APPENDING,
    *READING,
    *GROUPS,
    *LEAVING,
    *END,
    *OPERATING,
)

__all__ = ["EXAMPLES", "Example"]
