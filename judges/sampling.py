"""How a judge model is asked to sample.

One record serves judges, models and configs, so that resolving them is nothing but laying one over another. A field
that is not set is not sent: the endpoint's own default stands.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field


class Sampling(BaseModel):
    """Sampling parameters of a request; what is not set is not sent."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    temperature: Annotated[float, Field(ge=0)] | None = None
    """0: as much the same reply each time as the endpoint can."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens of the reply at most; reasoning counts where the endpoint counts it."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Nucleus sampling."""
    seed: int | None = None
    """The endpoint's own seed, where it has one."""
    stop: list[str] | None = None
    """Texts at which the reply ends."""

    def over(self, base: Sampling) -> Sampling:
        """This laid over `base`: what is set here wins."""
        return Sampling(**{**base.body(), **self.body()})

    def body(self) -> dict[str, Any]:
        """The fields that are set, as the request body names them."""
        return self.model_dump(exclude_none=True)
