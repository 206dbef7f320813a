"""Mistakes of programs."""
