"""Tracking: what programs recorded while they ran, read from plain files of the run directory.

files    the files that processes write: one each, by job, attempt and rank; how far attempts got
traces loggers    metrics in traces of Horovod and PyTorch; metrics that other loggers write
series    the values of each metric, joined over all attempts; its last value; fewer points of a long series
trial_params    the params of the trials of a search
comparison    params, last metrics and models of several runs
outputs    the files of the outputs, compared with what was recorded
report report_data report_plots    a page for a browser: the file, what it shows of each run, its plots
export    runs as items; CSV, an archive, event files of TensorBoard
mlflow mlflow_client    the same sent to an MLflow server, by MLflow's client
"""
