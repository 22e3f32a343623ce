"""Export: what runs recorded, handed to MLflow, to TensorBoard and to files; a module a destination.

items    what a destination gets: a run, or an element of its array, read once for all of them
kept    the files of artifacts and models
files    files that are written as a whole
table    every value as a line of CSV
archive    a tar archive of models, and of what they were made from
tensorboard    event files
mlflow    a server of MLflow
"""
