"""The doctor: what could keep jobs from running well here, found out before they do.

look meet add_up    programs of their own, which tasks run: what a host shows; do tasks meet; all-reduces
finding records    what is told; what those programs write, read at the border
batch software limits devices runs    what to ask, and what the answers mean, group by group; pure
login    asks all of that on this host: the one place that looks
tasks    what the records of a job's tasks mean; pure
"""
