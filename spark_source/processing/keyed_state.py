"""State of a processor: values, lists and maps by name, of whichever key is at hand."""

from collections.abc import Iterator, MutableMapping, MutableSequence
from typing import Any, TypeVar, overload

T = TypeVar("T")


class CurrentState:
    """The state of the key at hand, which the operator puts in before it calls back.

    Attributes
    ----------
    named
        What each name holds; a name that holds nothing is not there.
    containers
        The names of lists and maps.
    """

    def __init__(self) -> None:
        self.named: dict[str, Any] = {}
        self.containers: list[str] = []

    def prune(self) -> None:
        """Remove empty lists and maps."""
        for name in self.containers:
            if name in self.named and not self.named[name]:
                del self.named[name]


class ValueState:
    """One value for each key; None means no value."""

    def __init__(self, current: CurrentState, name: str) -> None:
        self._current = current
        self._name = name

    def get(self, default: Any = None) -> Any:  # noqa: ANN401 (values are the user's)
        """Return the value, or the default where there is none."""
        return self._current.named.get(self._name, default)

    def set(self, value: object) -> None:
        """Set the value; None clears it."""
        if value is None:
            self.clear()
        else:
            self._current.named[self._name] = value

    def clear(self) -> None:
        """Remove the value."""
        self._current.named.pop(self._name, None)


class ListState(MutableSequence[Any]):
    """A list for each key, used like any list."""

    def __init__(self, current: CurrentState, name: str) -> None:
        self._current = current
        self._name = name

    @property
    def _items(self) -> list[Any]:
        items: list[Any] = self._current.named.setdefault(self._name, [])
        return items

    @overload
    def __getitem__(self, index: int) -> Any: ...  # noqa: ANN401 (as above)
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return self._items[index]

    def __setitem__(self, index: int | slice, value: Any) -> None:  # noqa: ANN401 (as above)
        self._items[index] = value

    def __delitem__(self, index: int | slice) -> None:
        del self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def insert(self, index: int, value: object) -> None:
        """Insert a value before an index."""
        self._items.insert(index, value)

    def clear(self) -> None:
        """Remove all items."""
        self._current.named.pop(self._name, None)


class MapState(MutableMapping[Any, Any]):
    """A dictionary for each key, used like any dictionary."""

    def __init__(self, current: CurrentState, name: str) -> None:
        self._current = current
        self._name = name

    @property
    def _items(self) -> dict[Any, Any]:
        items: dict[Any, Any] = self._current.named.setdefault(self._name, {})
        return items

    def __getitem__(self, field: Any) -> Any:  # noqa: ANN401 (as above)
        return self._items[field]

    def __setitem__(self, field: Any, value: Any) -> None:  # noqa: ANN401 (as above)
        self._items[field] = value

    def __delitem__(self, field: Any) -> None:  # noqa: ANN401 (as above)
        del self._items[field]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def clear(self) -> None:
        """Remove all items."""
        self._current.named.pop(self._name, None)


class OpenContext:
    """What `EventTimeProcessor.open` asks for its state.

    A name is used once in a processor, whichever kind of state it names.
    """

    def __init__(self, current: CurrentState) -> None:
        self._current = current
        self._names = set[str]()

    def value(self, name: str) -> ValueState:
        """Return state with one value for each key."""
        return ValueState(self._current, self._claim(name))

    def list(self, name: str) -> ListState:
        """Return state with a list for each key."""
        self._current.containers.append(self._claim(name))
        return ListState(self._current, name)

    def map(self, name: str) -> MapState:
        """Return state with a dictionary for each key."""
        self._current.containers.append(self._claim(name))
        return MapState(self._current, name)

    def _claim(self, name: str) -> str:
        if name in self._names:
            msg = f"the processor has a state {name!r} already; give each a name of its own"
            raise ValueError(msg)
        self._names.add(name)
        return name
