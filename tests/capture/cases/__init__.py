"""What environment code does, in as many spellings as people write it, and what becomes of each.

Every case is a small piece of user code with a ``step`` and a ``reset``. It is recorded, exported, and the package is
then run beside a fresh instance of the same code, on inputs that were not recorded. Either the two agree, or the export
fails with the named finding. ``docs/cases.md`` is written from this list.
"""
