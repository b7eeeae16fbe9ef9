"""Jobs have the key of their owner; so have the responses to requests with an idempotency key."""

from alembic import op
from sqlalchemy import Column, text

from packager.service.store.columns import Text

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Give existing jobs to the tokens with the names of their creators: subjects of an issuer are not stored.

    So no caller gets a job that they could not change before. Jobs of an issuer's users can only be changed by
    callers who may act for others.
    """
    for column in ("owner", "requester"):
        op.add_column("jobs", Column(column, Text, nullable=False, server_default=""))
    op.execute(
        "UPDATE jobs SET owner = 'token:' || creator, requester = 'token:' || coalesce((SELECT actor FROM job_events"
        " WHERE job_events.release = jobs.release AND job_events.sequence = 1), creator)"
    )
    connection = op.get_bind()
    for (caller,) in connection.execute(text("SELECT DISTINCT caller FROM requests")).all():
        name, _, projects = caller.partition("@")
        values = {"before": caller, "after": f"{projects or '*'} token:{name}"}
        connection.execute(text("UPDATE requests SET caller = :after WHERE caller = :before"), values)
