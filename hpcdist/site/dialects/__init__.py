"""Dialects: what one site's batch system wants said differently; a section of the site file for each."""
