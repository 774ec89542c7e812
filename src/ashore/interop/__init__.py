"""The neighbours' formats, read and written."""
