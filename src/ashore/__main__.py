"""``python -m ashore`` is the same as ``ashore``."""

from ashore.cli import main

if __name__ == "__main__":
    main()
