"""The verbs of machines: their sites, and what could keep jobs from running well there.

sites sites_check sites_init sites_lint site_text    `sites` and its own verbs
doctor doctor_job lint_env    what could keep jobs from running well
"""
