"""The version of this package."""

__version__ = "0.12.0"
