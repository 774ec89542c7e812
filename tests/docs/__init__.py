"""The pages of docs/ are checked against the code, and their examples are run."""
