"""Remotes: machines that are reached by the user's own ssh, with nothing of hpcdist on them.

A remote is a runner of commands there, plus a mirror: the run directory here has the files of the one there,
except outputs, which are fetched, and code.

connection    one connection of ssh for all sessions; why it fails, as sentences
channel program    one round trip: what is sent to the shell there, and what comes back
fetching    outputs come back
tunnels    what jobs there serve is reached here
machines here    the remotes of the user's config, as runners; states and small files come back
"""
