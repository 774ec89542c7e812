"""Compiled packages in C and C++: built, run and compared."""
