"""How a store is kept: settings, checked when they are built."""

from __future__ import annotations

from dataclasses import dataclass, field

from oort.errors import require


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """How a durable selector keeps its store."""

    lease_s: float = field(
        default=10.0,
        metadata={"doc": "seconds without a sign of life until another machine may take over"},
    )
    snapshot_entries: int = field(
        default=1_000, metadata={"doc": "journal entries after which a snapshot is taken"}
    )
    snapshot_bytes: int = field(
        default=64 << 20, metadata={"doc": "bytes of journal after which a snapshot is taken"}
    )
    patience_s: float = field(
        default=30.0, metadata={"doc": "seconds that a call waits for a server that went away"}
    )

    def __post_init__(self) -> None:
        require(self.lease_s > 0, "StoreConfig.lease_s", "above 0 seconds", self.lease_s)
        for name in ("snapshot_entries", "snapshot_bytes"):
            value = getattr(self, name)
            require(value >= 1, f"StoreConfig.{name}", "1 or more", value)
        require(self.patience_s >= 0, "StoreConfig.patience_s", "0 or more", self.patience_s)
