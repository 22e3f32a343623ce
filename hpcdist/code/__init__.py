"""Code: what the program of a job is made of, recorded and, if wanted, copied when the job is submitted.

git    commands of git, and how names and URLs in its answers are read
prepare    the three ways together: what `submit` does
"""
