"""MLflow: an item is one run there, found again by its tag ``hpcdist.run``; only what is new is sent.

A kill at any moment leaves what the next export completes: a run is made together with its tag, points are
compared with the history that is there, files are sent again unless the list of them, which is sent last, has
their hashes, and a version of a model is found by its run and hash.

client    MLflow's own client within bounds; its errors as sentences
server    runs: their tags, params, points and states
files    artifacts, and models in the registry
form    what MLflow takes: names, values, times and states
"""
