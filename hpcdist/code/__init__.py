"""Code: what the program of a job is made of, recorded and, if wanted, copied when the job is submitted.

git    commands of git, and how names and URLs in its answers are read
state    commit, branch, remote and changes of the folder
listing    which files a snapshot has
snapshot    the copy of these files
clone    a commit of a repository
prepare    the three ways together: what `submit` does
"""
