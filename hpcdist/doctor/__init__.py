"""The doctor: checks a machine for problems before jobs run into them.

host_info connectivity allreduce    programs that tasks run: facts of a host, connections, all-reduces
finding records    what the doctor reports; the JSON that those programs write
batch software limits devices runs    the commands of each group of checks, and their findings; pure
login    runs all checks of this host: the only module that starts processes
bandwidth exchanges pairing    programs that tasks run: bandwidths between nodes, which of them are slow
measurement candidates    findings from those bandwidths; settings that are measured side by side
tasks    findings from the records of a job's tasks; pure
"""
