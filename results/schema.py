"""The tables of a store. ``record`` is one launch of one cell; with its host the cell is the series it belongs to."""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData()
meta = sa.Table("meta", metadata, sa.Column("key", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False))
host = sa.Table("host", metadata, sa.Column("key", sa.Text, primary_key=True), sa.Column("facts", sa.Text, nullable=False))
run = sa.Table(
    "run",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("started", sa.Double, nullable=False),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("host", sa.ForeignKey("host.key"), nullable=False),
    sa.Column("plan", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
)
cell = sa.Table("cell", metadata, sa.Column("key", sa.Text, primary_key=True), sa.Column("fields", sa.Text, nullable=False))
record = sa.Table(
    "record",
    metadata,
    sa.Column("run", sa.ForeignKey("run.id"), primary_key=True),
    sa.Column("cell", sa.ForeignKey("cell.key"), primary_key=True),
    sa.Column("launch", sa.Integer, primary_key=True),
    sa.Column("host", sa.ForeignKey("host.key"), nullable=False),  # with the cell it is the series
    sa.Column("started", sa.Double, nullable=False),
    sa.Column("spans", sa.LargeBinary, nullable=False),  # int64, little-endian
    sa.Column("measurement", sa.Text, nullable=False),  # JSON, without the spans
    sa.Index("record_by_series", "host", "cell", "started"),
)
mark = sa.Table(
    "mark",
    metadata,
    sa.Column("run", sa.ForeignKey("run.id"), primary_key=True),
    sa.Column("cell", sa.Text, nullable=False),
    sa.Column("launch", sa.Integer, nullable=False),
    sa.Column("boot_id", sa.Text, nullable=False),
)
