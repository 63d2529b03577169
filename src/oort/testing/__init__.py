"""Choosing who tests."""
