"""Runs migrations on the connection of `packager.service.store.migration`. Tests: service/store/test_migration.py."""

from alembic import context

from packager.service.store.models import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
