"""What every async client is: something to be closed, also by `async with`."""

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """Closed when its `async with` block ends."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of the brokers."""

    @abstractmethod
    def abandon(self) -> None:
        """Close the connections and nothing more: nobody holds this client any longer."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
