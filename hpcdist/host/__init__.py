"""The interface to the machine that hpcdist runs on: processes, files, locks, shipped data.

command shell    a command and its result; the only module that starts processes
ownership locks    files and folders that other users may write to; locks, and appended lines
alarm    a bound in time
resources    the user's folders; shipped templates and site files
"""
