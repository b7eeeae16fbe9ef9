"""Runs migrations on the connection that `packager.service.store.migration` passes."""

from alembic import context

from packager.service.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
