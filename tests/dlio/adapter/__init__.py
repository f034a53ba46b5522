"""Tests of the adapter by its modules; run by adapter_units.py."""
