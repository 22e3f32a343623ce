"""Dialects: site-specific settings of one batch system or container runtime, a section each."""
